"""The tracer finds the specifications that were derived by hand; they hold, and wrong ones do not."""

import logging

import pytest
import torch
from traced_modules import KNOWN

from wsl import SymmetryError, WeightSpec, trace, verify
from wsl.testing import mutations


@pytest.fixture(autouse=True)
def _no_failing_rules(caplog):
    yield
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("name", KNOWN)
def test_finds_the_specification_derived_by_hand(name):
    build, inputs, text = KNOWN[name]
    spec = trace(build(), inputs())
    assert str(spec) == str(WeightSpec.parse(text))


@pytest.mark.parametrize("name", KNOWN)
def test_the_specification_is_a_symmetry_of_the_function(name):
    build, inputs, _ = KNOWN[name]
    module, example = build(), inputs()
    spec = trace(module, example)
    report = verify(module, spec, example)
    assert report.worst_error <= 1e-10
    assert report.axes == tuple(axis.name for axis in spec.hidden_axes)
    assert len(report.scalings) == len(spec.scalings)


@pytest.mark.parametrize("name", ["mlp", "siren", "grouped", "concat_flatten"])
def test_other_specifications_are_not(name):
    build, inputs, _ = KNOWN[name]
    module, example = build(), inputs()
    found = list(mutations(trace(module, example)))
    assert len(found) >= 8
    for what, wrong in found:
        with pytest.raises(SymmetryError):
            verify(module, wrong, example)
            pytest.fail(f"passed although {what}")


def test_the_order_of_tensors_is_that_of_the_state_dict():
    build, inputs, _ = KNOWN["vgg"]
    module = build()
    listed = [name for name in module.state_dict() if not name.endswith("num_batches_tracked")]
    assert list(trace(module, inputs()).tensors) == listed


def test_a_hidden_layer_of_one_neuron_is_an_axis():
    module = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Tanh(), torch.nn.Linear(1, 3))
    spec = trace(module, torch.randn(4, 2))
    assert [axis.name for axis in spec.hidden_axes] == ["h1"]
    assert spec.axes["h1"].scaling == "sign"
    verify(module, spec, torch.randn(4, 2))


def test_outputs_in_containers_are_outputs():
    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = torch.nn.Linear(2, 4)
            self.a, self.b = torch.nn.Linear(4, 3), torch.nn.Linear(4, 4)

        def forward(self, x, *, scale):
            h = torch.relu(self.stem(x * scale))
            return {"a": self.a(h), "rest": [(self.b(h), 7), h]}

    spec = trace(Heads(), torch.randn(5, 2), {"scale": torch.randn(2)})
    assert not spec.hidden_axes
    assert spec.tensors["stem.weight"].axes == ("y", "x")
    assert {axis.kind for axis in spec.axes.values()} == {"input", "output"}


def test_a_single_output_neuron_may_lose_its_dimension():
    class Field(torch.nn.Sequential):
        def forward(self, x):
            return torch.sigmoid(super().forward(x))[..., 0]

    spec = trace(Field(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)), torch.randn(5, 2))
    assert spec.tensors["2.weight"].axes == ("y", "h1")
    assert spec.axes["y"].kind == "output"
