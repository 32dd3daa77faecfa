"""Stacked SIRENs with a hand-derived gradient."""

from collections.abc import Sequence

import torch
from torch import Tensor

from wsl.zoo.inr._points import Axes
from wsl.zoo.inr._stack import NetworkStack


class SirenStack(NetworkStack):
    """M SIRENs of two coordinates. Activations are kept channels first, ``(M, h, points)``.

    On a grid, the first layer's angle is a sum of a row part and a column part, ``a(r) + c(q)``, so its sines
    follow from one sine and cosine per row and per column:
    ``sin(a + c) = sin a cos c + cos a sin c`` and ``cos(a + c) = cos a cos c - sin a sin c``, exact.

    Args:
        hidden: widths of the hidden layers.
        channels: output channels.
        w0, first_w0: as in :class:`wsl.models.Siren`.
    """

    def __init__(self, hidden: Sequence[int], channels: int, w0: float, first_w0: float) -> None:
        super().__init__((2, *hidden, channels))
        self.w0, self.first_w0 = w0, first_w0

    def outputs(self, rows: Tensor, axes: Axes) -> Tensor:
        tensors = self.tensors(rows)
        hidden = self._first_layer(tensors, axes)[0]
        for weight, bias in zip(tensors[2:-2:2], tensors[3:-2:2], strict=True):
            hidden = _affine(weight * self.w0, bias * self.w0, hidden).sin_()
        return _affine(tensors[-2], tensors[-1], hidden)

    def gradient(self, rows: Tensor, axes: Axes, targets: Tensor) -> tuple[Tensor, Tensor]:
        tensors = self.tensors(rows)
        sine, slope = self._first_layer(tensors, axes)
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
        self._first_gradient(back, axes, parts)
        return errors, gradient

    def _first_layer(self, tensors: list[Tensor], axes: Axes) -> tuple[Tensor, Tensor]:
        """Sines of the first layer's angles and their slopes (cosines), both ``(M, h, points)``."""
        weight, bias = tensors[0] * self.first_w0, tensors[1] * self.first_w0
        of_row = weight[:, :, :1] * axes.rows + bias[..., None]
        of_column = weight[:, :, 1:] * axes.columns
        row_sin, row_cos = of_row.sin()[..., None], of_row.cos()[..., None]
        column_sin, column_cos = of_column.sin()[:, :, None], of_column.cos()[:, :, None]
        sine = (row_sin * column_cos).addcmul_(row_cos, column_sin)
        slope = (row_cos * column_cos).addcmul_(row_sin, column_sin, value=-1)
        return sine.flatten(2), slope.flatten(2)

    def _first_gradient(self, back: Tensor, axes: Axes, parts: list[Tensor]) -> None:
        """Write the first layer's gradient from that of its angles, ``(M, h, points)``."""
        back = back.unflatten(2, (len(axes.rows), len(axes.columns)))
        by_row, by_column = back.sum(3), back.sum(2)
        parts[0][:, :, 0] = (by_row @ axes.rows) * self.first_w0
        parts[0][:, :, 1] = (by_column @ axes.columns) * self.first_w0
        parts[1][:] = by_row.sum(2) * self.first_w0


def _affine(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    """``(M, n_out, n_in)``, ``(M, n_out)`` and ``(M, n_in, points)`` to ``(M, n_out, points)``."""
    return torch.baddbmm(bias[..., None], weight, x)
