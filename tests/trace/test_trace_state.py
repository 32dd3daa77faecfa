"""Tracing leaves everything as it was, imports nothing slow, and says what is wrong with its arguments."""

import copy
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import wsl
from wsl import TraceError, WeightSpec, trace, verify
from wsl.models import FourierMLP, Siren


class Busy(nn.Module):
    """Writes to its buffers and parameters, replaces a buffer, and draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("average", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        h = F.batch_norm(self.first(x), self.norm.running_mean, self.norm.running_var, training=True)
        self.calls += 1
        self.average = 0.9 * self.average + 0.1 * h.mean(0)
        self.last.bias.data.mul_(0.5)
        random.random()
        np.random.rand()
        return self.last(h + torch.rand(()) + F.dropout(h, 0.5, training=True))


def test_the_module_and_the_random_states_are_left_as_they_were():
    module = Busy()
    module.train()
    module.norm.eval()
    buffers = dict(module.named_buffers())
    before = copy.deepcopy(module.state_dict())
    versions = {name: tensor._version for name, tensor in module.first.named_parameters()}
    inputs = torch.randn(5, 3)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    trace(module, inputs)
    assert module.training and not module.norm.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert all(tensor is buffers[name] for name, tensor in module.named_buffers())
    assert {name: tensor._version for name, tensor in module.first.named_parameters()} == versions
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert random.getstate() == states[2]
    assert torch.backends.mha.get_fastpath_enabled() and torch.is_grad_enabled()
    assert all(not part._forward_hooks and not part._forward_pre_hooks for part in module.modules())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_the_module_is_left_as_it_was_when_it_fails():
    class Failing(Busy):
        def forward(self, x: Tensor) -> Tensor:
            super().forward(x)
            raise RuntimeError("no luck")

    module = Failing().train()
    before = copy.deepcopy(module.state_dict())
    with pytest.raises(TraceError, match="no luck") as caught:
        trace(module, torch.randn(5, 3))
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert module.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_the_result_does_not_depend_on_the_weights_or_the_mode():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 2))
    first = trace(module.eval(), torch.randn(5, 3))
    nn.init.zeros_(module[0].weight)
    assert trace(module.train(), torch.zeros(2, 3)) == first
    assert trace(module.double(), torch.zeros(1, 3, dtype=torch.float64)) == first
    assert trace(module.to("meta"), torch.zeros(2, 3, dtype=torch.float64, device="meta")) == first


def test_a_single_example_is_repeated_where_the_module_accepts_it():
    class Squeezing(nn.Module):
        """Loses its batch of one: with a batch of one it cannot be told from the features of the input."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(1, 4, 3), nn.Linear(4 * 36, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(torch.relu(self.first(x)).view(x.shape[0], -1))

    module = Squeezing()
    assert trace(module, torch.randn(1, 1, 8, 8)) == trace(module, torch.randn(3, 1, 8, 8))
    unbatched = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1))
    spec = trace(unbatched, torch.randn(1, 8, 8))
    assert spec.tensors["2.weight"].axes == ("y", "c1")
    verify(unbatched, spec, torch.randn(1, 8, 8))


@pytest.mark.parametrize("inputs", [np.zeros((2, 3)), {"x": torch.zeros(2, 3)}, "image", None, 3])
def test_inputs_of_the_wrong_type(inputs):
    with pytest.raises(TraceError, match=rf"tensor or a tuple .* got {type(inputs).__name__}"):
        trace(nn.Linear(3, 2), inputs)


def test_modules_of_the_wrong_type():
    with pytest.raises(TraceError, match="expected a torch.nn.Module, got str"):
        trace("resnet", torch.zeros(2, 3))


def test_inputs_on_which_the_module_fails():
    with pytest.raises(
        TraceError, match=r"Linear fails to run on inputs of shapes \(2, 5\).*\n.*example_inputs"
    ) as err:
        trace(nn.Linear(3, 2), torch.zeros(2, 5))
    assert isinstance(err.value.__cause__, RuntimeError)
    with pytest.raises(TraceError, match="fails to run"):
        trace(nn.Linear(3, 2), (torch.zeros(2, 3), torch.zeros(2, 3)))
    with pytest.raises(TraceError, match="fails to run"):
        trace(nn.Linear(3, 2), torch.zeros(2, 3), {"bias": None})


def test_modules_that_cannot_be_described():
    class Silent(nn.Linear):
        def forward(self, x: Tensor) -> list:
            super().forward(x)
            return [1, "two"]

    with pytest.raises(TraceError, match="Silent returns list without any tensor"):
        trace(Silent(3, 2), torch.zeros(2, 3))
    with pytest.raises(TraceError, match=r"weight is not initialised yet"):
        trace(nn.LazyLinear(2), torch.zeros(2, 3))
    empty = nn.Linear(3, 2)
    empty.extra = nn.Parameter(torch.zeros(2, 0))
    with pytest.raises(TraceError, match=r"extra has shape \(2, 0\)"):
        trace(empty, torch.zeros(2, 3))


@pytest.mark.parametrize("build", [Siren, FourierMLP])
def test_coordinate_networks(build):
    module = build(2, (8, 8), 3)
    spec = trace(module, torch.rand(6, 2))
    assert [axis.size for axis in spec.hidden_axes][-2:] == [8, 8]
    assert WeightSpec.parse(str(spec)) == spec == WeightSpec.from_json(spec.to_json())
    verify(module, spec, torch.rand(6, 2))


def test_nothing_slow_is_imported():
    code = (
        "import sys, torch, wsl; wsl.trace(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()), "
        "torch.zeros(2, 2)); assert not {'torch._dynamo', 'sympy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_trace_is_public():
    assert wsl.trace is trace


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_torchscript_is_refused():
    with pytest.raises(TraceError, match="Sequential is a TorchScript module"):
        trace(torch.jit.script(nn.Sequential(nn.Linear(3, 4))), torch.randn(2, 3))
