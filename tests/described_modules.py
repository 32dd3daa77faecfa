"""Modules with specifications written by hand: what checks of symmetries are checked against."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from wsl.models import Siren
from wsl.spec import WeightSpec


class Described(NamedTuple):
    build: Callable[[], nn.Module]
    inputs: object
    spec: WeightSpec


class SmallCNN(nn.Module):
    """Two convolutions, the first with batch normalisation, and a flattened linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 3, 3, padding=1, bias=False)
        self.fc = nn.Linear(3 * 4 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn(self.conv1(x)))
        return self.fc(torch.relu(self.conv2(x)).flatten(1))


class ResidualMLP(nn.Module):
    """A residual stream with two branches and a layer normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(3, 4)
        self.up = nn.ModuleList(nn.Linear(4, 5) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(5, 4) for _ in range(2))
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for up, down in zip(self.up, self.down, strict=True):
            x = x + down(nn.functional.gelu(up(x)))
        return self.head(self.norm(x))


class ConcatNet(nn.Module):
    """Two branches and the input side by side; returns a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(3, 4)
        self.right = nn.Linear(3, 4, bias=False)
        self.mix = nn.Linear(4 + 3 + 4, 5)
        self.head = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> dict[str, Tensor | tuple[Tensor, int]]:
        both = torch.cat([torch.tanh(self.left(x)), x, torch.relu(self.right(x))], 1)
        hidden = torch.tanh(self.mix(both))
        return {"logits": self.head(hidden), "sums": (hidden.sum(1), 7)}


class GroupedConv(nn.Module):
    """Grouped and depthwise convolutions: channels of each group, and whole groups, change places."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(2, 6, 1)
        self.grouped = nn.Conv1d(6, 4, 3, groups=2)
        self.depthwise = nn.Conv1d(4, 4, 2, groups=4, bias=False)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.sigmoid(self.grouped(torch.sigmoid(self.stem(x))))
        return self.head(torch.sigmoid(self.depthwise(x)).mean(2))


class Recurrent(nn.Module):
    """An embedding read by a recurrent layer whose weight carries its axis twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 3)
        self.step = nn.RNNCell(3, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        state = torch.zeros(tokens.shape[0], 4)
        for token in self.embed(tokens).unbind(1):
            state = self.step(token, state)
        return self.head(state)


MODULES = {
    "mlp": Described(
        lambda: nn.Sequential(
            nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 2)
        ),
        torch.zeros(5, 3),
        WeightSpec.parse(
            """
            axes  h1: 4 hidden relu positive  h2: 4 hidden tanh sign  x: 3 input  y: 2 output
            0.weight  h1 x
            0.bias    h1
            2.weight  h2 h1
            4.weight  y h2
            4.bias    y
            scaling: h1 positive 0.weight+1 0.bias+1 2.weight-1
            scaling: h2 sign 2.weight+1 4.weight-1
            """
        ),
    ),
    "siren": Described(
        lambda: Siren(2, (32, 32), 1, generator=torch.Generator().manual_seed(0)),
        torch.zeros(6, 2),
        WeightSpec.parse(
            """
            axes  h1: 32 hidden sin sign  h2: 32 hidden sin sign  x: 2 input  y: 1 output
            layers.0.weight  h1 x
            layers.0.bias    h1
            layers.1.weight  h2 h1
            layers.1.bias    h2
            layers.2.weight  y h2
            layers.2.bias    y
            scaling: h1 sign layers.0.weight+1 layers.0.bias+1 layers.1.weight+1
            scaling: h2 sign layers.1.weight+1 layers.1.bias+1 layers.2.weight+1
            """
        ),
    ),
    "cnn": Described(
        SmallCNN,
        torch.zeros(2, 2, 4, 4),
        WeightSpec.parse(
            """
            axes  c1: 4 hidden relu positive  c2: 3 hidden relu positive  x: 2 input  y: 5 output
            conv1.weight     c1 x _ _    _=3x3
            conv1.bias       c1
            bn.weight        c1
            bn.bias          c1
            bn.running_mean  c1
            bn.running_var   c1
            conv2.weight     c2 c1 _ _   _=3x3
            fc.weight        y (c2 4 4)
            fc.bias          y
            scaling: c1 positive conv1.weight+1 conv1.bias+1 bn.running_mean+1 bn.weight-1
            scaling: c1 positive bn.weight+1 bn.bias+1 conv2.weight-1
            scaling: c2 positive conv2.weight+1 fc.weight-1
            """
        ),
    ),
    "residual": Described(
        ResidualMLP,
        torch.zeros(3, 3),
        WeightSpec.parse(
            """
            axes  h1: 4 hidden  h2: 5 hidden gelu  h3: 5 hidden gelu  x: 3 input  y: 2 output
            stem.weight    h1 x
            stem.bias      h1
            up.0.weight    h2 h1
            up.0.bias      h2
            up.1.weight    h3 h1
            up.1.bias      h3
            down.0.weight  h1 h2
            down.0.bias    h1
            down.1.weight  h1 h3
            down.1.bias    h1
            norm.weight    h1
            norm.bias      h1
            head.weight    y h1
            head.bias      y
            """
        ),
    ),
    "concat": Described(
        ConcatNet,
        torch.zeros(3, 3),
        WeightSpec.parse(
            """
            axes  h1: 4 hidden tanh sign  h2: 4 hidden relu positive  h3: 5 hidden tanh
            axes  x: 3 input  y: 2 output
            left.weight   h1 x
            left.bias     h1
            right.weight  h2 x
            mix.weight    h3 (h1 + x + h2)
            mix.bias      h3
            head.weight   y h3
            head.bias     y
            scaling: h1 sign left.weight+1 left.bias+1 mix.weight[0]+1
            scaling: h2 positive right.weight+1 mix.weight[2]-1
            """
        ),
    ),
    "grouped": Described(
        GroupedConv,
        torch.zeros(2, 2, 6),
        WeightSpec.parse(
            """
            axes  g: 2 hidden  i: 3 hidden sigmoid  o: 2 hidden sigmoid  x: 2 input  y: 3 output
            stem.weight       (g i[g]) x _        _=1
            stem.bias         (g i[g])
            grouped.weight    (g o[g]) i[g] _     _=3
            grouped.bias      (g o[g])
            depthwise.weight  (g o[g]) _ _        _=1x2
            head.weight       y (g o[g])
            head.bias         y
            """
        ),
    ),
    "recurrent": Described(
        Recurrent,
        torch.tensor([[1, 4, 2], [0, 6, 3]]),
        WeightSpec.parse(
            """
            axes  h1: 3 hidden  h2: 4 hidden tanh  y: 2 output
            embed.weight    _ h1   _=7
            step.weight_ih  h2 h1
            step.weight_hh  h2 h2
            step.bias_ih    h2
            step.bias_hh    h2
            head.weight     y h2
            head.bias       y
            """
        ),
    ),
}
