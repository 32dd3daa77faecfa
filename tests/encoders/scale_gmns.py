"""What both scale equivariant graph metanetworks must do under scalings, beside the battery of encoders."""

from collections.abc import Callable, Iterator
from functools import lru_cache

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_networks import MLP, largest_difference, traced
from suite import Suite
from torch import Tensor, nn

import wsl
from wsl.encoders import ScaleFeatures, ScaleGMN
from wsl.nn import EquivariantHead, InvariantHead, ScaleEquivariantHead, sign_characters
from wsl.spec import SpecError, WeightSpec
from wsl.symmetry import Action, apply, apply_to_features, apply_to_nodes, sample
from wsl.testing import assert_equivariant, assert_invariant, random_specs, random_weights


def mlp(*activations: nn.Module, bias: bool = True) -> WeightSpec:
    """A traced MLP with these activations."""
    widths = [2, *(4 + i % 2 for i in range(len(activations))), 2]
    layers: list[nn.Module] = []
    for i, activation in enumerate(activations):
        layers += [nn.Linear(widths[i], widths[i + 1], bias=bias), activation]
    layers.append(nn.Linear(widths[-2], widths[-1]))
    return wsl.trace(nn.Sequential(*layers), torch.randn(2, 2))


def cnn(*activations: nn.Module) -> WeightSpec:
    """A traced CNN with two activations."""
    layers = nn.Sequential(
        nn.Conv2d(1, 3, 3), activations[0], nn.Conv2d(3, 2, 3), activations[1], nn.Flatten(), nn.Linear(8, 2)
    )
    return wsl.trace(layers, torch.randn(2, 1, 6, 6))


SCALED: dict[str, Callable[[], WeightSpec]] = {
    "positive": lambda: mlp(nn.ReLU(), nn.ReLU()),
    "sign": lambda: mlp(nn.Tanh(), nn.Tanh(), bias=False),
    "mixed": lambda: mlp(nn.ReLU(), nn.Tanh(), nn.GELU(), nn.Tanh()),
    "linear": lambda: mlp(nn.Identity(), nn.ReLU(), bias=False),
    "one layer": mlp,
    "cnn": lambda: cnn(nn.ReLU(), nn.Tanh()),
    "cnn with norm": lambda: traced("cnn"),
    **{name: lambda name=name: traced(name) for name in ("siren", "resnet", "lstm", "transformer")},
}


@lru_cache
def scaled(name: str) -> WeightSpec:
    return SCALED[name]()


def scalings(spec: WeightSpec) -> set[str]:
    return {scaling.kind for scaling in spec.scalings}


