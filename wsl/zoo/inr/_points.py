"""Where networks are fitted and measured: the pixel grid, and grids half a pixel between it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

# Half-pixel shifts (down, right). The first is the pixel grid itself.
PHASES = tuple(product((0, 1), (0, 1)))


@dataclass(frozen=True, eq=False)
class Axes:
    """The points of a grid as the coordinates of its rows ``(H,)`` and of its columns ``(W,)``.

    The convention is :func:`wsl.models.coordinate_grid`'s.
    """

    rows: Tensor
    columns: Tensor

    def points(self) -> Tensor:
        """All points in row-major order: ``(H * W, 2)``."""
        grid = torch.meshgrid(self.rows, self.columns, indexing="ij")
        return torch.stack(grid, dim=-1).reshape(-1, 2)


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
