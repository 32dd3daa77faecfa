"""verify: passes on true specifications, fails on every mutated one, and says what it found."""

import copy
import re
from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from described_families import FAMILIES
from described_modules import MODULES as PLAIN
from torch import Tensor, nn

from wsl._float64 import Float64Inside
from wsl._verify import SymmetryError, verify
from wsl.models import Siren
from wsl.spec import SpecError, WeightSpec
from wsl.testing import assert_preserves_function, mutations
from wsl.trace import trace

MODULES = {**PLAIN, **FAMILIES}


def _spec(text: str) -> WeightSpec:
    return WeightSpec.parse(text)


LINEAR = _spec("axes h1: 4 hidden\n0.weight h1 _ _=3\n0.bias h1\n2.weight _ h1 _=2")


def _linear(activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), activation, nn.Linear(4, 2, bias=False))


@pytest.mark.parametrize("name", MODULES)
def test_true_specifications_pass(name):
    build, inputs, spec = MODULES[name]
    report = verify(build(), spec, inputs)
    assert report.worst_error <= 1e-10
    assert report.axes == tuple(axis.name for axis in spec.hidden_axes)
    assert len(report.scalings) == len(spec.scalings)
    assert report.untested == ()


@pytest.mark.parametrize("name", MODULES)
def test_every_mutated_specification_fails(name):
    build, inputs, spec = MODULES[name]
    module, count = build(), 0
    for what, wrong in mutations(spec):
        count += 1
        with pytest.raises(SymmetryError):
            verify(module, wrong, inputs)
            pytest.fail(f"passed although {what}")
    assert count >= 8


def test_the_module_is_left_as_it_was():
    build, inputs, spec = MODULES["cnn"]
    module = build().train()
    before, seeds = copy.deepcopy(module.state_dict()), torch.random.get_rng_state()
    verify(module, spec, inputs)
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert torch.equal(seeds, torch.random.get_rng_state())
    assert torch.get_default_dtype() == torch.float32


def test_fresh_modules_do_not_hide_errors():
    """A zero head and constant biases make any permutation of the stream harmless, until randomised."""
    module = _linear(nn.ReLU())
    nn.init.zeros_(module[2].weight)
    wrong = _spec("axes h1: 4 hidden  h2: 4 hidden\n0.weight h1 _ _=3\n0.bias h1\n2.weight _ h2 _=2")
    assert torch.equal(module(torch.ones(2, 3)), torch.zeros(2, 2))
    with pytest.raises(SymmetryError, match="permuting axis h2 changes the function: relative error"):
        verify(module, wrong, torch.ones(2, 3))


def test_errors_name_axis_error_and_tensors():
    wrong = _spec("axes h1: 4 hidden\n0.weight h1 _ _=3\n0.bias _ _=4\n2.weight _ h1 _=2")
    with pytest.raises(SymmetryError) as caught:
        verify(_linear(nn.ReLU()), wrong, torch.ones(2, 3))
    message = str(caught.value)
    assert "permuting axis h1 changes the function: relative error" in message
    assert "carried by: 0.weight dim 0, 2.weight dim 1" in message
    assert "misses a tensor that moves along" in message


def test_scalings_are_named_with_their_powers():
    text = str(MODULES["mlp"].spec).replace("4.weight-1", "4.bias+0").replace("y: 2 output", "y: 2 hidden")
    with pytest.raises(SpecError, match="does not carry that axis"):
        _spec(text)
    wrong = _spec(str(MODULES["mlp"].spec).replace("h2 sign 2.weight+1 4.weight-1", "h2 sign 2.weight+1"))
    with pytest.raises(SymmetryError, match=r"flipping signs along axis h2 .*\n  carried by: 2.weight\+1\n"):
        verify(MODULES["mlp"].build(), wrong, torch.ones(2, 3))


class Cyclic(nn.Module):
    """Symmetric under shifts of its three neurons, as every cycle of three is, and under no swap."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.weight * self.weight.roll(1) ** 2).sum()


def test_cyclic_symmetry_is_not_enough():
    with pytest.raises(SymmetryError, match="swapping two neurons of axis h1"):
        verify(Cyclic(), _spec("axes h1: 3 hidden\nweight h1"), torch.ones(2))


class SignProduct(nn.Module):
    """Unchanged when an even number of its neurons flip sign, but not for one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight.prod()


