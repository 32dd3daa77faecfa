import numpy as np
import pytest
import tiny_zoo
import torch
from described_families import FAMILIES
from torch import nn

import wsl.augment
from wsl.augment import (
    AddNoise,
    Augmentation,
    AugmentError,
    DropWeights,
    FlipSigns,
    MaskSmallest,
    Networks,
    Permute,
    Rescale,
    ShiftPhases,
    augment,
)
from wsl.models import Siren, coordinate_grid
from wsl.spec import WeightSpec
from wsl.testing import random_weights
from wsl.trace import trace

STD = dict.fromkeys(tiny_zoo.SPEC.tensors, 2.0)


def networks(count, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    drawn = [Siren(2, (6, 5), 1, generator=generator).state_dict() for _ in range(count)]
    return {name: torch.stack([network[name] for network in drawn]).to(dtype) for name in drawn[0]}


def outputs(weights):
    module = Siren(2, (6, 5), 1).double()
    points = coordinate_grid((4, 4), dtype=torch.float64)
    run = torch.func.vmap(lambda w: torch.func.functional_call(module, w, (points,)))
    return run(weights)


def change(augmentation, weights, seed=1):
    return changed(tiny_zoo.SPEC, weights, [augmentation], torch.Generator().manual_seed(seed))


def changed(spec, weights, augmentations, generator, std=STD):
    module = Siren(2, (6, 5), 1) if spec is tiny_zoo.SPEC else None
    given = Networks(spec, weights, std=std, module=module)
    return augment(given, augmentations, generator=generator).weights


@pytest.mark.parametrize("augmentation", [Permute(), FlipSigns(), ShiftPhases(3)])
def test_symmetries_move_the_weights_and_keep_the_function(augmentation):
    weights = networks(5)
    before = {name: tensor.clone() for name, tensor in weights.items()}
    moved = change(augmentation, weights)
    torch.testing.assert_close(outputs(moved), outputs(weights), rtol=0, atol=1e-9)
    assert not torch.equal(moved["layers.1.weight"], weights["layers.1.weight"])
    assert all(torch.equal(weights[name], before[name]) for name in weights), "the input is left as it is"
    assert not torch.equal(moved["layers.0.bias"][0], moved["layers.0.bias"][1])


@pytest.mark.parametrize("augmentation", [Permute(), FlipSigns(), Rescale(0.5)])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_families_linear_and_repeated_axes_keep_the_function(augmentation, name):
    build, inputs, spec = FAMILIES[name]
    module = build().double().eval()
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(inputs.shape, generator=generator, dtype=torch.float64)
    weights = random_weights(spec, 2, generator)
    moved = changed(spec, weights, [augmentation], generator)
    for b in range(2):
        before, after = (
            torch.func.functional_call(module, {key: tensor[b] for key, tensor in w.items()}, (inputs,))
            for w in (weights, moved)
        )
        torch.testing.assert_close(after, before, rtol=1e-10, atol=1e-10)
    kinds = {Permute: {None}, FlipSigns: {"sign", "linear"}, Rescale: {"positive", "linear"}}
    acts = kinds[type(augmentation)] & {None, *(scaling.kind for scaling in spec.scalings)}
    assert any(not torch.equal(moved[key], weights[key]) for key in weights) == bool(acts)


class Normed(nn.Module):
    """Convolutions with batch norms behind and before them, a residual connection, and a tanh."""

    def __init__(self):
        super().__init__()
        self.stem, self.first_norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.inner, self.second_norm = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.plain = nn.BatchNorm1d(4, affine=False)
        self.hidden, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x):
        x = self.first_norm(self.stem(x)).relu()
        x = (x + self.second_norm(self.inner(x))).relu().mean((2, 3))
        return self.head(self.hidden(self.plain(x)).tanh())


def run(module, weights, inputs):
    """Outputs of networks that cannot be batched, one after the other."""
    states = [{key: tensor[b] for key, tensor in weights.items()} for b in range(3)]
    return torch.stack([torch.func.functional_call(module, state, (inputs,)) for state in states])


@pytest.mark.parametrize("augmentation", [Permute(), FlipSigns(), Rescale(0.5)])
def test_networks_with_batch_norm_keep_their_function(augmentation):
    module, generator = Normed().double().eval(), torch.Generator().manual_seed(0)
    images = torch.randn(4, 1, 6, 6, generator=generator, dtype=torch.float64)
    spec = trace(module, images)
    weights = random_weights(spec, 3, generator)
    moved = changed(spec, weights, [augmentation], generator)
    torch.testing.assert_close(run(module, moved, images), run(module, weights, images), rtol=1e-9, atol=1e-9)
    assert any(not torch.equal(moved[name], weights[name]) for name in weights)


