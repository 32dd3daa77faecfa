"""Random solids: what they are, how they lie, and their signed distances."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from wsl.zoo._errors import ZooError
from wsl.zoo.shapes._solids import SOLIDS

_SINGLE = tuple(SOLIDS)
KINDS = (*_SINGLE, "union", "difference")
# Least and largest sizes, in the order in which a solid takes them. Turned and moved, all stay within [-1,
# 1].
_SIZES = {
    "sphere": ((0.35, 0.6), (1, 1), (1, 1)),
    "box": ((0.2, 0.45), (0.2, 0.45), (0.2, 0.45)),
    "torus": ((0.35, 0.5), (0.12, 0.22), (1, 1)),
    "cylinder": ((0.2, 0.45), (0.25, 0.55), (1, 1)),
    "cone": ((0.3, 0.5), (0.3, 0.55), (1, 1)),
}
_MOVED = 0.1  # along each axis, either way
_PAIR_SIZES = {"union": (0.75, 0.75), "difference": (1.0, 0.75)}
_SECOND = [
    _SINGLE.index(name) for name in ("sphere", "box", "cylinder", "cone")
]  # a ring cuts hardly anything
_STEPS = 8  # along the distance, from a random point to the surface


@dataclass(frozen=True, eq=False)
class ShapeSet:
    """Solids in the cube [-1, 1]^3: one part each, or the union or difference of two.

    Args:
        kinds: ``(n,)`` places in :data:`KINDS`.
        parts: ``(n, 2)`` places in :data:`KINDS` of the two parts, which are single solids. Kinds of one part
            are their first.
        sizes: ``(n, 2, 3)`` as the solids take them.
        centres: ``(n, 2, 3)``.
        rotations: ``(n, 2, 3, 3)``, from a solid's own axes to the cube's.
    """

    kinds: np.ndarray
    parts: np.ndarray
    sizes: np.ndarray
    centres: np.ndarray
    rotations: np.ndarray

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def identity(self) -> str:
        """Hash of all that these solids are."""
        digest = hashlib.sha256()
        for name in (field.name for field in fields(self)):
            digest.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        return digest.hexdigest()[:32]

    def first(self, limit: int | None) -> "ShapeSet":
        """The first ``limit`` solids, or all."""
        if limit is None:
            return self
        if limit < 1:
            raise ZooError(f"limit is {limit}; it counts shapes and must be at least 1.")
        return ShapeSet(*(getattr(self, field.name)[:limit] for field in fields(self)))

    def distances(self, rows: Sequence[int] | np.ndarray, points: Tensor) -> Tensor:
        """Signed distance of points from the surface, negative inside.

        Exact for single solids, and in sign for all. For unions (minimum of both parts) it is exact outside;
        inside them, and for differences (maximum of one and the other's negative), it may be nearer to 0 than
        the distance, and is the exact one near the surface of one part alone.

        Args:
            rows: of M solids.
            points: ``(M, N, 3)``, or ``(1, N, 3)`` for all.

        Returns:
            ``(M, N)``, float32.
        """
        rows = np.asarray(rows)
        points = points.expand(len(rows), -1, -1)
        first = self._part_distances(rows, 0, points)
        for name in _PAIR_SIZES:
            mine = torch.from_numpy(np.flatnonzero(self.kinds[rows] == KINDS.index(name)))
            if len(mine) == 0:
                continue
            second = self._part_distances(rows[mine.numpy()], 1, points[mine])
            both = torch.minimum if name == "union" else torch.maximum
            first = first.index_copy(0, mine, both(first[mine], second if name == "union" else -second))
        return first

    def _part_distances(self, rows: np.ndarray, part: int, points: Tensor) -> Tensor:
        rotations, centres, sizes = (
            torch.from_numpy(values[rows, part]) for values in (self.rotations, self.centres, self.sizes)
        )
        own = (points - centres[:, None]) @ rotations
        found = torch.zeros(own.shape[:2])
        for place, name in enumerate(_SINGLE):
            mine = torch.from_numpy(np.flatnonzero(self.parts[rows, part] == place))
            if len(mine):
                found = found.index_copy(0, mine, SOLIDS[name](own[mine], sizes[mine]))
        return found


def draw_shapes(count: int, kinds: Sequence[str], seed: int) -> ShapeSet:
    """Solids of the kinds in turn, with random sizes, places and rotations.

    Each depends on the kinds, the seed and its number alone.

    Raises:
        ZooError: no solids, or kinds that do not exist or repeat.
    """
    if count < 1:
        raise ZooError(f"count is {count}; it counts shapes and must be at least 1.")
    if not kinds or len(set(kinds)) != len(kinds) or not set(kinds) <= set(KINDS):
        raise ZooError(f"kinds are {list(kinds)}, expected some of {', '.join(KINDS)}, each once.")
    drawn = [_draw(kinds[i % len(kinds)], np.random.default_rng([seed, i, 0])) for i in range(count)]
    return ShapeSet(*(np.stack(values) for values in zip(*drawn, strict=True)))


def _draw(kind: str, generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """The fields of one solid."""
    if kind in _PAIR_SIZES:
        parts = np.array([generator.integers(len(_SINGLE)), generator.choice(_SECOND)])
    else:
        parts = np.full(2, KINDS.index(kind))
    ranges = np.array([_SIZES[_SINGLE[part]] for part in parts])
    sizes = ranges[..., 0] + generator.random((2, 3)) * (ranges[..., 1] - ranges[..., 0])
    rotations = np.stack([_rotation(generator) for _ in range(2)])
    centres = np.tile(generator.uniform(-_MOVED, _MOVED, 3), (2, 1))
    if kind in _PAIR_SIZES:  # the second part sits on the surface of the first, so that both count
        sizes *= np.array(_PAIR_SIZES[kind])[:, None]
        towards = rotations[0] @ _surface_point(_SINGLE[parts[0]], sizes[0], generator)
        centres += np.array([[-0.5], [0.5]] if kind == "union" else [[0.0], [1.0]]) * towards
    floats = (values.astype(np.float32) for values in (sizes, centres, rotations))
    return np.array(KINDS.index(kind)), parts, *floats


def _surface_point(name: str, sizes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """A random point on a solid's surface, ``(3,)``, along its own axes."""
    point, of_solid = torch.from_numpy(generator.uniform(-1, 1, (1, 1, 3))), torch.from_numpy(sizes)[None]
    for _ in range(_STEPS):
        with torch.enable_grad():
            point = point.detach().requires_grad_()
            distance = SOLIDS[name](point, of_solid)
            (slope,) = torch.autograd.grad(distance.sum(), point)
        point = point.detach() - distance.detach()[..., None] * slope
    found: np.ndarray = point[0, 0].numpy()
    return found


def _rotation(generator: np.random.Generator) -> np.ndarray:
    """Uniform rotation, ``(3, 3)``, from a uniform unit quaternion."""
    a, b, c, d = (q := generator.normal(size=4)) / np.linalg.norm(q)
    return np.array(
        [
            [a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)],
            [2 * (b * c + a * d), a * a - b * b + c * c - d * d, 2 * (c * d - a * b)],
            [2 * (b * d - a * c), 2 * (c * d + a * b), a * a - b * b - c * c + d * d],
        ]
    )
