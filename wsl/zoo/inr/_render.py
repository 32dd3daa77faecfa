"""The signals that a zoo's INRs hold, on a grid."""

import math

import numpy as np
import torch
from torch import Tensor

from wsl.zoo._architecture import Located, ZooArchitecture
from wsl.zoo._errors import ZooError
from wsl.zoo._map import Rows, select
from wsl.zoo._store import Zoo
from wsl.zoo.inr._renderer import Renderer, grid_shape

_POINTS = 2**18


def render(zoo: Zoo | ZooArchitecture, rows: Rows = None, *, batch: int | None = None) -> Tensor:
    """Run INRs on their grid, whatever their architectures.

    Args:
        zoo: an INR zoo, or one architecture of it; forward definitions say how the networks run.
        rows: row numbers, a boolean mask, a slice, or None for all.
        batch: networks that run at once; by default as many as have 2^18 points together.

    Returns:
        ``(n, *grid)``, or ``(n, *grid, C)`` for several channels: images ``(n, H, W)`` clipped to [0, 1], or
        the values of a solid on a grid ``(n, D, H, W)``.

    Raises:
        ZooError: there is no grid, so the networks are no INRs; architectures have grids of several shapes;
            or a row that does not exist.
    """
    if batch is not None and batch < 1:
        raise ZooError(f"batch is {batch}, expected at least 1.")
    if isinstance(zoo, ZooArchitecture):
        chosen, views = np.arange(len(zoo))[select(rows, len(zoo))], [zoo]
        parts = [Located(zoo, np.arange(len(chosen)), chosen)]
    else:
        parts = zoo.locate(rows)
        views = [part.architecture for part in parts] or list(zoo.architectures.values())
    shapes = {view.name: grid_shape(view.forward) for view in views}
    if len(set(shapes.values())) > 1:
        raise ZooError(
            f"These networks have grids of several shapes: {shapes}. Render one architecture at a time: "
            "zoo.architectures[name]."
        )
    signals = torch.empty(sum(len(part.rows) for part in parts), *shapes[views[0].name])
    for part in parts:
        show = Renderer(part.architecture.forward).show
        size = batch or max(1, _POINTS // math.prod(part.architecture.forward.grid or (1,)))
        for start in range(0, len(part.rows), size):
            some = slice(start, start + size)
            signals[part.positions[some]] = show(part.architecture.weights(part.rows[some]))
    return signals
