"""verify: passes on true specifications, fails on every mutated one, and says what it found."""

import copy
from dataclasses import FrozenInstanceError

import pytest
import torch
from described_families import FAMILIES
from described_modules import MODULES as PLAIN
from torch import Tensor, nn

from wsl._verify import SymmetryError, verify
from wsl.spec import SpecError, WeightSpec
from wsl.testing import mutations
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
    assert "dull       key.bias along d\n             (moved alone, these change nothing" in str(report)


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


def test_what_is_no_module_or_no_specification_is_named():
    described = MODULES["mlp"]
    for module, spec in ((described.build(), str(described.spec)), (described.build, described.spec)):
        with pytest.raises(TypeError, match="expected a torch.nn.Module and its WeightSpec, got "):
            verify(module, spec, described.inputs)


def test_the_report_prints_and_is_frozen():
    build, inputs, spec = MODULES["mlp"]
    report = verify(build(), spec, inputs)
    assert report == verify(build(), spec, inputs)
    lines = str(report).splitlines()
    assert lines[0].startswith("function unchanged to")
    assert lines[1:] == ["  permuted   h1, h2", "  scaled     h1 positive, h2 sign"]
    with pytest.raises(FrozenInstanceError):
        report.worst_error = 0.0


def test_deep_networks_that_nearly_forget_their_input_are_not_dull():
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.LayerNorm(8)) for _ in range(36)]
    module, inputs = nn.Sequential(*layers, nn.Linear(8, 2)), torch.randn(4, 8)
    assert len(verify(module, trace(module, inputs), inputs).axes) == 36


def test_names_of_one_tensor_are_scaled_alike():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    module.twin = module[0]
    text = """
        axes  h1: 4 hidden relu positive  x: 3 input  y: 2 output
        0.weight     h1 x
        0.bias       h1
        2.weight     y h1
        2.bias       y
        twin.weight  h1 x
        twin.bias    h1
        scaling: h1 positive 0.weight+1 0.bias+1 twin.weight+1 twin.bias+1 2.weight-1
    """

    class Once(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module("0", module[0])
            self.add_module("2", module[2])
            self.twin = module[0]

        def forward(self, x):
            return self._modules["2"](torch.relu(self.twin(x)))

    verify(Once(), WeightSpec.parse(text), torch.randn(5, 3))
    with pytest.raises(SpecError, match=r"0\.weight and twin\.weight are one tensor in Once.*scales"):
        verify(Once(), WeightSpec.parse(text.replace("twin.weight+1 ", "")), torch.randn(5, 3))
