"""Stacked SIRENs with a hand-derived gradient."""

from collections.abc import Sequence

import torch
from torch import Tensor

from wsl.zoo.inr._points import Points
from wsl.zoo.inr._stack import NetworkStack


class SirenStack(NetworkStack):
    """M SIRENs. Activations are kept channels first, ``(M, h, points)``.

    Args:
        inputs: coordinates of a point.
        hidden: widths of the hidden layers.
        channels: output channels.
        w0, first_w0: as in :class:`wsl.models.Siren`.
    """

    def __init__(self, inputs: int, hidden: Sequence[int], channels: int, w0: float, first_w0: float) -> None:
        super().__init__((inputs, *hidden, channels))
        self.w0, self.first_w0 = w0, first_w0

    def outputs(self, rows: Tensor, points: Points) -> Tensor:
        tensors = self.tensors(rows)
        hidden, _ = points.waves(tensors[0] * self.first_w0, tensors[1] * self.first_w0)
        for weight, bias in zip(tensors[2:-2:2], tensors[3:-2:2], strict=True):
            hidden = _affine(weight * self.w0, bias * self.w0, hidden).sin_()
        return _affine(tensors[-2], tensors[-1], hidden)

    def gradient(self, rows: Tensor, points: Points, targets: Tensor) -> tuple[Tensor, Tensor]:
        tensors = self.tensors(rows)
        sine, slope = points.waves(tensors[0] * self.first_w0, tensors[1] * self.first_w0)
        sines, slopes, scaled = [sine], [slope], [tensors[0]]
        for weight, bias in zip(tensors[2:-2:2], tensors[3:-2:2], strict=True):
            scaled.append(weight * self.w0)
            angles = _affine(scaled[-1], bias * self.w0, sines[-1])
            sines.append(angles.sin())
            slopes.append(angles.cos_())
        error = _affine(tensors[-2], tensors[-1], sines[-1]).sub_(targets)
        errors = error.square().mean((1, 2))

        gradient = torch.empty_like(rows)
        parts = self.tensors(gradient)
        error *= 2 / error[0].numel()  # d errors / d outputs
        parts[-2].copy_(error @ sines[-1].mT)
        torch.sum(error, -1, out=parts[-1])
        back = slopes[-1].mul_(tensors[-2].mT @ error)  # d errors / d angles of the last hidden layer
        for i in range(len(sines) - 1, 0, -1):
            torch.mul(back @ sines[i - 1].mT, self.w0, out=parts[2 * i])
            torch.mul(back.sum(-1), self.w0, out=parts[2 * i + 1])
            back = slopes[i - 1].mul_(scaled[i].mT @ back)
        for part, moment in zip(parts[:2], points.moments(back), strict=True):
            torch.mul(moment, self.first_w0, out=part)
        return errors, gradient


def _affine(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    """``(M, n_out, n_in)``, ``(M, n_out)`` and ``(M, n_in, points)`` to ``(M, n_out, points)``."""
    return torch.baddbmm(bias[..., None], weight, x)