def test_even_sign_flips_are_not_enough():
    verify(SignProduct(), _spec("axes h1: 4 hidden\nweight h1"), torch.ones(2))
    for seed in range(5):
        with pytest.raises(SymmetryError, match="flipping signs along axis h1"):
            claimed = _spec("axes h1: 4 hidden tanh sign\nweight h1\nscaling: h1 sign weight+1")
            verify(SignProduct(), claimed, torch.ones(2), seed=seed)


class Attention(nn.Module):
    """One head; the softmax does not see the key's bias."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(3, 2)

    def forward(self, x: Tensor, *, scale: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.query(x) @ self.key(x).transpose(1, 2) * scale
        return scores.softmax(-1) @ self.value(x), x


ATTENTION = """
    axes d: 4 hidden  x: 3 input  y: 2 output
    query.weight d x
    query.bias d
    key.weight d x
    key.bias d
    value.weight y x
    value.bias y
"""


def test_dull_places_are_reported():
    report = verify(Attention(), _spec(ATTENTION), (torch.ones(1, 5, 3),), {"scale": torch.ones(())})
    assert report.dull == (("key.bias", "d"),)
    assert "dull       key.bias along d" in str(report)


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.unused = nn.Linear(3, 2), nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def test_an_axis_without_effect_is_refused():
    spec = _spec(
        "axes h1: 4 hidden\nlayer.weight _ _ _=2x3\nlayer.bias _ _=2\nunused.weight h1 _ _=3\nunused.bias h1"
    )
    with pytest.raises(
        SymmetryError, match=r"axis h1 is dull everywhere.*\n.*unused.weight dim 0, unused.bias dim 0"
    ):
        verify(Unused(), spec, torch.ones(2, 3))


def test_an_axis_with_one_carrier_is_not_dull():
    module = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Sigmoid(), nn.AdaptiveAvgPool1d(1))
    report = verify(module, _spec("axes h1: 4 hidden\n0.weight h1 _ _=3"), torch.ones(2, 3))
    assert report.dull == ()
    assert report.axes == ("h1",)


def test_axes_of_one_neuron_are_listed_as_untested():
    module = nn.Sequential(nn.Linear(3, 1), nn.Tanh(), nn.Linear(1, 2, bias=False))
    text = """axes h1: 1 hidden tanh sign\n0.weight h1 _ _=3\n0.bias h1\n2.weight _ h1 _=2
        scaling: h1 sign 0.weight+1 0.bias+1 2.weight+1"""
    report = verify(module, _spec(text), torch.ones(2, 3))
    assert (report.axes, report.untested, report.scalings) == ((), ("h1",), ("h1 sign",))
    with pytest.raises(SymmetryError, match="flipping signs"):
        verify(module, _spec(text.replace(" 0.bias+1", "")), torch.ones(2, 3))


def test_buffers_that_the_spec_leaves_out_are_listed_and_randomised():
    build, inputs, spec = MODULES["cnn"]
    assert verify(build(), spec, inputs).unlisted == ("bn.num_batches_tracked",)
    lines = [line for line in str(spec).splitlines() if "running_mean" not in line]
    with pytest.raises(SymmetryError, match="permuting axis c1"):
        verify(build(), _spec("\n".join(lines)), inputs)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0.weight h1 _ _=3\n0.bias h1", r"only in the spec: none +only in Sequential: 2.weight"),
        (
            "0.weight h1 _ _=3\n0.bias h1\n2.weight _ h1 _=2\n3.bias h1",
            r"only in the spec: 3.bias +only in Seq",
        ),
        (
            "0.weight h1 _ _=7\n0.bias h1\n2.weight _ h1 _=2",
            r"0.weight has size 3 on dim 1, but the spec says _",
        ),
    ],
)
def test_another_modules_specification_is_refused(text, shown):
    with pytest.raises(SpecError, match=shown):
        verify(_linear(nn.ReLU()), _spec(f"axes h1: 4 hidden\n{text}"), torch.ones(2, 3))


class Elementwise(nn.Module):
    """Applies a function of one tensor."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        return self.function(x)


