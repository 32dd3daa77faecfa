"""ReLU networks on random Fourier features of coordinates."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from wsl.models._linear import checked_widths, draw_uniform, linear_layers


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
        widths = checked_widths(2 * frequencies, hidden, out_features)
        drawn = torch.randn(frequencies, in_features, generator=torch.Generator().manual_seed(frequency_seed))
        self.register_buffer("frequency_matrix", frequency_scale * drawn, persistent=False)
        self.layers = linear_layers(widths)
        self.activations = nn.ModuleList(nn.ReLU() for _ in widths[1:-1])
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new initial weights: He's uniform bound for weights, ``nn.Linear``'s for biases."""
        with torch.no_grad():
            for layer in self.layers:
                assert isinstance(layer, nn.Linear)
                draw_uniform(layer, math.sqrt(6 / layer.in_features), generator)

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
