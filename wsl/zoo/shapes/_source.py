"""Where shapes come from, at which points networks learn them, and what networks say of a point."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from wsl.zoo._errors import ZooError
from wsl.zoo.shapes._set import KINDS, ShapeSet, draw_shapes

_FIT, _JUDGE, _CUBE = 1, 2, 3  # what random numbers are for
_PROJECTIONS = 4


@dataclass(frozen=True)
class ShapeSource(ABC):
    """Random solids of several kinds, with random sizes, places and rotations in the cube [-1, 1]^3.

    The label is the kind. Networks learn a solid at points of its own, drawn once: some uniform in the cube,
    some near the surface, at a normal distance from it along each axis.

    Args:
        count: of solids; the kinds take turns.
        kinds: some of :data:`wsl.zoo.shapes.KINDS`; labels are places in this tuple.
        points: for each solid, in ``batches`` that steps of a fit take in turn.
        batches: equal parts of the points.
        near_surface: share of the points that lie near the surface.
        spread: standard deviation of their distance along each axis.
        held_out: points that fits are judged by: as many uniform ones, the same for all solids, and as many
            near the surface of each.
        resolution: of the grid that networks are rendered on, in each direction.
        seed: of solids and points.

    Raises:
        ZooError: a value outside its range.
    """

    count: int = 1000
    kinds: tuple[str, ...] = KINDS
    points: int = 8192
    batches: int = 8
    near_surface: float = 0.5
    spread: float = 0.05
    held_out: int = 4096
    resolution: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        for name in ("batches", "held_out"):
            if getattr(self, name) < 1:
                raise ZooError(f"{name} is {getattr(self, name)}, expected at least 1.")
        if self.points < self.batches or self.points % self.batches:
            raise ZooError(f"points is {self.points}, expected a multiple of batches, {self.batches}.")
        if not 0 <= self.near_surface <= 1:
            raise ZooError(f"near_surface is {self.near_surface}, expected a share from 0 to 1.")
        if not self.spread > 0:
            raise ZooError(f"spread is {self.spread}, expected a positive distance.")
        if self.resolution < 2:
            raise ZooError(f"resolution is {self.resolution}, expected at least 2 points in each direction.")
        if self.seed < 0:
            raise ZooError(f"seed is {self.seed}, expected 0 or more.")

    @abstractmethod
    def values(self, distances: Tensor) -> Tensor:
        """What a network should say of points at these signed distances."""

    @abstractmethod
    def inside(self, values: Tensor) -> Tensor:
        """Which points are inside by what a network says of them."""

    def load(self) -> ShapeSet:
        """Draw the solids."""
        return draw_shapes(self.count, self.kinds, self.seed)

    def fit_points(self, shapes: ShapeSet, rows: np.ndarray) -> Tensor:
        """Points to learn solids at, ``(batches, M, points / batches, 3)``."""
        each = self.points // self.batches
        near = round(self.near_surface * each)
        drawn = self._uniform(rows, _FIT, self.points).unflatten(1, (self.batches, each))
        surface = drawn[:, :, :near].flatten(1, 2)
        drawn[:, :, :near] = self._near_surface(shapes, rows, surface, _FIT).unflatten(
            1, (self.batches, near)
        )
        return drawn.transpose(0, 1).contiguous()

    def cube_points(self) -> Tensor:
        """Uniform points to judge all fits by, ``(1, held_out, 3)``."""
        generator = np.random.default_rng([self.seed, _CUBE])
        return torch.from_numpy(generator.uniform(-1, 1, (1, self.held_out, 3)).astype(np.float32))

    def surface_points(self, shapes: ShapeSet, rows: np.ndarray) -> Tensor:
        """Points near the surface to judge fits by, ``(M, held_out, 3)``."""
        return self._near_surface(shapes, rows, self._uniform(rows, _JUDGE, self.held_out), _JUDGE)

    def _uniform(self, rows: np.ndarray, purpose: int, count: int) -> Tensor:
        drawn = [
            np.random.default_rng([self.seed, row, purpose]).random((count, 3), dtype=np.float32)
            for row in rows
        ]
        return torch.from_numpy(np.stack(drawn)).mul_(2).sub_(1)

    def _near_surface(self, shapes: ShapeSet, rows: np.ndarray, points: Tensor, purpose: int) -> Tensor:
        """Move points ``(M, N, 3)`` to the surface and a random distance away from it."""
        for _ in range(_PROJECTIONS):
            with torch.enable_grad():
                points = points.detach().requires_grad_()
                distances = shapes.distances(rows, points)
                (slope,) = torch.autograd.grad(distances.sum(), points)
            points = points.detach() - distances.detach()[..., None] * slope
        noise = [
            np.random.default_rng([self.seed, row, purpose, 1]).standard_normal(
                points.shape[1:], dtype=np.float32
            )
            for row in rows
        ]
        return (points + self.spread * torch.from_numpy(np.stack(noise))).clamp_(-1, 1)


@dataclass(frozen=True)
class SdfShapes(ShapeSource):
    """Solids by their signed distance, negative inside, see :meth:`ShapeSet.distances`.

    Source: Park et al. 2019 (arXiv:1901.05103). Deviates: a network for each shape, distances are not
        truncated, and the loss is the mean squared error.
    """

    def values(self, distances: Tensor) -> Tensor:
        return distances

    def inside(self, values: Tensor) -> Tensor:
        return values < 0


@dataclass(frozen=True)
class OccupancyShapes(ShapeSource):
    """Solids by what is inside: 1 there, 0 outside, and networks say .5 on the surface.

    Source: Mescheder et al. 2019 (arXiv:1812.03828). Deviates: a network for each shape; the loss is the mean
    squared error.
    """

    def values(self, distances: Tensor) -> Tensor:
        return (distances < 0).float()

    def inside(self, values: Tensor) -> Tensor:
        return values > 0.5
