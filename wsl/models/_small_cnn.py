"""The network of the Small CNN Zoo."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from wsl.models._activations import activation_module


class SmallCNN(nn.Module):
    """Convolutions without padding, each with an activation, then a mean over pixels and a linear layer.

    Args:
        in_channels: of the images; the Small CNN Zoo's are gray, in [-1, 1].
        channels: of each convolution.
        classes: outputs.
        activation: name of the activation, see :data:`wsl.models.ACTIVATIONS`.
        kernel_size, stride: of each convolution.
        dropout: probability after each activation; has a part in training only.

    Shapes: input ``(B, in_channels, H, W)``, output ``(B, classes)``. Parameters are named ``convs.{i}`` and
    ``dense``; with the defaults there are 4,970.

    Source: Unterthiner et al. 2020 (arXiv:2002.11448), section 3.
    """

    def __init__(
        self,
        in_channels: int = 1,
        channels: Sequence[int] = (16, 16, 16),
        classes: int = 10,
        activation: str = "relu",
        kernel_size: int = 3,
        stride: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.convs = nn.ModuleList(
            nn.Conv2d(c_in, c_out, kernel_size, stride) for c_in, c_out in pairwise([in_channels, *channels])
        )
        self.activations = nn.ModuleList(activation_module(activation) for _ in channels)
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear([in_channels, *channels][-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        for conv, activation in zip(self.convs, self.activations, strict=True):
            x = self.dropout(activation(conv(x)))
        out: Tensor = self.dense(x.mean(dim=(2, 3)))
        return out

    def example_inputs(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Images of noise, of a size that the network runs on: ``(count, in_channels, H, W)``, normal."""
        side = 1
        for conv in reversed(self.convs):
            assert isinstance(conv, nn.Conv2d)
            side = (side - 1) * conv.stride[0] + conv.kernel_size[0]
        side = max(28, side)
        return torch.randn(count, self.in_channels, side, side, generator=generator)