@pytest.mark.parametrize("augmentation", [AddNoise(2.0), DropWeights(0.9), MaskSmallest(0.9)])
def test_running_statistics_get_no_noise_and_no_mask(augmentation):
    spec = trace(Normed().eval(), torch.zeros(4, 1, 6, 6))
    weights = random_weights(spec, 3, torch.Generator().manual_seed(0))
    std = dict.fromkeys((ref.key for ref in spec.blocks), 1.0)
    moved = changed(spec, weights, [augmentation], torch.Generator().manual_seed(1), std)
    kept = {name for name in weights if "running" in name}
    assert len(kept) == 6 and all(torch.equal(moved[name], weights[name]) for name in kept)
    for name in ("stem.weight", "inner.weight", "head.weight"):
        assert not torch.equal(moved[name], weights[name]), name


def test_members_of_a_family_are_moved_apart():
    spec = FAMILIES["slots"].spec
    weights = {key: torch.ones(1, 2, 3, 2) * torch.arange(1.0, 4).view(1, 1, 3, 1) for key in spec.tensors}
    for augmentation in (Permute(), Rescale()):
        generator = torch.Generator().manual_seed(1)
        moved = changed(spec, weights, [augmentation], generator)["write"][0]
        assert not torch.equal(moved[0], moved[1]), augmentation


def test_networks_are_moved_independently():
    one = networks(1)
    same = {name: tensor.expand(8, *tensor.shape[1:]) for name, tensor in one.items()}
    for augmentation in (Permute(), FlipSigns(), ShiftPhases(), AddNoise(0.1), DropWeights(0.3)):
        moved = torch.cat([tensor.flatten(1) for tensor in change(augmentation, same).values()], dim=1)
        assert len(torch.unique(moved, dim=0)) == 8, augmentation


def test_noise_has_the_scale_of_its_tensor():
    weights = {name: tensor.expand(4000, *tensor.shape[1:]) for name, tensor in networks(1).items()}
    std = {**STD, "layers.1.weight": 5.0}
    generator = torch.Generator().manual_seed(0)
    moved = changed(tiny_zoo.SPEC, weights, [AddNoise(0.1)], generator, std)
    for name, scale in std.items():
        noise = moved[name] - weights[name]
        assert noise.std().item() == pytest.approx(0.1 * scale, rel=0.05)
        assert abs(noise.mean().item()) < 0.02 * scale


def test_dropped_weights_are_zero_and_as_many_as_asked():
    weights = {name: tensor.expand(500, *tensor.shape[1:]) for name, tensor in networks(1).items()}
    moved = change(DropWeights(0.25), weights)
    dropped = torch.cat([(moved[name] == 0).flatten() for name in moved]).double().mean().item()
    kept = all(((moved[n] == 0) | (moved[n] == weights[n])).all() for n in weights)
    assert kept and dropped == pytest.approx(0.25, abs=0.01)


def test_rescale_uses_positive_scalings_only():
    spec = WeightSpec.parse(
        """
        axes   h1: 3 hidden relu positive   x: 2 input   y: 1 output
        a.weight  h1 x
        a.bias    h1
        b.weight  y h1
        scaling:  h1 positive a.weight+1 a.bias+1 b.weight-1
        """
    )
    weights = {
        "a.weight": torch.randn(4, 3, 2),
        "a.bias": torch.randn(4, 3),
        "b.weight": torch.randn(4, 1, 3),
    }
    generator = torch.Generator().manual_seed(0)
    moved = changed(spec, weights, [Rescale(0.5)], generator)
    hidden = torch.relu(weights["a.weight"].sum(2) + weights["a.bias"])
    scaled = torch.relu(moved["a.weight"].sum(2) + moved["a.bias"])
    torch.testing.assert_close(
        (moved["b.weight"] @ scaled[..., None]),
        (weights["b.weight"] @ hidden[..., None]),
        rtol=1e-5,
        atol=1e-5,
    )
    assert not torch.allclose(moved["a.bias"], weights["a.bias"])
    same = changed(spec, weights, [FlipSigns()], generator)
    assert torch.equal(same["a.bias"], weights["a.bias"]), "a ReLU has no sign symmetry"


def test_the_generator_decides_everything():
    weights = networks(3)
    chain = [Permute(), FlipSigns(), ShiftPhases(), AddNoise(0.1), DropWeights(0.1), MaskSmallest(0.1)]
    runs = []
    for seed in (7, 7, 8):
        torch.manual_seed(np.random.randint(1000))
        generator = torch.Generator().manual_seed(seed)
        runs.append(changed(tiny_zoo.SPEC, weights, chain, generator)["layers.1.weight"])
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


def test_masked_weights_are_the_smallest_of_each_block():
    weights = networks(300)
    moved = change(MaskSmallest(0.5), weights)
    shares = []
    for name, tensor in weights.items():
        before, after = tensor.flatten(1).abs(), moved[name].flatten(1).abs()
        gone = after == 0
        assert torch.equal(after[~gone], before[~gone])
        largest_gone = before.where(gone, 0).amax(1)
        assert (before.where(~gone, torch.inf).amin(1) > largest_gone).all()
        shares.append(gone.double().mean(1))
    share = shares[list(weights).index("layers.1.weight")]
    assert share.min() < 0.05 and 0.45 < share.max() <= 0.5
    assert share.mean().item() == pytest.approx(0.25, abs=0.03)


