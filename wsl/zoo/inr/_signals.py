"""What the networks of a zoo hold: signals at points, and how good a fit of them is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from wsl.zoo.images import ImageSource
from wsl.zoo.inr._points import (
    PHASES,
    Points,
    PointSets,
    Targets,
    phase_axes,
    phase_targets,
    phase_values,
    psnr,
)
from wsl.zoo.shapes import KINDS, ShapeSource

Run = Callable[[Points], Tensor]
"""Signals ``(M, C, points)`` of M fitted networks at points."""


class Signals(ABC):
    """As many signals as a source has, of one size.

    Args:
        count: of signals.
        grid: that networks are rendered on; a size for each coordinate of a point.
        channels: of the signals.
        step_points: points of a step of a fit, at most.
        labels: ``(count,)`` integers, or ``None``.
        label_names: text of each label, if there is one.
        columns: further metadata, ``(count,)`` each.
        origin: what identifies the signals, as a zoo's provenance tells it.
    """

    noun: ClassVar[str]
    """One signal, and the metadata column with its number."""
    clipped: ClassVar[bool]
    """Whether rendering clips to [0, 1]."""

    def __init__(
        self,
        count: int,
        grid: tuple[int, ...],
        channels: int,
        step_points: int,
        labels: np.ndarray | None,
        label_names: Sequence[str],
        columns: Mapping[str, np.ndarray],
        origin: dict[str, Any],
    ) -> None:
        self.count, self.grid, self.channels, self.step_points = count, grid, channels, step_points
        self.label_names, self.origin = list(label_names), origin
        self._columns = {**columns} if labels is None else {"label": labels, **columns}

    def columns(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Numbers and metadata of M signals."""
        return {self.noun: numbers, **{name: values[numbers] for name, values in self._columns.items()}}

    @abstractmethod
    def targets(self, numbers: np.ndarray, *, between: bool) -> Targets:
        """M signals where fits learn them; of images also ``between`` the pixels."""

    @abstractmethod
    def quality(self, numbers: np.ndarray, run: Run) -> dict[str, np.ndarray]:
        """How well M networks hold their signals: column name -> ``(M,)``."""


class ImageSignals(Signals):
    """Images. Quality: ``psnr`` in dB on the pixels, ``psnr_offgrid`` half a pixel between them, bilinear."""

    noun, clipped = "image", True

    def __init__(self, source: ImageSource, limit: int | None) -> None:
        images = self._images = source.load().limited(limit)
        origin = {"class": type(source).__name__, "images": len(images), "identity": images.identity}
        super().__init__(
            len(images),
            images.grid,
            images.channels,
            images.grid[0] * images.grid[1],
            images.labels,
            images.label_names,
            images.columns,
            origin,
        )

    def targets(self, numbers: np.ndarray, *, between: bool) -> Targets:
        return phase_targets(self._images.signals(numbers), PHASES if between else PHASES[:1])

    def quality(self, numbers: np.ndarray, run: Run) -> dict[str, np.ndarray]:
        images, found = self._images.signals(numbers), {}
        for column, phase in (("psnr", PHASES[0]), ("psnr_offgrid", PHASES[-1])):
            errors = run(phase_axes(self.grid, phase)) - phase_values(images, phase)
            found[column] = psnr(errors.square().mean((1, 2))).numpy()
        return found


class ShapeSignals(Signals):
    """Solids at random points. Quality, all at points that fits did not see:

    ``iou``: intersection over union of what network and solid have inside, at uniform points;
    ``surface_accuracy``: share of the points near the surface that the network has on their side of it;
    ``uniform_error``, ``surface_error``: mean absolute error of the signal at uniform points, and near the
    surface.
    """

    noun, clipped = "shape", False

    def __init__(self, source: ShapeSource, limit: int | None) -> None:
        self._source, shapes = source, source.load().first(limit)
        self._shapes = shapes
        origin = {
            "class": type(source).__name__,
            "shapes": len(shapes),
            "identity": shapes.identity,
            "arguments": asdict(source),
        }
        super().__init__(
            len(shapes),
            (source.resolution,) * 3,
            1,
            source.points // source.batches,
            np.array([source.kinds.index(KINDS[kind]) for kind in shapes.kinds]),
            source.kinds,
            {},
            origin,
        )

    def targets(self, numbers: np.ndarray, *, between: bool) -> Targets:
        points = self._source.fit_points(self._shapes, numbers)
        values = [self._source.values(self._shapes.distances(numbers, batch))[:, None] for batch in points]
        return Targets([PointSets(batch) for batch in points], values)

    def quality(self, numbers: np.ndarray, run: Run) -> dict[str, np.ndarray]:
        source, found = self._source, {}
        for name, points in (
            ("uniform", source.cube_points()),
            ("surface", source.surface_points(self._shapes, numbers)),
        ):
            wanted = source.values(self._shapes.distances(numbers, points))
            said = torch.cat([run(PointSets(part))[:, 0] for part in points.split(self.step_points, 1)], 1)
            inside, said_inside = source.inside(wanted), source.inside(said)
            if name == "uniform":
                union = (inside | said_inside).sum(1).clamp_min(1)
                found["iou"] = ((inside & said_inside).sum(1) / union).numpy()
            else:
                found["surface_accuracy"] = (inside == said_inside).float().mean(1).numpy()
            found[f"{name}_error"] = (said - wanted).abs().mean(1).numpy()
        return found


def signals_of(source: ImageSource | ShapeSource, limit: int | None) -> Signals:
    """At most ``limit`` signals of a source, see :meth:`ImageSet.limited`, or all.

    Raises:
        ZooError: they cannot be had.
    """
    return ImageSignals(source, limit) if isinstance(source, ImageSource) else ShapeSignals(source, limit)
