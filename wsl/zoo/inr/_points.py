"""Where networks are fitted and measured: grids that all share, or points of each network's own."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

# Half-pixel shifts (down, right). The first is the pixel grid itself.
PHASES = tuple(product((0, 1), (0, 1)))


class Points(ABC):
    """The points that M networks run on, and the products with them that stacks need."""

    @abstractmethod
    def coordinates(self) -> Tensor:
        """``(points, d)`` for all networks, or ``(M, points, d)``."""

    @abstractmethod
    def keep(self, which: Tensor) -> "Points":
        """The points of the networks where ``which``, ``(M,)`` booleans, is true."""

    @abstractmethod
    def waves(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Sines and cosines, ``(M, h, points)`` each, of ``weight @ x + bias``.

        Args:
            weight: ``(M, h, d)``.
            bias: ``(M, h)``.
        """

    @abstractmethod
    def moments(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over the points of ``values * x``, ``(M, h, d)``, and of ``values``, ``(M, h)``.

        Args:
            values: ``(M, h, points)``.
        """


@dataclass(frozen=True, eq=False)
class Axes(Points):
    """The points of a grid as the coordinates of its rows ``(H,)`` and of its columns ``(W,)``.

    The convention is :func:`wsl.models.coordinate_grid`'s. An angle on a grid is a sum of a row part and a
    column part, ``a(r) + c(q)``, so its sines follow from one sine and cosine per row and per column:
    ``sin(a + c) = sin a cos c + cos a sin c`` and ``cos(a + c) = cos a cos c - sin a sin c``, exact.
    """

    rows: Tensor
    columns: Tensor

    def coordinates(self) -> Tensor:
        grid = torch.meshgrid(self.rows, self.columns, indexing="ij")
        return torch.stack(grid, dim=-1).reshape(-1, 2)

    def keep(self, which: Tensor) -> "Axes":
        return self

    def waves(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        of_row = weight[:, :, :1] * self.rows + bias[..., None]
        of_column = weight[:, :, 1:] * self.columns
        row_sin, row_cos = of_row.sin()[..., None], of_row.cos()[..., None]
        column_sin, column_cos = of_column.sin()[:, :, None], of_column.cos()[:, :, None]
        sine = (row_sin * column_cos).addcmul_(row_cos, column_sin)
        cosine = (row_cos * column_cos).addcmul_(row_sin, column_sin, value=-1)
        return sine.flatten(2), cosine.flatten(2)

    def moments(self, values: Tensor) -> tuple[Tensor, Tensor]:
        values = values.unflatten(2, (len(self.rows), len(self.columns)))
        by_row, by_column = values.sum(3), values.sum(2)
        return torch.stack([by_row @ self.rows, by_column @ self.columns], -1), by_row.sum(2)


@dataclass(frozen=True, eq=False)
class PointSets(Points):
    """Points of each network's own, or one set for all.

    Args:
        positions: ``(M, points, d)``; M 1 for all networks.
    """

    positions: Tensor

    def coordinates(self) -> Tensor:
        return self.positions

    def keep(self, which: Tensor) -> "PointSets":
        return self if len(self.positions) == 1 else PointSets(self.positions[which])

    def waves(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        positions = self.positions.expand(len(weight), -1, -1)
        angles = torch.baddbmm(bias[..., None], weight, positions.mT)
        return angles.sin(), angles.cos_()

    def moments(self, values: Tensor) -> tuple[Tensor, Tensor]:
        return values @ self.positions, values.sum(-1)


@dataclass(frozen=True, eq=False)
class Targets:
    """What M networks should output, in batches that a fit takes in turn.

    Args:
        points: of each batch.
        values: of each batch, ``(M, C, points)``.
    """

    points: Sequence[Points]
    values: Sequence[Tensor]

    def __len__(self) -> int:
        return len(self.points)

    def map(self, function: Callable[[Tensor], Tensor]) -> "Targets":
        """The same points with other values."""
        return Targets(self.points, [function(values) for values in self.values])

    def keep(self, which: Tensor) -> "Targets":
        """Those of the networks where ``which``, ``(M,)`` booleans, is true."""
        return Targets([points.keep(which) for points in self.points], [v[which] for v in self.values])


def phase_targets(images: Tensor, phases: Sequence[tuple[int, int]] = PHASES) -> Targets:
    """Images ``(M, C, H, W)`` on their pixel grid and between it, a batch a phase."""
    axes = [phase_axes(images.shape[-2:], phase, images.dtype) for phase in phases]
    return Targets(axes, [phase_values(images, phase) for phase in phases])


def phase_axes(shape: Sequence[int], phase: tuple[int, int], dtype: torch.dtype = torch.float32) -> Axes:
    """The grid of an ``(H, W)`` image moved by half a pixel where ``phase`` is 1.

    A moved axis has one point less, so that every point lies inside the image.
    """
    moved = []
    for n, half in zip(shape, phase, strict=True):
        steps = torch.arange(n - half, dtype=torch.float64) + half / 2
        moved.append((steps * 2 / (n - 1) - 1).to(dtype))
    return Axes(moved[0], moved[1])


def phase_values(images: Tensor, phase: tuple[int, int]) -> Tensor:
    """Bilinear interpolation of images at :func:`phase_axes`.

    Args:
        images: ``(n, C, H, W)``.

    Returns:
        ``(n, C, points)``.
    """
    down, right = phase
    if down:
        images = (images[:, :, 1:] + images[:, :, :-1]) / 2
    if right:
        images = (images[..., 1:] + images[..., :-1]) / 2
    return images.flatten(2).contiguous()


def psnr(mean_squared_error: Tensor) -> Tensor:
    """Peak signal-to-noise ratio in dB of signals in [0, 1], at most 120 (where float32 ends)."""
    return -10 * torch.log10(mean_squared_error.double().clamp_min(1e-12))
