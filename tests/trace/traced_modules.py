"""Networks with specifications derived by hand, which the tracer has to find."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Known(NamedTuple):
    build: Callable[[], nn.Module]
    inputs: Callable[[], object]
    text: str


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(30.0 * x)


class ResidualStage(nn.Module):
    """A stem and two pre-activation-free blocks of a ResNet: one axis runs through the whole stage."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.inner = nn.ModuleList(nn.Conv2d(4, 5, 3, padding=1, bias=False) for _ in range(2))
        self.outer = nn.ModuleList(nn.Conv2d(5, 4, 3, padding=1, bias=False) for _ in range(2))
        self.down = nn.Conv2d(4, 6, 1, stride=2, bias=False)
        self.fc = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn(self.stem(x)))
        for inner, outer in zip(self.inner, self.outer, strict=True):
            x = F.relu(x + outer(F.relu(inner(x))))
        return self.fc(F.relu(self.down(x)).mean((2, 3)))


class DenseBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c0 = nn.Conv2d(1, 4, 3, padding=1)
        self.c1 = nn.Conv2d(4, 3, 3, padding=1)
        self.c2 = nn.Conv2d(7, 3, 3, padding=1)
        self.bn = nn.BatchNorm2d(10)
        self.fc = nn.Linear(10, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.c0(x))
        x = torch.cat([x, F.relu(self.c1(x))], 1)
        x = torch.cat([x, F.relu(self.c2(x))], 1)
        return self.fc(F.adaptive_avg_pool2d(self.bn(x), 1).flatten(1))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(2, 4, 3, padding=1)
        self.middle = nn.Conv2d(4, 6, 3, padding=1)
        self.up = nn.ConvTranspose2d(6, 5, 2, stride=2)
        self.join = nn.Conv2d(9, 3, 3, padding=1)
        self.out = nn.Conv2d(3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip = F.silu(self.down(x))
        x = F.silu(self.middle(F.max_pool2d(skip, 2)))
        return self.out(F.silu(self.join(torch.cat([self.up(x), skip], 1))))


class ConcatFlatten(nn.Module):
    """Two convolutions side by side, flattened together: a sum of products."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(1, 4, 3, padding=1)
        self.b = nn.Conv2d(1, 3, 3, padding=1)
        self.fc = nn.Linear(7 * 16, 5)
        self.head = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        both = torch.cat([F.relu(self.a(x)), torch.tanh(self.b(x))], 1)
        return self.head(F.gelu(self.fc(both.flatten(1))))


class Sliced(nn.Module):
    """The halves of a layer are used apart, multiplied, and together."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 8)
        self.product = nn.Linear(4, 2)
        self.whole = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.sigmoid(self.a(x))
        u, v = h.chunk(2, 1)
        return self.whole(h) + self.product(u * torch.exp(v))


class Tied(nn.Module):
    """One layer under two names, and an autoencoder whose decoder is its encoder's weight transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.loop = nn.Linear(4, 4)
        self.again = self.loop
        self.head = nn.Linear(4, 2)
        self.head_twin = nn.Linear(4, 2)
        self.head_twin.weight = self.head.weight

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        h = torch.tanh(self.again(torch.tanh(self.loop(h))))
        return self.head(h) + self.head_twin(h * h)


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.relu(self.encoder(x)), self.encoder.weight.t())


class Mixer(nn.Module):
    """Mixes tokens, then channels: tokens are inputs to a layer here, so that they have an axis."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 6)
        self.norm = nn.LayerNorm(6)
        self.tokens = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 4))
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return self.head(x.mean(1))


