"""SIRENs: coordinate networks with sines."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from wsl.models._linear import checked_widths, draw_uniform, linear_layers


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
        widths = checked_widths(in_features, hidden, out_features)
        self.w0 = float(w0)
        self.first_w0 = float(w0 if first_w0 is None else first_w0)
        self.layers = linear_layers(widths)
        self.sines = nn.ModuleList(Sine(self.first_w0 if i == 0 else self.w0) for i in range(len(widths) - 2))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new initial weights (arXiv:2006.09661, section 3.2)."""
        with torch.no_grad():
            for i, layer in enumerate(self.layers):
                assert isinstance(layer, nn.Linear)
                fan_in = layer.in_features
                draw_uniform(layer, 1 / fan_in if i == 0 else math.sqrt(6 / fan_in) / self.w0, generator)

    def forward(self, x: Tensor) -> Tensor:
        for layer, sine in zip(self.layers, self.sines, strict=False):
            x = sine(layer(x))
        out: Tensor = self.layers[-1](x)
        return out
