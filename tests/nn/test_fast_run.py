"""Learned runs: what they compute is what the networks do, where the graph says all of it."""

import math
from itertools import pairwise

import pytest
import torch
from known_topologies import TOPOLOGIES
from torch import Tensor, nn

import wsl
from wsl.graph import graph_layout
from wsl.models import Siren
from wsl.nn._fast_order import run_order
from wsl.nn._fast_run import LearnedRun
from wsl.nn._positions import neuron_features
from wsl.testing import random_weights

SQUARE = 0.3


class Residual(nn.Module):
    """A perceptron with a residual connection around it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        return self.last(x + self.second(x).tanh())


def run(module: nn.Module, examples: Tensor, gain: float = 1.0) -> tuple[Tensor, Tensor]:
    """What outputs do ``(runs, outputs)``, and the inputs ``(runs, features)``."""
    spec = wsl.trace(module, examples)
    layout = graph_layout(spec)
    torch.manual_seed(0)
    learned = LearnedRun(5, gains=(gain, gain)).double()
    stored = module.state_dict()
    blocks = spec.split({name: stored[name].detach()[None] for name in spec.tensors})
    graph = {block.key: block.to_graph(blocks[block.key]) for block in layout.blocks}
    activity = learned(layout, run_order(layout), graph, dict.fromkeys(graph, torch.tensor(SQUARE).double()))[
        0
    ]
    (first,) = (step.name for step in run_order(layout) if step.is_input)
    features = neuron_features(layout, torch.float64, torch.device("cpu"))
    return activity[layout.slices["y"]].T, learned.inputs(features[layout.slices[first]]).T


def assert_proportional(found: Tensor, expected: Tensor) -> None:
    factor = (found * expected).sum() / expected.square().sum()
    assert factor > 0 and torch.allclose(
        found, factor * expected, rtol=1e-6, atol=0
    )  # gains are drawn in float32


@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.LeakyReLU, nn.GELU, nn.Softplus, nn.Tanh, nn.Sigmoid])
def test_perceptrons(activation: type[nn.Module], shift: bool) -> None:
    torch.manual_seed(1)
    layers = nn.Linear(3, 5, bias=shift), activation(), nn.Linear(5, 4), activation(), nn.Linear(4, 2)
    module = nn.Sequential(*layers).double()
    found, inputs = run(module, torch.randn(2, 3).double())
    assert_proportional(found, module(inputs))


def test_residual_connections() -> None:
    torch.manual_seed(1)
    module = Residual().double()
    found, inputs = run(module, torch.randn(2, 3).double())
    assert_proportional(found, module(inputs))


def test_batch_norms() -> None:
    torch.manual_seed(1)
    layers = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1)
    module = nn.Sequential(*layers).double().eval()
    norm = module[1]
    with torch.no_grad():
        for value in (norm.weight, norm.bias, norm.running_mean):
            value.copy_(torch.randn(4))
        norm.running_var.copy_(torch.rand(4) + 0.5)
    found, inputs = run(module, torch.randn(2, 3, 2, 2).double())
    assert_proportional(found, module(inputs[..., None, None])[..., 0, 0])


def test_sines_with_the_right_gain() -> None:
    torch.manual_seed(1)
    module = Siren(2, (5,), 1, w0=3.0).double()
    scale = math.sqrt(2 * SQUARE * 0.5 + SQUARE)  # of the arguments: two inputs and a bias
    found, inputs = run(module, torch.randn(2, 2).double(), gain=3.0 * scale)
    assert_proportional(found, module(inputs))
    other, _ = run(module, torch.randn(2, 2).double(), gain=2.0 * scale)
    with pytest.raises(AssertionError):
        assert_proportional(other, module(inputs))


def test_deep_networks_stay_finite() -> None:
    """A hundred layers of large weights, or of small ones."""
    names = ["x", *(f"h{i}" for i in range(100)), "y"]
    axes = " ".join(f"{n}: 4 hidden relu" for n in names[1:-1])
    rows = [f"{b}.weight {b} {a}\n{b}.bias {b}" for a, b in pairwise(names)]
    spec = wsl.WeightSpec.parse(f"axes x: 2 input y: 2 output {axes}\n" + "\n".join(rows))
    layout, learned = graph_layout(spec), LearnedRun(3)
    for scale in (10.0, 0.1):
        weights = {n: scale * w for n, w in random_weights(spec, 2, dtype=torch.float32).items()}
        blocks = spec.split(weights)
        graph = {block.key: block.to_graph(blocks[block.key]) for block in layout.blocks}
        for square in (scale**2, 1.0):
            activity = learned(layout, run_order(layout), graph, dict.fromkeys(graph, torch.tensor(square)))
            assert activity.isfinite().all()


def test_order_leaves_cycles_out() -> None:
    for spec in TOPOLOGIES.values():
        layout = graph_layout(spec)
        seen: set[str] = set()
        for step in run_order(layout):
            sources = [block.uses[number].source for block, number in step.inputs]
            assert all(end is not None and end.nodes in seen for end in sources)
            seen.add(step.name)
        assert seen == set(layout.sizes)


@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("factor", [1e4, 1e8])
def test_networks_far_outside_of_the_statistics_do_not_overflow(name: str, factor: float) -> None:
    """In single precision, whatever they are built of; and their gradients neither."""
    spec = TOPOLOGIES[name]
    layout, drawn = graph_layout(spec), random_weights(spec, 2, dtype=torch.float32)
    torch.manual_seed(0)
    learned = LearnedRun(5)
    leaves = {key: (weight * factor).requires_grad_() for key, weight in drawn.items()}
    blocks = spec.split(leaves)
    graph = {block.key: block.to_graph(blocks[block.key]) for block in layout.blocks}
    activity = learned(layout, run_order(layout), graph, dict.fromkeys(graph, torch.tensor(1.0)))
    activity.square().sum().backward()
    assert activity.isfinite().all() and activity.abs().max() < 1e8
    grads = [x.grad for x in (*leaves.values(), *learned.parameters()) if x.grad is not None]
    assert grads and all(grad.isfinite().all() for grad in grads)
