"""The small CNNs of the ModelZoos."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from wsl.models._activations import activation_module


class _Plan(NamedTuple):
    convolutions: tuple[tuple[int, int], ...]
    """Channels and kernel size of each."""
    pooled: int
    """How many of the convolutions are pooled, from the first on."""
    side: int
    """Of the images, in pixels."""
    flattened: int
    """Pixels that are left before the linear layers."""
    last_dropout: bool
    """Whether dropout follows the last convolution."""
    always_dropout: bool
    """Whether the list holds the dropout modules also when the probability is 0."""


_PLANS = {
    "CNN": _Plan(((8, 5), (6, 5), (4, 2)), 2, 28, 9, False, False),
    "CNN2": _Plan(((6, 5), (9, 5), (6, 2)), 2, 28, 9, False, False),
    "CNN3": _Plan(((16, 3), (32, 3), (15, 3)), 3, 32, 4, True, True),
}


class ModelZooCNN(nn.Module):
    """Three convolutions and two linear layers, held in one list whose numbering depends on the dropout.

    Args:
        kind: ``CNN`` (2,464 parameters for gray images; 28x28 pixels), ``CNN2`` (28x28) or ``CNN3`` (32x32).
        in_channels: of the images.
        activation: name of the activation, see :data:`wsl.models.ACTIVATIONS`.
        dropout: probability; above 0 it adds modules to the list and so shifts the numbers in the names.
        classes: outputs.

    Shapes: input ``(B, in_channels, 28, 28)`` or ``(B, in_channels, 32, 32)``, output ``(B, classes)``.
    Parameters are named ``module_list.{i}``.

    Raises:
        ValueError: an unknown kind or activation.

    Source: Schuerholt et al. 2022 (arXiv:2209.14764), section 3 and appendix.
    """

    def __init__(
        self,
        kind: str = "CNN",
        in_channels: int = 1,
        activation: str = "tanh",
        dropout: float = 0.0,
        classes: int = 10,
    ) -> None:
        super().__init__()
        if kind not in _PLANS:
            raise ValueError(f"there is no kind {kind!r}; choose one of {', '.join(_PLANS)}.")
        plan = _PLANS[kind]
        self.in_channels, self.side = in_channels, plan.side
        drops = [nn.Dropout(dropout)] if dropout > 0 or plan.always_dropout else []
        modules: list[nn.Module] = []
        channels = in_channels
        for number, (width, kernel_size) in enumerate(plan.convolutions):
            modules.append(nn.Conv2d(channels, width, kernel_size))
            if number < plan.pooled:
                modules.append(nn.MaxPool2d(2, 2))
            modules.append(activation_module(activation))
            if number < 2 or plan.last_dropout:
                modules += drops
            channels = width
        modules += [nn.Flatten(), nn.Linear(channels * plan.flattened, 20), activation_module(activation)]
        self.module_list = nn.ModuleList([*modules, *drops, nn.Linear(20, classes)])

    def forward(self, x: Tensor) -> Tensor:
        for module in self.module_list:
            x = module(x)
        return x

    def example_inputs(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Normal noise of a size that the network runs on: ``(count, in_channels, side, side)``."""
        return torch.randn(count, self.in_channels, self.side, self.side, generator=generator)
