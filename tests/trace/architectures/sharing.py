"""Parameters that are tied, used twice, adapted, computed or unused; buffers."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from architectures.known import Known


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


class Retied(nn.Module):
    """A layer used twice, and an autoencoder inside whose decoder is its encoder's weight transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.code = nn.Linear(3, 5), nn.Linear(5, 5), nn.Linear(5, 4)
        self.shift, self.out = nn.Parameter(torch.randn(5)), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.middle(torch.relu(self.middle(torch.relu(self.first(x))))))
        return self.out(torch.relu(F.linear(torch.relu(self.code(x)), self.code.weight.t(), self.shift)))


class Flat(nn.Module):
    """Two layers whose weights and biases are ranges of one vector."""

    def __init__(self) -> None:
        super().__init__()
        self.flat = nn.Parameter(torch.randn(15 + 5 + 10 + 2))

    def forward(self, x: Tensor) -> Tensor:
        first, shift, last, offset = self.flat.split((15, 5, 10, 2))
        return F.linear(torch.tanh(F.linear(x, first.view(5, 3), shift)), last.view(2, 5), offset)


class Siamese(nn.Module):
    """One encoder reads two inputs; their codes are compared."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))
        self.head = nn.Linear(4, 2)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.head((self.encoder(a) - self.encoder(b)).abs())


class LowRank(nn.Module):
    """A linear layer with an adapter of rank two (arXiv:2106.09685)."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.head = nn.Linear(3, 5), nn.Linear(5, 2)
        self.down, self.up = nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.zeros(5, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.base(x) + 0.5 * F.linear(F.linear(x, self.down), self.up)))


class Spare(nn.Module):
    """A layer and a parameter that are not used."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.spare, self.last = nn.Linear(3, 5), nn.Linear(5, 5), nn.Linear(5, 2)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x)))


class Buffers(nn.Module):
    """A constant vector and constant places: neurons in their order, but for a layer that neither meets."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(3, 4), nn.Linear(4, 5), nn.Linear(5, 6)
        self.last = nn.Linear(6, 2)
        self.register_buffer("mask", torch.rand(4))
        self.register_buffer("order", torch.tensor([2, 0, 1, 5, 4, 3]))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.sigmoid(self.second(self.mask * torch.sigmoid(self.first(x))))
        x = torch.sigmoid(self.third(x))
        return self.last(x + x[:, self.order])


ROWS = {
    "sliced": Known(
        Sliced,
        lambda: torch.randn(5, 3),
        "4",
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
        "4",
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
        "4",
        """
        axes  h1: 4 hidden relu  x: 6 input
        encoder.weight  h1 x
        encoder.bias    h1
        """,
    ),
    "retied": Known(Retied, lambda: torch.randn(4, 3), "4 5"),
    "flat_parameter": Known(
        Flat,
        lambda: torch.randn(4, 3),
        "5",
        """
        axes  h1: 5 hidden tanh sign  x: 3 input  y: 2 output
        flat  (h1 x + h1 + y h1 + y)
        scaling: h1 sign flat[0]+1 flat[1]+1 flat[2]+1
        """,
    ),
    "siamese": Known(
        Siamese,
        lambda: (torch.randn(5, 3), torch.randn(5, 3)),
        "4 5",
        """
        axes  h1: 5 hidden tanh sign  h2: 4 hidden positive  x: 3 input  y: 2 output
        encoder.0.weight  h1 x
        encoder.0.bias    h1
        encoder.2.weight  h2 h1
        encoder.2.bias    h2
        head.weight       y h2
        head.bias         y
        scaling: h1 sign encoder.0.weight+1 encoder.0.bias+1 encoder.2.weight+1
        scaling: h2 positive encoder.2.weight+1 encoder.2.bias+1 head.weight-1
        scaling: h2 sign encoder.2.weight+1 encoder.2.bias+1
        """,
        dull=("encoder.2.bias along h2",),  # it cancels in the difference
        missing="encoder.2.bias may take any value",
    ),
    "low_rank_adapter": Known(
        LowRank,
        lambda: torch.randn(4, 3),
        "2 5",
        """
        axes  h1: 5 hidden relu positive  h2: 2 hidden linear  x: 3 input  y: 2 output
        down         h2 x
        up           h1 h2
        base.weight  h1 x
        base.bias    h1
        head.weight  y h1
        head.bias    y
        scaling: h1 positive up+1 base.weight+1 base.bias+1 head.weight-1
        scaling: h2 linear down+1 up-1
        """,
    ),
    "weight_norm": Known(
        lambda: nn.Sequential(
            weight_norm(nn.Linear(3, 5)), nn.ReLU(), weight_norm(nn.Linear(5, 4)), nn.ReLU(), nn.Linear(4, 2)
        ),
        lambda: torch.randn(5, 3),
        "4 5",
    ),
    "spectral_norm": Known(
        lambda: nn.Sequential(
            nn.Linear(3, 5), nn.Tanh(), spectral_norm(nn.Linear(5, 4)), nn.Tanh(), nn.Linear(4, 2)
        ),
        lambda: torch.randn(5, 3),
        "4 5",
    ),
    "unused": Known(
        Spare,
        lambda: torch.randn(4, 3),
        "5",
        """
        axes  h1: 5 hidden tanh sign  f1: 4 fixed  f2: 5 fixed  f3: 5 fixed  f4: 5 fixed
        axes  x: 3 input  y: 2 output
        scale         f1
        first.weight  h1 x
        first.bias    h1
        spare.weight  f2 f3
        spare.bias    f4
        last.weight   y h1
        last.bias     y
        scaling: h1 sign first.weight+1 first.bias+1 last.weight+1
        note: f1 not used in the forward pass
        note: f2 not used in the forward pass
        note: f3 not used in the forward pass
        note: f4 not used in the forward pass
        """,
    ),
    "buffers": Known(
        Buffers,
        lambda: torch.randn(5, 3),
        "5",
        missing="what the permutations of the order leave alone",
    ),
}
