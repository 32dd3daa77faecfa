"""Stacked ReLU networks on Fourier features; gradients by autograd."""

from collections.abc import Sequence

import torch
from torch import Tensor

from wsl.models import fourier_features
from wsl.zoo.inr._points import Points
from wsl.zoo.inr._stack import NetworkStack


class FourierStack(NetworkStack):
    """M :class:`wsl.models.FourierMLP`; Fourier features of shared points are computed once for all.

    Args:
        frequencies: the constant ``frequency_matrix`` of the networks, ``(f, d)``.
        hidden: widths of the hidden layers.
        channels: output channels.
    """

    def __init__(self, frequencies: Tensor, hidden: Sequence[int], channels: int) -> None:
        super().__init__((2 * len(frequencies), *hidden, channels))
        self._frequencies = frequencies

    def outputs(self, rows: Tensor, points: Points) -> Tensor:
        tensors = self.tensors(rows)
        features = fourier_features(points.coordinates(), self._frequencies.to(rows.dtype))
        x = features.mT.expand(len(rows), -1, -1)
        for weight, bias in zip(tensors[0:-2:2], tensors[1:-2:2], strict=True):
            x = torch.baddbmm(bias[..., None], weight, x).relu()
        return torch.baddbmm(tensors[-1][..., None], tensors[-2], x)

    def gradient(self, rows: Tensor, points: Points, targets: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = rows.detach().requires_grad_()
            errors = (self.outputs(leaf, points) - targets).square().mean((1, 2))
            (gradient,) = torch.autograd.grad(errors.sum(), leaf)
        return errors.detach(), gradient