def test_nan_is_an_error_that_says_so():
    with pytest.raises(SymmetryError, match="output holds NaN on the randomised module"):
        verify(_linear(Elementwise(torch.log)), LINEAR, torch.ones(2, 3))


def test_outputs_without_tensors_are_refused():
    module = nn.Sequential(*_linear(nn.ReLU()), Elementwise(lambda x: {"nothing": None}))
    with pytest.raises(SymmetryError, match="holds no tensors"):
        verify(module, LINEAR, torch.ones(2, 3))


def test_what_asks_for_a_narrower_type_computes_in_float64():
    def normalised(x: Tensor) -> Tensor:
        narrow = x.to(torch.float32)
        scales = torch.tensor([[0.1]], dtype=torch.float32) @ torch.ones(1, 1, dtype=torch.float16)
        return (narrow * narrow.square().mean(1, keepdim=True, dtype=torch.float32)).type_as(x) * scales

    assert verify(_linear(Elementwise(normalised)), LINEAR, torch.ones(2, 3)).worst_error < 1e-14


def test_products_by_groups_have_a_form_for_float64():
    def grouped(x: Tensor) -> Tensor:
        stops = torch.tensor([1, 4], dtype=torch.int32)
        x = torch.nn.functional.pad(x, (0, 4))  # the operator wants rows of 16 bytes
        return torch._grouped_mm(x, torch.stack([torch.eye(8), 2 * torch.eye(8)]), offs=stops)[:, :4]

    narrow, wide = torch.randn(4, 4), torch.randn(4, 4, dtype=torch.float64)
    assert torch.equal(grouped(narrow), narrow * torch.tensor([[1], [2], [2], [2]]))
    with Float64Inside():
        assert torch.equal(grouped(wide), wide * torch.tensor([[1], [2], [2], [2]]))
    assert torch.get_default_dtype() == torch.float32


def test_float32_inside_is_recognised():
    def outside_of_torch(x: Tensor) -> Tensor:
        return x * torch.from_numpy(np.exp(x.numpy().astype(np.float32)).sum(1, keepdims=True))

    with pytest.raises(SymmetryError, match="float32 inside the module"):
        verify(_linear(Elementwise(outside_of_torch)), LINEAR, torch.ones(2, 3))


def test_modules_that_remember_are_refused():
    seen = []
    remembering = Elementwise(lambda x: (seen.append(0), x * len(seen))[1])
    remembering.__deepcopy__ = lambda memo: remembering
    with pytest.raises(SymmetryError, match="keeps something between runs"):
        verify(_linear(remembering), LINEAR, torch.ones(2, 3))


class Noisy(nn.Module):
    """Draws noise, keeps a constant outside its state, and makes constants: all harmless."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.grid = _linear(nn.ReLU()), torch.linspace(0, 1, 3)

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.body(x + self.grid) + torch.zeros(2) + torch.rand(2), torch.arange(3), x > 0]


def test_noise_and_constants_are_no_obstacle():
    text = str(LINEAR)
    for name in ("0.weight", "0.bias", "2.weight"):
        text = text.replace(name, f"body.{name}")
    assert verify(Noisy(), _spec(text), torch.ones(2, 3)).worst_error < 1e-13


class Tied(nn.Module):
    """An autoencoder whose decoder is its encoder, transposed, under a second name."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(3, 4)
        self.decoder = nn.Module()
        self.decoder.weight = self.encoder.weight

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.encoder(x)) @ self.decoder.weight


def test_tied_tensors_are_one():
    text = "axes h1: 4 hidden\nencoder.weight h1 _ _=3\nencoder.bias h1"
    verify(Tied(), _spec(text), torch.ones(2, 3))
    assert verify(Tied(), _spec(f"{text}\ndecoder.weight h1 _ _=3"), torch.ones(2, 3)).dull == ()
    with pytest.raises(SpecError, match=r"encoder.weight and decoder.weight are one tensor"):
        verify(Tied(), _spec(f"{text}\ndecoder.weight _ _ _=4x3"), torch.ones(2, 3))


