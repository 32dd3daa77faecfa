"""Coordinate networks that zoos store and rebuild, and the grids they are run on.

Every network is a plain ``nn.Module`` built from plain arguments, so that a zoo's forward definition (import
path and arguments) brings it back. Outputs are raw: a zoo's output offset and scale turn them into pixels.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

__all__ = ["FourierMLP", "Sine", "Siren", "coordinate_grid", "fourier_features"]


class Sine(nn.Module):
    """``x -> sin(w0 * x)``, elementwise."""

    def __init__(self, w0: float = 1.0) -> None:
        super().__init__()
        self.w0 = w0

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.w0 * x)

    def extra_repr(self) -> str:
        return f"w0={self.w0}"


class Siren(nn.Module):
    """Sinusoidal representation network: ``sin(w0 (W x + b))`` in each hidden layer, a linear output.

    Args:
        in_features: coordinates of a point.
        hidden: widths of the hidden layers.
        out_features: values of a point (1 for grayscale, 3 for colour).
        w0: factor inside the sines of all hidden layers but the first.
        first_w0: factor inside the sine of the first layer; ``w0`` if not given.
        generator: draws the initial weights; torch's global generator if not given.

    Shapes: input ``(..., in_features)``, output ``(..., out_features)``. Parameters are named
    ``layers.{i}.weight`` and ``layers.{i}.bias``; hooks on ``sines.{i}`` see the hidden activations.

    Source: Sitzmann et al. 2020 (arXiv:2006.09661), with its initialisation. Biases are drawn like
    ``nn.Linear``'s, as in the authors' code.
    """

    def __init__(
        self,
        in_features: int = 2,
        hidden: Sequence[int] = (32, 32),
        out_features: int = 1,
        w0: float = 30.0,
        first_w0: float | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        widths = _widths(in_features, hidden, out_features)
        self.w0 = float(w0)
        self.first_w0 = float(w0 if first_w0 is None else first_w0)
        self.layers = _linears(widths)
        self.sines = nn.ModuleList(Sine(self.first_w0 if i == 0 else self.w0) for i in range(len(widths) - 2))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new initial weights (arXiv:2006.09661, section 3.2)."""
        with torch.no_grad():
            for i, layer in enumerate(self.layers):
                assert isinstance(layer, nn.Linear)
                fan_in = layer.in_features
                _draw(layer, 1 / fan_in if i == 0 else math.sqrt(6 / fan_in) / self.w0, generator)

    def forward(self, x: Tensor) -> Tensor:
        for layer, sine in zip(self.layers, self.sines, strict=False):
            x = sine(layer(x))
        out: Tensor = self.layers[-1](x)
        return out


class FourierMLP(nn.Module):
    """A ReLU network on random Fourier features ``[sin(2 pi F x), cos(2 pi F x)]`` of its input.

    Args:
        in_features: coordinates of a point.
        hidden: widths of the hidden layers.
        out_features: values of a point.
        frequencies: rows of ``F``; the first layer reads ``2 * frequencies`` features.
        frequency_scale: standard deviation of the entries of ``F``.
        frequency_seed: ``F`` is a constant drawn from this seed, the same for every network with these
            arguments; it is a buffer outside the state dict, as it is no weight.
        generator: draws the initial weights; torch's global generator if not given.

    Shapes: input ``(..., in_features)``, output ``(..., out_features)``. Parameters are named
    ``layers.{i}.weight`` and ``layers.{i}.bias``; hooks on ``activations.{i}`` see the hidden activations.

    Source: Tancik et al. 2020 (arXiv:2006.10739).
    """

    frequency_matrix: Tensor

    def __init__(
        self,
        in_features: int = 2,
        hidden: Sequence[int] = (32, 32),
        out_features: int = 1,
        frequencies: int = 16,
        frequency_scale: float = 1.0,
        frequency_seed: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        widths = _widths(2 * frequencies, hidden, out_features)
        drawn = torch.randn(frequencies, in_features, generator=torch.Generator().manual_seed(frequency_seed))
        self.register_buffer("frequency_matrix", frequency_scale * drawn, persistent=False)
        self.layers = _linears(widths)
        self.activations = nn.ModuleList(nn.ReLU() for _ in widths[1:-1])
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new initial weights: He's uniform bound for weights, ``nn.Linear``'s for biases."""
        with torch.no_grad():
            for layer in self.layers:
                assert isinstance(layer, nn.Linear)
                _draw(layer, math.sqrt(6 / layer.in_features), generator)

    def forward(self, x: Tensor) -> Tensor:
        x = fourier_features(x, self.frequency_matrix)
        for layer, activation in zip(self.layers, self.activations, strict=False):
            x = activation(layer(x))
        out: Tensor = self.layers[-1](x)
        return out


def fourier_features(x: Tensor, frequencies: Tensor) -> Tensor:
    """Features ``[sin(2 pi F x), cos(2 pi F x)]`` of points.

    Args:
        x: ``(..., n)``.
        frequencies: ``F``, ``(f, n)``.

    Returns:
        ``(..., 2 f)``.
    """
    angles = 2 * math.pi * (x @ frequencies.T)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def coordinate_grid(
    shape: Sequence[int],
    *,
    offset: Sequence[float] | float = 0.0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Coordinates of the pixels of an image, in row-major order, in [-1, 1].

    Centres of the outermost pixels lie on the border: along an axis of ``n`` pixels, pixel ``i`` sits at
    ``-1 + 2 i / (n - 1)`` (at 0 if ``n`` is 1). The first coordinate runs down the rows, the second along
    the columns, as in SIREN's own code.

    Args:
        shape: ``(H, W)``, or any number of axes.
        offset: moves the grid by this many pixels, per axis or for all; with .5 the points lie between pixels
            (and the last one of each axis outside the image).

    Returns:
        ``(prod(shape), len(shape))``.
    """
    shifts = [float(offset)] * len(shape) if isinstance(offset, int | float) else [float(o) for o in offset]
    if len(shifts) != len(shape) or any(n < 1 for n in shape):
        raise ValueError(
            f"coordinate_grid: got shape {tuple(shape)} and offset {offset}, "
            "expected positive sizes and one offset per axis."
        )
    axes = []
    for n, shift in zip(shape, shifts, strict=True):
        steps = torch.arange(n, dtype=torch.float64) + shift
        axes.append(steps * 2 / (n - 1) - 1 if n > 1 else steps)
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
    return grid.reshape(-1, len(shape)).to(dtype)


def _widths(in_features: int, hidden: Sequence[int], out_features: int) -> list[int]:
    widths = [in_features, *hidden, out_features]
    if not hidden or any(n < 1 for n in widths):
        raise ValueError(f"expected positive widths and at least one hidden layer, got {widths}.")
    return widths


def _linears(widths: Sequence[int]) -> nn.ModuleList:
    # skip_init leaves torch's global generator alone: the caller's generator draws every value.
    return nn.ModuleList(skip_init(nn.Linear, n_in, n_out) for n_in, n_out in pairwise(widths))


def _draw(layer: nn.Linear, bound: float, generator: torch.Generator | None) -> None:
    layer.weight.uniform_(-bound, bound, generator=generator)
    layer.bias.uniform_(-(layer.in_features**-0.5), layer.in_features**-0.5, generator=generator)
