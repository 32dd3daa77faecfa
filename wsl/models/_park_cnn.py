"""The networks of the CNN Wild Park: heterogeneous CNNs with skip connections."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from wsl.models._activations import activation_module


class ParkCNN(nn.Module):
    """Convolutions with an activation each and optional skip connections; mean over pixels, linear layer.

    Args:
        channels: of the images and of each convolution; one more entry than there are layers.
        kernel_size, stride, padding: of each convolution.
        activation: name of each layer's activation, see :data:`wsl.models.ACTIVATIONS`.
        residual: for each layer the number of an earlier layer, but not the one just before, or -1. The
            first ``min(channels of both)`` channels of that layer's activations are added to this layer's
            output before its activation.
        classes: outputs.

    Shapes: input ``(B, channels[0], H, W)``, output ``(B, classes)``. Parameters are named ``layers.{i}`` and
    ``fc``.

    Raises:
        ValueError: lists of different lengths, or a skip connection from a layer that cannot be its source.

    Source: Kofinas et al. 2024 (arXiv:2403.12143), appendix on the CNN Wild Park.
    """

    def __init__(
        self,
        channels: Sequence[int],
        kernel_size: Sequence[int],
        activation: Sequence[str],
        stride: Sequence[int],
        padding: Sequence[int],
        residual: Sequence[int],
        classes: int = 10,
    ) -> None:
        super().__init__()
        lengths = {len(channels) - 1, *map(len, (kernel_size, activation, stride, padding, residual))}
        if len(lengths) != 1 or len(channels) < 2:
            raise ValueError(f"expected one entry a layer in each list, got lists of lengths {lengths}.")
        for layer, source in enumerate(residual):
            if source >= max(layer - 1, 0) or source < -1:
                raise ValueError(f"layer {layer} cannot have a skip connection from layer {source}.")
        self.residual, self.channels = tuple(residual), channels[0]
        self.layers = nn.ModuleList(
            nn.Conv2d(c_in, c_out, kernel_size[i], stride[i], padding[i])
            for i, (c_in, c_out) in enumerate(pairwise(channels))
        )
        self.activations = nn.ModuleList(activation_module(name) for name in activation)
        self.fc = nn.Linear(channels[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        outputs: list[Tensor] = []
        for layer, activation, source in zip(self.layers, self.activations, self.residual, strict=True):
            x = layer(x)
            if source >= 0:
                shared = min(x.shape[1], outputs[source].shape[1])
                x = torch.cat([x[:, :shared] + outputs[source][:, :shared], x[:, shared:]], dim=1)
            x = activation(x)
            outputs.append(x)
        out: Tensor = self.fc(x.mean(dim=(2, 3)))
        return out

    def example_inputs(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Images of noise, of a size that the network runs on: ``(count, channels[0], H, W)``, normal."""
        side = 1
        for layer in reversed(self.layers):
            assert isinstance(layer, nn.Conv2d)
            border = 2 * int(layer.padding[0])
            side = max(1, (side - 1) * layer.stride[0] + layer.kernel_size[0] - border)
        side = max(32, side)
        return torch.randn(count, self.channels, side, side, generator=generator)
