"""Small architectures that encoders are tested on, written by hand and traced; features compared."""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

import wsl
from wsl.encoders import WeightFeatures
from wsl.models import Siren, coordinate_grid
from wsl.spec import WeightSpec

MLP = WeightSpec.parse(
    """
    axes   h1: 3 hidden relu   h2: 2 hidden relu   x: 2 input   y: 2 output
    fc1.weight   h1 x
    fc1.bias     h1
    fc2.weight   h2 h1
    fc2.bias     h2
    fc3.weight   y h2
    fc3.bias     y
    """
)
CNN = WeightSpec.parse(
    """
    axes   c1: 3 hidden relu   c2: 2 hidden   x: 1 input   y: 2 output
    conv1.weight        c1 x _ _   _=3x3
    conv1.bias          c1
    bn.weight           c1
    bn.bias             c1
    bn.running_mean     c1
    bn.running_var      c1
    conv2.weight        c2 c1 _ _   _=2x3
    conv2.bias          c2
    fc.weight           y (c2 4)
    scales              _   _=2
    """
)
TRANSFORMER = WeightSpec.parse(
    """
    axes   c: 3 hidden   h: 2 hidden   d: 2 hidden   k: 3 hidden gelu   x: 2 input
    embed.weight   c x
    norm.weight    c
    norm.bias      c
    qkv.weight     (h d[h] + h d[h] + h d[h]) c
    qkv.bias       (h d[h] + h d[h] + h d[h])
    out.weight     c (h d[h])
    out.bias       c
    fc.weight      k c _   _=2
    fc.scale       k _   _=2
    back.weight    c k
    temperature    _   _=2
    nodes  x: x   c: c layer_norm   q: (h d)   k: (h d)   p: h softmax   v: (h d)   o: (h d)   c.2: c
    nodes  k.2: k gelu   c.3: c   y: x
    edge:  x c embed.weight
    edge:  - c norm.weight
    edge:  - c norm.bias
    edge:  c q qkv.weight[0]
    edge:  c k qkv.weight[1]
    edge:  c v qkv.weight[2]
    edge:  - q qkv.bias[0]
    edge:  - k qkv.bias[1]
    edge:  - v qkv.bias[2]
    edge:  q p
    edge:  k p
    edge:  p o
    edge:  v o
    edge:  o c.2 out.weight
    edge:  - c.2 out.bias
    edge:  c c.2
    edge:  - c.2 norm.weight
    edge:  c.2 k.2 fc.weight
    edge:  - k.2 fc.scale
    edge:  k.2 c.3 back.weight
    edge:  c.2 c.3
    edge:  c.3 y embed.weight ends=st
    """
)
SPECS = [MLP, CNN, TRANSFORMER]
DEGENERATE = {
    name: WeightSpec.parse(text)
    for name, text in {
        "linear": "axes  x: 3 input  y: 2 output\nfc.weight  y x\nfc.bias  y",
        "one matrix": "axes  x: 3 input  y: 2 output\nfc.weight  y x",
        "one hidden layer": "axes  h: 4 hidden relu  x: 3 input  y: 2 output\na.w  h x\na.b  h\nb.w  y h",
        "width 1": "axes  h: 1 hidden relu  x: 1 input  y: 1 output\na.w  h x\na.b  h\nb.w  y h",
        "inputs only": "axes  x: 2 input\ngain  x",
        "no neurons": "axes\nscales  _ _   _=2x3\nshift  _   _=2",
        "one number": "axes\ntemperature  _   _=1",
    }.items()
}


class Network(NamedTuple):
    """A module, example inputs, and the specification that is traced from both."""

    module: nn.Module
    examples: Tensor
    spec: WeightSpec


class Residual(nn.Module):
    """A convolutional stage with a projected shortcut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (inner + self.shortcut(x)).relu()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def _sequential(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers).eval()


NETWORKS = {
    "mlp": lambda: (
        _sequential(nn.Linear(3, 5, bias=False), nn.ReLU(), nn.Linear(5, 4), nn.GELU(), nn.Linear(4, 2)),
        torch.rand(2, 3),
    ),
    "siren": lambda: (Siren(2, (5, 4), 1), coordinate_grid((4, 4))),
    "cnn": lambda: (
        _sequential(
            nn.Conv2d(1, 3, 3),
            nn.BatchNorm2d(3),
            nn.ReLU(),
            nn.Conv2d(3, 2, 3),
            nn.Flatten(),
            nn.Linear(32, 2),
        ),
        torch.rand(2, 1, 8, 8),
    ),
    "resnet": lambda: (
        _sequential(
            nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU()),
            Residual(3, 4),
            Residual(4, 3),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(3, 2),
        ),
        torch.rand(2, 2, 8, 8),
    ),
    "lstm": lambda: (Recurrent(), torch.rand(2, 4, 3)),
    "transformer": lambda: (
        _sequential(nn.Linear(3, 4), nn.TransformerEncoderLayer(4, 2, 6, batch_first=True), nn.Linear(4, 2)),
        torch.rand(2, 5, 3),
    ),
}


@lru_cache
def network(name: str) -> Network:
    """A small network of each kind, traced once."""
    torch.manual_seed(0)
    module, examples = NETWORKS[name]()
    return Network(module, examples, wsl.trace(module, examples))


def traced(name: str) -> WeightSpec:
    """The specification of a small network of each kind."""
    return network(name).spec


def largest_difference(a: WeightFeatures, b: WeightFeatures) -> float:
    """The largest difference of two sets of features with the same names and shapes."""
    worst = 0.0
    for left, right in ((a.nodes, b.nodes), (a.tensors, b.tensors)):
        assert left.keys() == right.keys()
        for key in left:
            assert left[key].shape == right[key].shape, key
            worst = max(worst, (left[key] - right[key]).abs().max().item())
    return worst