def assert_scales(encoder: ScaleGMN, spec: WeightSpec) -> None:
    """Features only permute; carriers and what is made of them scale; the invariant head sees neither."""
    weights = random_weights(spec, 2)
    action = sample(spec, 2, scale=True, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    before, after = encoder(weights), encoder(apply(spec, action, weights))
    order = Action(action.permutations)
    pairs = [
        (apply_to_features(spec, order, before.tensors), after.tensors),
        (apply_to_nodes(spec, order, before.nodes), after.nodes),
        (apply_to_features(spec, action, before.carriers), after.carriers),
    ]
    for expected, found in pairs:
        for key in expected:
            limit = 1e-9 * (1 + expected[key].abs().max().item())
            assert (expected[key] - found[key]).abs().max() <= limit, key
    head = ScaleEquivariantHead(spec, encoder.channels, scale=1.0).double()
    assert_equivariant(nn.Sequential(encoder, head), spec, scale=True, trials=1)
    pool = InvariantHead(spec, encoder.channels, 3).double()
    assert_invariant(nn.Sequential(encoder, pool), spec, scale=True, trials=1)


class ScaleSuite(Suite):
    """Subclass it as ``TestName``, and implement :meth:`make`."""

    def seeded(self, spec: WeightSpec) -> ScaleGMN:
        encoder = super().seeded(spec)
        assert isinstance(encoder, ScaleGMN)
        return encoder

    @pytest.mark.parametrize("name", SCALED)
    def test_scales_along_with_the_weights(self, name: str) -> None:
        spec = scaled(name)
        encoder = self.seeded(spec).double()
        assert not encoder.unscaled
        assert_scales(encoder, spec)

    @settings(max_examples=10, suppress_health_check=[HealthCheck.differing_executors])
    @given(data=st.data())
    def test_scales_along_on_random_specs(self, data: st.DataObject) -> None:
        spec = data.draw(random_specs(["mlp", "lstm", "low_rank"], max_size=4))
        assert_scales(self.seeded(spec).double(), spec)

    def test_scaled_networks_are_seen(self) -> None:
        """A scaling that the activation does not allow changes the features."""
        for name, allowed in (("positive", nn.GELU()), ("sign", nn.GELU())):
            spec, other = scaled(name), mlp(allowed, allowed, bias=name == "positive")
            assert spec.tensors == other.tensors and not other.scalings
            weights = random_weights(spec, 1)
            action = sample(spec, 1, permute=False, scale=True, dtype=torch.float64)
            moved = apply(spec, action, weights)
            assert largest_difference(*(self.seeded(spec).double()(w) for w in (weights, moved))) < 1e-8
            assert largest_difference(*(self.seeded(other).double()(w) for w in (weights, moved))) > 1e-2

    def test_parts_of_scalings_are_seen(self) -> None:
        """Neither one tensor of a scaling alone, nor one sign of one weight, goes by unseen.

        It takes as many rounds as layers until states that change sign reach the outputs.
        """
        for name in ("positive", "sign", "mixed", "cnn"):
            spec = scaled(name)
            encoder = type(self.seeded(spec))(spec, channels=8, layers=5, frequencies=3).double()
            weights = random_weights(spec, 1)
            before = encoder(weights)
            for key in weights:
                for change in self._changes(weights[key]):
                    after = encoder({**weights, key: change})
                    assert largest_difference(before, after) > 1e-6, (name, key)

    @staticmethod
    def _changes(tensor: Tensor) -> Iterator[Tensor]:
        yield tensor * 1.5
        flipped = tensor.clone()
        flipped.view(-1)[-1] *= -1
        yield flipped

    @pytest.mark.parametrize("name", ["mixed", "linear"])
    def test_gradients_and_zeros_of_scaled_networks(self, name: str) -> None:
        spec = scaled(name)
        encoder = self.seeded(spec).double()
        weights = random_weights(spec, 2)
        leaves = [tensor.requires_grad_() for tensor in weights.values()]

        def total(*tensors: Tensor) -> Tensor:
            features = encoder(dict(zip(weights, tensors, strict=True)))
            parts = [*features.nodes.values(), *features.tensors.values(), *features.carriers.values()]
            return torch.stack([(part * part.cos()).sum() for part in parts]).sum()

        assert torch.autograd.gradcheck(total, leaves, fast_mode=True)
        zeros = [torch.zeros_like(leaf).requires_grad_() for leaf in leaves]
        total(*zeros).backward()
        assert all(leaf.grad is not None and leaf.grad.isfinite().all() for leaf in zeros)
        assert all(p.grad.isfinite().all() for p in encoder.parameters() if p.grad is not None)

    def test_alone_as_in_a_batch_of_scaled_networks(self) -> None:
        spec = scaled("mixed")
        encoder, weights = self.seeded(spec).double(), random_weights(spec, 4)
        together = encoder(weights)
        for b in range(4):
            alone = encoder({name: tensor[b : b + 1] for name, tensor in weights.items()})
            rows = [{key: part[key][b : b + 1] for key in part} for part in together[:2]]
            assert largest_difference(alone, ScaleFeatures(rows[0], rows[1], {})) < 1e-12

    def test_statistics_keep_the_symmetry(self) -> None:
        spec = scaled("mixed")
        encoder = self.seeded(spec).double()
        keys = [ref.key for ref in spec.blocks]
        weights = random_weights(spec, 2)
        plain = encoder(weights)
        encoder.set_statistics(dict.fromkeys(keys, 0.3), dict.fromkeys(keys, 0.7))
        assert largest_difference(encoder(weights), plain) > 1e-3
        assert_scales(encoder, spec)

    def test_reads_other_architectures_with_the_same_parameters(self) -> None:
        first, second = scaled("mixed"), scaled("lstm")
        encoder = self.seeded(first).double()
        other, fresh = encoder.for_spec(second), self.seeded(second).double()
        assert sign_characters(other.layout) == sign_characters(fresh.layout)
        assert [id(p) for p in other.parameters()] == [id(p) for p in encoder.parameters()]
        weights = random_weights(second, 2)
        assert largest_difference(other(weights), fresh(weights)) == 0

    def test_checkpoints_change_nothing(self) -> None:
        spec, found = scaled("mixed"), []
        for checkpoint in (False, True):
            torch.manual_seed(0)
            encoder = type(self.seeded(spec))(spec, channels=6, layers=2, checkpoint=checkpoint).double()
            weights = random_weights(spec, 2, torch.Generator().manual_seed(0))
            torch.stack([part.square().sum() for part in encoder(weights).nodes.values()]).sum().backward()
            found.append([p.grad for p in encoder.parameters() if p.grad is not None])
        assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(*found, strict=True)) and found[0]

    def test_other_heads(self) -> None:
        spec = scaled("positive")
        encoder = self.seeded(spec).double()
        plain = nn.Sequential(encoder, EquivariantHead(spec, encoder.channels, scale=1.0)).double()
        assert_equivariant(plain, spec, trials=1)
        with pytest.raises(AssertionError, match="not equivariant"):
            assert_equivariant(plain, spec, scale=True, trials=1)
        with pytest.raises(SpecError, match="Use EquivariantHead"):
            ScaleEquivariantHead(MLP, 6)(
                wsl.encoders.FlatMLP(MLP, 6)(random_weights(MLP, 1, dtype=torch.float32))
            )

    def test_scalings_that_stay(self) -> None:
        spec = WeightSpec.parse(
            "axes h: 3 hidden relu positive  y: 1 output\nloop.weight h h\nhead.weight y h\n"
            "scaling: h positive loop.weight@0+1 loop.weight@1-1 head.weight-1"
        )
        encoder = self.seeded(spec).double()
        assert not encoder.unscaled, "the head shows it"
        assert_scales(encoder, spec)
        spec = WeightSpec.parse(
            "axes h: 3 hidden relu positive\nloop.weight h h\n"
            "scaling: h positive loop.weight@0+1 loop.weight@1-1"
        )
        encoder = self.seeded(spec).double()
        assert [scaling.axis for scaling in encoder.unscaled] == ["h"]
        assert_equivariant(encoder, spec, trials=1)