def test_every_augmentation_says_whether_it_preserves_the_function():
    """And those that claim it are tested by running networks; half a half period is no symmetry."""
    public = [getattr(wsl.augment, name) for name in wsl.augment.__all__]
    kinds = [cls for cls in public if isinstance(cls, type) and issubclass(cls, Augmentation)]
    said = {cls: cls.preserves_function for cls in kinds if cls is not Augmentation}
    assert {cls for cls, keeps in said.items() if keeps} == {Permute, FlipSigns, Rescale, ShiftPhases}
    weights = networks(3)
    for cls in (Permute, FlipSigns, ShiftPhases):
        torch.testing.assert_close(outputs(change(cls(), weights)), outputs(weights), rtol=0, atol=1e-9)
    for changes in (AddNoise(), DropWeights(), MaskSmallest(0.9)):
        assert not torch.allclose(outputs(change(changes, weights)), outputs(weights))


def test_phases_move_by_half_periods_and_only_whole_ones_keep_the_function():
    weights = networks(40)
    moved = change(ShiftPhases(2), weights)
    for i in (0, 1):
        halves = (moved[f"layers.{i}.bias"] - weights[f"layers.{i}.bias"]) * 30 / torch.pi
        assert set(halves.round().flatten().tolist()) == {-2, -1, 0, 1, 2}
        torch.testing.assert_close(halves, halves.round(), rtol=0, atol=1e-9)
    half = {**weights, "layers.0.bias": weights["layers.0.bias"] + torch.pi / 60}
    assert not torch.allclose(outputs(half), outputs(weights))


def test_layers_without_biases_have_no_phases():
    module = Siren(2, (6, 5), 1, w0=7.0).double()
    module.layers[0].register_parameter("bias", None)
    weights = {name: tensor for name, tensor in networks(3).items() if name != "layers.0.bias"}
    points = coordinate_grid((4, 4), dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    given = Networks(trace(module, points), weights, module=module)
    for augmentation in (ShiftPhases(4), FlipSigns()):
        moved = augment(given, [augmentation], generator=generator).weights
        torch.testing.assert_close(
            run(module, moved, points), run(module, weights, points), rtol=0, atol=1e-9
        )
        assert not torch.equal(moved["layers.1.bias"], weights["layers.1.bias"])
    moved = augment(given, [ShiftPhases(4)], generator=generator).weights
    assert torch.equal(moved["layers.0.weight"], weights["layers.0.weight"])


@pytest.mark.parametrize(
    "kind", [Permute, FlipSigns, Rescale, ShiftPhases, AddNoise, DropWeights, MaskSmallest]
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_type_of_numbers_stays_and_gradients_pass(kind, dtype):
    weights = networks(3, dtype)
    moved = change(kind(), weights)
    assert all(tensor.dtype == dtype and not tensor.requires_grad for tensor in moved.values())
    learned = {name: tensor.requires_grad_() for name, tensor in networks(3, dtype).items()}
    found = change(kind(), learned)
    assert all(torch.equal(found[name], moved[name]) for name in moved)
    total = sum(tensor.square().sum() for tensor in found.values())
    for gradient in torch.autograd.grad(total, list(learned.values())):
        assert gradient.isfinite().all() and gradient.any()


def test_phases_follow_the_frequency_of_each_layer():
    generator = torch.Generator().manual_seed(0)
    module = Siren(2, (6, 5), 1, w0=7.0, first_w0=12.0, generator=generator).double()
    weights = {name: tensor.unsqueeze(0) for name, tensor in module.state_dict().items()}
    given = Networks(tiny_zoo.SPEC, weights, module=module)
    moved = augment(given, [ShiftPhases(4)], generator=generator).weights
    points = coordinate_grid((4, 4), dtype=torch.float64)
    found = torch.func.functional_call(module, {name: w[0] for name, w in moved.items()}, (points,))
    assert not torch.equal(moved["layers.0.bias"], weights["layers.0.bias"])
    torch.testing.assert_close(found, module(points), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: AddNoise(-1),
        lambda: DropWeights(1.0),
        lambda: MaskSmallest(1.0),
        lambda: Rescale(-0.1),
        lambda: ShiftPhases(-1),
    ],
)
def test_impossible_arguments(wrong):
    with pytest.raises(AugmentError, match="expected"):
        wrong()


def test_what_the_networks_lack_is_said():
    given = Networks(tiny_zoo.SPEC, networks(2))
    with pytest.raises(AugmentError, match="standard deviation"):
        augment(given, [AddNoise()], generator=torch.Generator())
    with pytest.raises(AugmentError, match="needs a Siren and was given no module"):
        augment(given, [ShiftPhases()], generator=torch.Generator())
