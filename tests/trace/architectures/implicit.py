"""Implicit neural representations: coordinates in, values out."""

import torch
from torch import Tensor, nn

from architectures.known import Known


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(30.0 * x)


class Fourier(nn.Module):
    """Sines and cosines of frequencies (arXiv:2006.10739), which are a buffer or a parameter."""

    def __init__(self, learned: bool) -> None:
        super().__init__()
        frequencies = torch.randn(2, 4)
        if learned:
            self.frequencies = nn.Parameter(frequencies)
        else:
            self.register_buffer("frequencies", frequencies)
        self.first, self.last = nn.Linear(8, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        phases = x @ self.frequencies
        return self.last(torch.relu(self.first(torch.cat([phases.sin(), phases.cos()], -1))))


class MultiplicativeFilter(nn.Module):
    """A Fourier network with two filters (Fathony et al. 2021, eq. 4 and 7)."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.ModuleList((nn.Linear(2, 5), nn.Linear(2, 4)))
        self.linear, self.out = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        first, second = (torch.sin(layer(x)) for layer in self.filters)
        return self.out(self.linear(first) * second)


class RadianceField(nn.Module):
    """Encoded coordinates, read by the first layer and once more; two outputs (arXiv:2003.08934)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(18, 6), nn.Linear(6 + 18, 5)
        self.density, self.colour = nn.Linear(5, 1), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        phases = (x[..., None] * 2.0 ** torch.arange(3, dtype=x.dtype)).flatten(-2)
        encoded = torch.cat([phases.sin(), phases.cos()], -1)
        h = torch.relu(self.first(encoded))
        h = torch.relu(self.second(torch.cat([h, encoded], -1)))
        return {"density": torch.relu(self.density(h)), "colour": torch.sigmoid(self.colour(h))}


class SkipToInput(nn.Module):
    """Raw coordinates beside hidden neurons, as in DeepSDF (arXiv:1901.05103)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Linear(2, 5), nn.Linear(7, 4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.sin(self.first(x))
        return self.out(torch.relu(self.second(torch.cat([x, h], -1))))


def _points() -> Tensor:
    return torch.randn(7, 2)


ROWS = {
    "siren": Known(
        lambda: nn.Sequential(nn.Linear(2, 5), Sine(), nn.Linear(5, 4), Sine(), nn.Linear(4, 3)),
        _points,
        "4 5",
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
        missing="shifts of a neuron's phase by pi: a translation of its bias",
    ),
    "fourier_features": Known(lambda: Fourier(learned=False), _points, "5"),
    "learned_fourier_features": Known(
        lambda: Fourier(learned=True),
        _points,
        "4 5",
        """
        axes  h1: 4 hidden sign  h2: 5 hidden relu positive  x: 2 input  y: 3 output
        frequencies   x h1
        first.weight  h2 (h1 + h1)
        first.bias    h2
        last.weight   y h2
        last.bias     y
        scaling: h1 sign frequencies+1 first.weight[0]+1
        scaling: h2 positive first.weight[0]+1 first.weight[1]+1 first.bias+1 last.weight-1
        """,
    ),
    "multiplicative_filter": Known(
        MultiplicativeFilter,
        _points,
        "4 5",
        """
        axes  h1: 5 hidden sin sign  h2: 4 hidden sin positive  x: 2 input  y: 3 output
        filters.0.weight  h1 x
        filters.0.bias    h1
        filters.1.weight  h2 x
        filters.1.bias    h2
        linear.weight     h2 h1
        linear.bias       h2
        out.weight        y h2
        out.bias          y
        scaling: h1 sign filters.0.weight+1 filters.0.bias+1 linear.weight+1
        scaling: h2 positive linear.weight+1 linear.bias+1 out.weight-1
        scaling: h2 sign linear.weight+1 linear.bias+1 out.weight+1
        scaling: h2 sign filters.1.weight+1 filters.1.bias+1 out.weight+1
        """,
        missing="shifts of a filter's phase by pi: a translation of its bias",
    ),
    "radiance_field": Known(RadianceField, lambda: torch.randn(5, 3), "5 6"),
    "skip_to_input": Known(
        SkipToInput,
        _points,
        "4 5",
        """
        axes  h1: 5 hidden sin sign  h2: 4 hidden relu positive  x: 2 input  y: 1 output
        first.weight   h1 x
        first.bias     h1
        second.weight  h2 (x + h1)
        second.bias    h2
        out.weight     y h2
        out.bias       y
        scaling: h1 sign first.weight+1 first.bias+1 second.weight[1]+1
        scaling: h2 positive second.weight[0]+1 second.weight[1]+1 second.bias+1 out.weight-1
        """,
    ),
}