def test_the_report_prints_and_is_frozen():
    build, inputs, spec = MODULES["mlp"]
    report = verify(build(), spec, inputs)
    assert report == verify(build(), spec, inputs)
    lines = str(report).splitlines()
    assert lines[0].startswith("function unchanged to")
    assert lines[1:] == ["  permuted   h1, h2", "  scaled     h1 positive, h2 sign"]
    with pytest.raises(FrozenInstanceError):
        report.worst_error = 0.0


class Branching(nn.Module):
    """Reads other tensors for other inputs; returns an object."""

    def __init__(self) -> None:
        super().__init__()
        self.even, self.odd = _linear(nn.Tanh()), _linear(nn.Tanh())

    def forward(self, x: Tensor, *, shift: Tensor | None = None) -> object:
        hidden = self.even[0](x) if len(x) % 2 == 0 else self.odd[0](x)
        y = (self.even if len(x) % 2 == 0 else self.odd)(x if shift is None else x + shift)
        found = SimpleNamespace(logits=y, hidden=hidden)
        found.itself = found
        return found


BRANCHING = """
    axes  h1: 4 hidden  h2: 4 hidden
    even.0.weight  h1 _   _=3
    even.0.bias    h1
    even.2.weight  _ h1   _=2
    odd.0.weight   h2 _   _=3
    odd.0.bias     h2
    odd.2.weight   _ h2   _=2
"""


def _logits(output: object) -> Tensor:
    return output.logits


def test_examples_of_a_list_are_all_run():
    module, spec, x = Branching(), _spec(BRANCHING), torch.ones(6, 3)
    with pytest.raises(SymmetryError, match="axis h2 is dull everywhere"):
        verify(module, spec, x, output=_logits)
    assert verify(module, spec, [x, x[:3]], output=_logits).dull == ()
    assert verify(module, spec, [(x,), (x[:3],)], [{}, {"shift": x[0]}], output=_logits).axes == ("h1", "h2")
    wrong = _spec(BRANCHING.replace("odd.0.bias     h2", "odd.0.bias  _   _=4"))
    with pytest.raises(SymmetryError, match="relative error .* in output of example 2 "):
        verify(module, wrong, [x, x[:3]], {"shift": x[0]}, output=_logits)
    with pytest.raises(TypeError, match="2 examples, but 1 kwargs"):
        verify(module, spec, [x, x[:3]], [{}])
    with pytest.raises(TypeError, match="a tensor or a tuple"):
        verify(module, spec, {"x": x})


def test_what_the_output_is_decides_what_counts():
    with pytest.raises(SymmetryError, match=r"permuting axis h1 .* in output\.hidden"):
        verify(Branching(), _spec(BRANCHING), torch.ones(6, 3))
    assert_preserves_function(Branching(), _spec(BRANCHING), [torch.ones(6, 3)], output=_logits)
    with pytest.raises(AssertionError, match=r"output\.hidden changes"):
        assert_preserves_function(Branching(), _spec(BRANCHING), torch.ones(6, 3))


def test_masks_are_kept():
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = _linear(nn.ReLU())

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            assert set(mask.unique().tolist()) > {-1e9}
            assert len(mask.unique()) == 4, "entries that mask nothing are drawn"
            return (self.net(x).T @ (mask.exp() > 0).double()) + mask.relu().sum()

    text = str(LINEAR)
    for name in LINEAR.tensors:
        text = text.replace(name, f"net.{name}")
    mask = torch.tensor([-1e9, 0.0, -1e9, 0.0, 0.0])
    verify(Masked(), _spec(text), (torch.ones(5, 3), mask))


def test_modules_without_numbers_are_refused():
    with pytest.raises(ValueError, match="Sequential is on the meta device"):
        verify(_linear(nn.ReLU()).to("meta"), LINEAR, torch.ones(2, 3))


