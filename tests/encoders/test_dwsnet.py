"""DWSNets: the battery of all encoders on feedforward networks, and what they refuse."""

import pytest
import torch
from encoder_suite import EncoderSuite
from known_topologies import TOPOLOGIES
from small_networks import CNN, MLP
from torch import Tensor, nn

import wsl
from wsl.encoders import DWSNet
from wsl.models import Siren, coordinate_grid
from wsl.spec import SpecError, WeightSpec
from wsl.testing import assert_equivariant, random_weights


class TestDWSNet(EncoderSuite):
    kinds = ("mlp", "cnn", "depthwise", "fixed", "low_rank")
    takes = (MLP, CNN, TOPOLOGIES["tied"])
    takes_traced = ("mlp", "siren", "cnn")

    def make(self, spec: WeightSpec) -> DWSNet:
        return DWSNet(spec, channels=6, layers=2)


def test_paper_size() -> None:
    """On 2-32-32-1 multiplicities are 1 for the matrix, 4 and 3 for the axes, 7 for the whole."""
    spec = wsl.trace(Siren(2, (32, 32), 1), coordinate_grid((4, 4)))
    encoder = DWSNet(spec)
    maps = 1 + 4**2 + 3**2 + 7**2
    assert sum(p.numel() for p in encoder.parameters()) == maps * (32 + 4 * 32**2) + 5 * (7 + 2) * 32


def test_second_derivatives() -> None:
    encoder = DWSNet(MLP, channels=3, layers=2).double()
    weights = random_weights(MLP, 1)
    key = "fc2.weight"

    def slope(value: Tensor) -> Tensor:
        nodes = encoder({**weights, key: value}).nodes
        total = sum(part.sin().sum() for part in nodes.values())
        return torch.autograd.grad(total, value, create_graph=True)[0]

    start = weights[key].requires_grad_()
    assert torch.autograd.gradcheck(slope, start)


@pytest.mark.parametrize("layers", [0, -1])
def test_no_layers(layers: int) -> None:
    with pytest.raises(ValueError, match=f"at least one layer, got layers={layers}"):
        DWSNet(MLP, layers=layers)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1, bias=False), nn.ReLU(), nn.Linear(1, 2)),
        nn.Sequential(nn.Linear(3, 1)),
        Siren(3, (4,), 2),
        nn.Sequential(
            nn.Conv1d(3, 4, 3, bias=False),
            nn.BatchNorm1d(4),
            nn.ReLU(),
            nn.Conv1d(4, 2, 1),
            nn.Flatten(),
            nn.Linear(6, 2),
        ),
    ],
    ids=["narrow", "linear", "siren", "cnn"],
)
def test_traced(module: nn.Module) -> None:
    first = module[0] if isinstance(module, nn.Sequential) else module
    shape = (2, 3, 5) if isinstance(first, nn.Conv1d) else (2, 3)
    spec = wsl.trace(module, torch.randn(*shape))
    assert_equivariant(DWSNet(spec, channels=4, layers=3).double(), spec)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("attention", "axis d of q.weight has the family h .*families are not supported"),
        ("lstm", r"weight_hh\[0\] carries an axis twice .*repeated axes are not supported"),
        ("residual", "h1 and h1.2 are connected without weights, as in residual networks"),
        ("dense", "axis c0 occurs in 4 matrices .*residual axes, shared ones and branches"),
        ("bilinear", "weight carries 3 axes"),
    ],
)
def test_other_topologies_are_refused(name: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        DWSNet(TOPOLOGIES[name])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.weight h x\nb.weight y h\nc.weight h2 x2\nd.weight y2 h2", "no chain of matrices connects axis"),
        ("a.weight h x\nb.weight y h\nc.weight y x", "form a circle"),
        ("a.weight h x\nb.weight y h\nc.weight y h", "axis h occurs in 3 matrices"),
    ],
)
def test_branches_are_refused(text: str, message: str) -> None:
    kinds = {"x": "input", "x2": "input", "y": "output", "y2": "output"}
    names = dict.fromkeys(word for line in text.split("\n") for word in line.split()[1:])
    axes = "   ".join(f"{name}: 2 {kinds.get(name, 'hidden')}" for name in names)
    with pytest.raises(SpecError, match=message):
        DWSNet(WeightSpec.parse(f"axes {axes}\n{text}"))