KNOWN = {
    "mlp": Known(
        lambda: nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 1)),
        lambda: torch.randn(7, 2),
        """
        axes  h1: 5 hidden relu positive  h2: 5 hidden relu positive  x: 2 input  y: 1 output
        0.weight  h1 x
        0.bias    h1
        2.weight  h2 h1
        2.bias    h2
        4.weight  y h2
        4.bias    y
        scaling: h1 positive 0.weight+1 0.bias+1 2.weight-1
        scaling: h2 positive 2.weight+1 2.bias+1 4.weight-1
        """,
    ),
    "siren": Known(
        lambda: nn.Sequential(nn.Linear(2, 5), Sine(), nn.Linear(5, 4), Sine(), nn.Linear(4, 3)),
        lambda: torch.randn(7, 2),
        """
        axes  h1: 5 hidden sin sign  h2: 4 hidden sin sign  x: 2 input  y: 3 output
        0.weight  h1 x
        0.bias    h1
        2.weight  h2 h1
        2.bias    h2
        4.weight  y h2
        4.bias    y
        scaling: h1 sign 0.weight+1 0.bias+1 2.weight+1
        scaling: h2 sign 2.weight+1 2.bias+1 4.weight+1
        """,
    ),
    "activations": Known(
        lambda: nn.Sequential(
            nn.Linear(2, 3),
            nn.LeakyReLU(0.2),
            nn.Linear(3, 3, bias=False),
            nn.Tanh(),
            nn.Linear(3, 3),
            nn.GELU(),
            nn.Linear(3, 3),
            nn.SiLU(),
            nn.Linear(3, 3),
            nn.Sigmoid(),
            nn.Dropout(0.5),
            nn.Linear(3, 3),
            nn.Identity(),
            nn.Linear(3, 2),
            nn.Softmax(1),
        ),
        lambda: torch.randn(7, 2),
        """
        axes  h1: 3 hidden leaky_relu positive  h2: 3 hidden tanh sign  h3: 3 hidden gelu
        axes  h4: 3 hidden silu  h5: 3 hidden sigmoid  h6: 3 hidden positive  x: 2 input  y: 2 output
        0.weight   h1 x
        0.bias     h1
        2.weight   h2 h1
        4.weight   h3 h2
        4.bias     h3
        6.weight   h4 h3
        6.bias     h4
        8.weight   h5 h4
        8.bias     h5
        11.weight  h6 h5
        11.bias    h6
        13.weight  y h6
        13.bias    y
        scaling: h1 positive 0.weight+1 0.bias+1 2.weight-1
        scaling: h2 sign 2.weight+1 4.weight+1
        scaling: h6 positive 11.weight+1 11.bias+1 13.weight-1
        scaling: h6 sign 11.weight+1 11.bias+1 13.weight+1
        """,
    ),
    "flattened_image": Known(
        lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, 8), nn.Unflatten(1, (2, 4))
        ),
        lambda: torch.randn(1, 1, 4, 4),
        """
        axes  h1: 5 hidden relu positive  x: 16 input  y: 8 output
        1.weight  h1 x
        1.bias    h1
        3.weight  y h1
        3.bias    y
        scaling: h1 positive 1.weight+1 1.bias+1 3.weight-1
        """,
    ),
    "vgg": Known(
        lambda: nn.Sequential(
            nn.Conv2d(1, 3, 3, padding=1),
            nn.BatchNorm2d(3),
            nn.ReLU(),
            nn.Conv2d(3, 4, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 5, 3),
            nn.ReLU(),
            nn.AvgPool2d(2, padding=1),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(20, 6),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(6, 2),
        ),
        lambda: torch.randn(1, 1, 12, 12),
        """
        axes  c1: 3 hidden relu positive  c2: 4 hidden relu positive  c3: 5 hidden relu positive
        axes  h1: 6 hidden relu positive  x: 1 input  y: 2 output
        0.weight   c1 x _ _   _=3x3
        0.bias     c1
        1.weight   c1
        1.bias     c1
        1.running_mean  c1
        1.running_var   c1
        3.weight   c2 c1 _ _   _=3x3
        3.bias     c2
        6.weight   c3 c2 _ _   _=3x3
        6.bias     c3
        11.weight  h1 (c3 2 2)
        11.bias    h1
        14.weight  y h1
        14.bias    y
        scaling: c1 positive 0.weight+1 0.bias+1 1.weight-1 1.running_mean+1
        scaling: c1 positive 1.weight+1 1.bias+1 3.weight-1
        scaling: c1 sign 0.weight+1 0.bias+1 1.weight+1 1.running_mean+1
        scaling: c2 positive 3.weight+1 3.bias+1 6.weight-1
        scaling: c3 positive 6.weight+1 6.bias+1 11.weight-1
        scaling: h1 positive 11.weight+1 11.bias+1 14.weight-1
        """,
    ),
    "conv1d": Known(
        lambda: nn.Sequential(
            nn.Conv1d(2, 3, 3),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(3, 4, 1),
            nn.AdaptiveMaxPool1d(1),
            nn.Flatten(),
        ),
        lambda: torch.randn(2, 2, 8),
        """
        axes  c1: 3 hidden relu positive  x: 2 input  y: 4 output
        0.weight  c1 x _   _=3
        0.bias    c1
        3.weight  y c1 _   _=1
        3.bias    y
        scaling: c1 positive 0.weight+1 0.bias+1 3.weight-1
        """,
    ),
    "conv3d": Known(
        lambda: nn.Sequential(
            nn.Conv3d(2, 3, 2, bias=False), nn.Tanh(), nn.AvgPool3d(2), nn.Conv3d(3, 2, 2, bias=False)
        ),
        lambda: torch.randn(2, 2, 6, 6, 6),
        """
        axes  c1: 3 hidden tanh sign  x: 2 input  y: 2 output
        0.weight  c1 x _ _ _   _=2x2x2
        3.weight  y c1 _ _ _   _=2x2x2
        scaling: c1 sign 0.weight+1 3.weight+1
        """,
    ),
    "separable": Known(
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 1),
            nn.ReLU6(),
            nn.Conv2d(6, 6, 3, padding=1, groups=6),
            nn.ReLU(),
            nn.Conv2d(6, 2, 1),
        ),
        lambda: torch.randn(2, 3, 5, 5),
        """
        axes  c1: 6 hidden positive  x: 3 input  y: 2 output
        0.weight  c1 x _ _   _=1x1
        0.bias    c1
        2.weight  c1 _ _ _   _=1x3x3
        2.bias    c1
        4.weight  y c1 _ _   _=1x1
        4.bias    y
        scaling: c1 positive 2.weight+1 2.bias+1 4.weight-1
        """,
    ),
    "grouped": Known(
        lambda: nn.Sequential(
            nn.Conv2d(2, 6, 1), nn.Tanh(), nn.Conv2d(6, 4, 3, groups=2), nn.Sigmoid(), nn.Conv2d(4, 2, 1)
        ),
        lambda: torch.randn(2, 2, 5, 5),
        """
        axes  c1: 2 hidden sign  c2: 3 hidden tanh sign  c3: 2 hidden sigmoid  x: 2 input  y: 2 output
        0.weight  (c1 c2) x _ _   _=1x1
        0.bias    (c1 c2)
        2.weight  (c1 c3) c2 _ _   _=3x3
        2.bias    (c1 c3)
        4.weight  y (c1 c3) _ _   _=1x1
        4.bias    y
        scaling: c1 sign 0.weight+1 0.bias+1 2.weight+1
        scaling: c2 sign 0.weight+1 0.bias+1 2.weight+1
        """,
    ),
    "group_norm": Known(
        lambda: nn.Sequential(nn.Linear(3, 6), nn.GroupNorm(2, 6), nn.ReLU(), nn.Linear(6, 2)),
        lambda: torch.randn(4, 3),
        """
        axes  h1: 2 hidden relu positive  h2: 3 hidden relu positive  x: 3 input  y: 2 output
        0.weight  (h1 h2) x
        0.bias    (h1 h2)
        1.weight  (h1 h2)
        1.bias    (h1 h2)
        3.weight  y (h1 h2)
        3.bias    y
        scaling: h1 positive 1.weight+1 1.bias+1 3.weight-1
        scaling: h1 sign 0.weight+1 0.bias+1 1.weight+1
        scaling: h2 positive 1.weight+1 1.bias+1 3.weight-1
        """,
    ),
    "layer_norm": Known(
        lambda: nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 2)),
        lambda: torch.randn(4, 3),
        """
        axes  h1: 5 hidden positive  x: 3 input  y: 2 output
        0.weight  h1 x
        0.bias    h1
        1.weight  h1
        1.bias    h1
        2.weight  y h1
        2.bias    y
        scaling: h1 positive 1.weight+1 1.bias+1 2.weight-1
        scaling: h1 sign 1.weight+1 1.bias+1 2.weight+1
        """,
    ),
    "residual_stage": Known(
        ResidualStage,
        lambda: torch.randn(2, 3, 4, 4),
        """
        axes  c1: 4 hidden relu positive  c2: 5 hidden relu positive  c3: 5 hidden relu positive
        axes  c4: 6 hidden relu positive  x: 3 input  y: 2 output
        stem.weight      c1 x _ _    _=3x3
        bn.weight        c1
        bn.bias          c1
        bn.running_mean  c1
        bn.running_var   c1
        inner.0.weight   c2 c1 _ _   _=3x3
        inner.1.weight   c3 c1 _ _   _=3x3
        outer.0.weight   c1 c2 _ _   _=3x3
        outer.1.weight   c1 c3 _ _   _=3x3
        down.weight      c4 c1 _ _   _=1x1
        fc.weight        y c4
        fc.bias          y
        scaling: c1 positive stem.weight+1 bn.weight-1 bn.running_mean+1
        scaling: c1 positive bn.weight+1 bn.bias+1 inner.0.weight-1 inner.1.weight-1 outer.0.weight+1 outer.1.weight+1 down.weight-1
        scaling: c1 sign stem.weight+1 bn.weight+1 bn.running_mean+1
        scaling: c2 positive inner.0.weight+1 outer.0.weight-1
        scaling: c3 positive inner.1.weight+1 outer.1.weight-1
        scaling: c4 positive down.weight+1 fc.weight-1
        """,  # noqa: E501
    ),
    "dense_block": Known(
        DenseBlock,
        lambda: torch.randn(2, 1, 4, 4),
        """
        axes  c1: 4 hidden relu positive  c2: 3 hidden relu positive  c3: 3 hidden relu positive
        axes  x: 1 input  y: 2 output
        c0.weight        c1 x _ _   _=3x3
        c0.bias          c1
        c1.weight        c2 c1 _ _   _=3x3
        c1.bias          c2
        c2.weight        c3 (c1 + c2) _ _   _=3x3
        c2.bias          c3
        bn.weight        (c1 + c2 + c3)
        bn.bias          (c1 + c2 + c3)
        bn.running_mean  (c1 + c2 + c3)
        bn.running_var   (c1 + c2 + c3)
        fc.weight        y (c1 + c2 + c3)
        fc.bias          y
        scaling: c1 positive c0.weight+1 c0.bias+1 c1.weight-1 c2.weight[0]-1 bn.weight[0]-1 bn.running_mean[0]+1
        scaling: c1 positive bn.weight[0]+1 bn.bias[0]+1 fc.weight[0]-1
        scaling: c1 sign bn.weight[0]+1 bn.bias[0]+1 fc.weight[0]+1
        scaling: c2 positive c1.weight+1 c1.bias+1 c2.weight[1]-1 bn.weight[1]-1 bn.running_mean[1]+1
        scaling: c2 positive bn.weight[1]+1 bn.bias[1]+1 fc.weight[1]-1
        scaling: c2 sign bn.weight[1]+1 bn.bias[1]+1 fc.weight[1]+1
        scaling: c3 positive c2.weight[0]+1 c2.weight[1]+1 c2.bias+1 bn.weight[2]-1 bn.running_mean[2]+1
        scaling: c3 positive bn.weight[2]+1 bn.bias[2]+1 fc.weight[2]-1
        scaling: c3 sign bn.weight[2]+1 bn.bias[2]+1 fc.weight[2]+1
        """,  # noqa: E501
    ),
    "unet": Known(
        UNet,
        lambda: torch.randn(2, 2, 4, 4),
        """
        axes  c1: 4 hidden silu  c2: 6 hidden silu  c3: 5 hidden positive  c4: 3 hidden silu
        axes  x: 2 input  y: 1 output
        down.weight    c1 x _ _   _=3x3
        down.bias      c1
        middle.weight  c2 c1 _ _   _=3x3
        middle.bias    c2
        up.weight      c2 c3 _ _   _=2x2
        up.bias        c3
        join.weight    c4 (c3 + c1) _ _   _=3x3
        join.bias      c4
        out.weight     y c4 _ _   _=1x1
        out.bias       y
        scaling: c3 positive up.weight+1 up.bias+1 join.weight[0]-1
        scaling: c3 sign up.weight+1 up.bias+1 join.weight[0]+1
        """,
    ),
    "concat_flatten": Known(
        ConcatFlatten,
        lambda: torch.randn(2, 1, 4, 4),
        """
        axes  c1: 4 hidden relu positive  c2: 3 hidden tanh sign  h1: 5 hidden gelu  x: 1 input  y: 2 output
        a.weight     c1 x _ _   _=3x3
        a.bias       c1
        b.weight     c2 x _ _   _=3x3
        b.bias       c2
        fc.weight    h1 (c1 4 4 + c2 4 4)
        fc.bias      h1
        head.weight  y h1
        head.bias    y
        scaling: c1 positive a.weight+1 a.bias+1 fc.weight[0]-1
        scaling: c2 sign b.weight+1 b.bias+1 fc.weight[1]+1
        """,
    ),
    "sliced": Known(
        Sliced,
        lambda: torch.randn(5, 3),
        """
        axes  h1: 4 hidden  x: 3 input  y: 2 output
        a.weight        (h1 + h1) x
        a.bias          (h1 + h1)
        product.weight  y h1
        product.bias    y
        whole.weight    y (h1 + h1)
        whole.bias      y
        """,
    ),
    "tied": Known(
        Tied,
        lambda: torch.randn(5, 3),
        """
        axes  h1: 4 hidden tanh  x: 3 input  y: 2 output
        first.weight      h1 x
        first.bias        h1
        loop.weight       h1 h1
        loop.bias         h1
        again.weight      h1 h1
        again.bias        h1
        head.weight       y h1
        head.bias         y
        head_twin.weight  y h1
        head_twin.bias    y
        """,
    ),
    "autoencoder": Known(
        Autoencoder,
        lambda: torch.randn(5, 6),
        """
        axes  h1: 4 hidden relu  x: 6 input
        encoder.weight  h1 x
        encoder.bias    h1
        """,
    ),
    "mixer": Known(
        Mixer,
        lambda: torch.randn(5, 4, 3),
        """
        axes  h1: 6 hidden gelu  h2: 5 hidden gelu  x: 3 input  x2: 4 input  y: 2 output
        embed.weight     h1 x
        embed.bias       h1
        norm.weight      h1
        norm.bias        h1
        tokens.0.weight  h2 x2
        tokens.0.bias    h2
        tokens.2.weight  x2 h2
        tokens.2.bias    x2
        head.weight      y h1
        head.bias        y
        """,
    ),
}
