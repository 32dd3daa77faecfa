"""Stacked ReLU networks on Fourier features; gradients by autograd."""

from collections.abc import Sequence

import torch
from torch import Tensor

from wsl.models import FourierMLP
from wsl.zoo.inr._points import Axes
from wsl.zoo.inr._stack import NetworkStack


class FourierStack(NetworkStack):
    """M networks like ``module``; the Fourier features are computed once for all of them.

    Args:
        module: any network of the architecture; gives the frequencies.
        hidden: widths of the hidden layers.
        channels: output channels.
    """

    def __init__(self, module: FourierMLP, hidden: Sequence[int], channels: int) -> None:
        super().__init__((2 * len(module.frequency_matrix), *hidden, channels))
        self._module = module

    def outputs(self, rows: Tensor, axes: Axes) -> Tensor:
        tensors = self.tensors(rows)
        features = self._module.features(axes.points().to(self._module.frequency_matrix.dtype))
        x = features.T.to(rows.dtype).expand(len(rows), -1, -1)
        for weight, bias in zip(tensors[0:-2:2], tensors[1:-2:2], strict=True):
            x = torch.baddbmm(bias[..., None], weight, x).relu()
        return torch.baddbmm(tensors[-1][..., None], tensors[-2], x)

    def gradient(self, rows: Tensor, axes: Axes, targets: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = rows.detach().requires_grad_()
            errors = (self.outputs(leaf, axes) - targets).square().mean((1, 2))
            (gradient,) = torch.autograd.grad(errors.sum(), leaf)
        return errors.detach(), gradient