def test_modules_that_do_not_run_are_refused():
    narrow = Elementwise(
        lambda x: torch.ops.aten._grouped_mm(x[None], torch.ones(1, 4, 4), torch.tensor([1]))
    )
    with pytest.raises(
        ValueError, match="Sequential fails to run in float64 .*NotImplementedError: products"
    ):
        verify(_linear(narrow), LINEAR, torch.ones(2, 3))
    with pytest.raises(ValueError, match="Sequential fails to run"):
        verify(_linear(nn.ReLU()), LINEAR, torch.ones(2, 5))


def test_state_that_the_module_writes_to_starts_the_same_in_every_run():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = _linear(nn.ReLU())
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.count.data += x.sum()
            return self.net(x) * self.count

    text = str(LINEAR)
    for name in LINEAR.tensors:
        text = text.replace(name, f"net.{name}")
    report = verify(Counting(), _spec(text), [torch.ones(2, 3), torch.ones(4, 3)])
    assert report.unlisted == ("count",)


def _wrong(name: str, *changes: tuple[str, str]) -> WeightSpec:
    text = str(MODULES[name].spec)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return _spec(text)


def test_coarser_families_are_true():
    coarser = (("a[b]", "a"), ("r[b,a]", "r[b]")), (("r[b,a]", "r"),)
    for changes in coarser:
        verify(MODULES["experts"].build(), _wrong("experts", *changes), MODULES["experts"].inputs)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("slots", ("s: 2 fixed", "s: 2 hidden"), r"permuting axis s changes the function.*\n.*write dim 0"),
        (
            "low_rank",
            ("1.weight-1", "1.weight+1"),
            r"a matrix acting along axis r1 .*\n.*0.weight\+1, 1.weig",
        ),
        ("low_rank", ("h1 positive", "h1 linear"), "a matrix acting along axis h1 changes"),
        ("attention", ("k.weight-1\nscaling:  e", "k.weight+1\nscaling:  e"), "a matrix acting along axis d"),
        ("lstm", ("[1]@1+1", "[1]@0+1"), r"flipping signs along axis h1 .*\n.*weight_hh_l0\[1\]@0\+1"),
    ],
)
def test_wrong_contexts_matrices_and_repeated_axes_are_named(name, change, message):
    wrong = _wrong(name, change)
    with pytest.raises(SymmetryError, match=message):
        verify(MODULES[name].build(), wrong, MODULES[name].inputs)


class Shared(nn.Module):
    """Units that all groups share: they look like a family over the groups, but each is one unit."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(3, units)), nn.Parameter(torch.ones(3, units))

    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.tanh(self.a).sum(0) * torch.tanh(self.b).sum(0)).sum()


@pytest.mark.parametrize("units", [2, 3])
@pytest.mark.parametrize("kind", ["fixed", "hidden"])
def test_units_that_others_follow_are_no_family(units, kind):
    module = Shared(units)
    text = f"axes g: 3 {kind}  u: {units} hidden tanh sign\na g u\nb g u\nscaling: u sign a+1 b+1"
    verify(module, _spec(text), torch.ones(2))
    where = " at one index of g" if units == 2 else ".*"  # all cycles of two neurons are the same swap
    for seed in range(5):
        with pytest.raises(SymmetryError, match="flipping signs along axis u changes") as caught:
            verify(module, _spec(text.replace(" u\n", " u[g]\n")), torch.ones(2), seed=seed)
        assert re.search(f"(permuting|swapping two neurons of) axis u{where} changes", str(caught.value))


def test_deep_networks_of_fast_sines_are_compared_at_their_own_scale():
    module, inputs = Siren(2, [8] * 7, 1), torch.randn(8, 2)
    spec = trace(module, inputs)
    assert verify(module, spec, inputs).worst_error < 1e-12
    assert_preserves_function(module, spec, inputs)
    for what, wrong in list(mutations(spec))[::16]:
        with pytest.raises(SymmetryError):
            verify(module, wrong, inputs)
            pytest.fail(f"passed although {what}")


def test_deep_networks_that_nearly_forget_their_input_are_not_dull():
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.LayerNorm(8)) for _ in range(36)]
    module, inputs = nn.Sequential(*layers, nn.Linear(8, 2)), torch.randn(4, 8)
    assert len(verify(module, trace(module, inputs), inputs).axes) == 36
