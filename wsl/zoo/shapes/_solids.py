"""Signed distances of solids at the origin, exact: negative inside, their gradient has length 1.

Each takes points ``(M, N, 3)`` and the sizes of M solids ``(M, 3)``, and gives ``(M, N)``. Solids of
revolution stand along the third axis; they are plane figures in (distance from the axis, height).
"""

from collections.abc import Callable

import torch
from torch import Tensor


def sphere(points: Tensor, sizes: Tensor) -> Tensor:
    """Sizes: radius, and two that are not used."""
    return points.norm(dim=-1) - sizes[:, :1]


def box(points: Tensor, sizes: Tensor) -> Tensor:
    """Sizes: half the edges."""
    return _rectangle(points.abs() - sizes[:, None])


def torus(points: Tensor, sizes: Tensor) -> Tensor:
    """Sizes: radius of the ring, radius of the tube, and one that is not used."""
    ring = points[..., :2].norm(dim=-1) - sizes[:, :1]
    return torch.stack([ring, points[..., 2]], -1).norm(dim=-1) - sizes[:, 1:2]


def cylinder(points: Tensor, sizes: Tensor) -> Tensor:
    """Sizes: radius, half the height, and one that is not used."""
    figure = torch.stack([points[..., :2].norm(dim=-1), points[..., 2].abs()], -1)
    return _rectangle(figure - sizes[:, None, :2])


def cone(points: Tensor, sizes: Tensor) -> Tensor:
    """Sizes: radius of the base, half the height, and one that is not used. The tip is at the top."""
    radius, half = sizes[:, :1], sizes[:, 1:2]
    across, up = points[..., :2].norm(dim=-1), points[..., 2] + half
    slant = torch.stack([-radius, 2 * half], -1)  # from the rim of the base to the tip
    from_rim = torch.stack([across - radius, up], -1)
    share = ((from_rim * slant).sum(-1) / slant.square().sum(-1)).clamp(0, 1)
    to_side = (from_rim - share[..., None] * slant).norm(dim=-1)
    to_base = torch.stack([(across - radius).clamp_min(0), up], -1).norm(dim=-1)
    beyond_side = from_rim[..., 0] * slant[..., 1] - from_rim[..., 1] * slant[..., 0]
    inside = (up > 0) & (beyond_side < 0)
    return torch.minimum(to_side, to_base) * torch.where(inside, -1.0, 1.0)


SOLIDS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sphere": sphere,
    "box": box,
    "torus": torus,
    "cylinder": cylinder,
    "cone": cone,
}


def _rectangle(beyond: Tensor) -> Tensor:
    """Distance to a rectangle or box from how far points lie beyond its sides, ``(..., d)``."""
    return beyond.clamp_min(0).norm(dim=-1) + beyond.amax(-1).clamp_max(0)
