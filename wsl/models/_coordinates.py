"""The grids that coordinate networks are run on."""

from collections.abc import Sequence

import torch
from torch import Tensor


def coordinate_grid(
    shape: Sequence[int],
    *,
    offset: Sequence[float] | float = 0.0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Coordinates of the pixels of an image, in row-major order, in [-1, 1].

    Centres of the outermost pixels lie on the border: along an axis of ``n`` pixels, pixel ``i`` sits at
    ``-1 + 2 i / (n - 1)`` (at 0 if ``n`` is 1). The first coordinate runs down the rows, the second along
    the columns, as in SIREN's own code.

    Args:
        shape: ``(H, W)``, or any number of axes.
        offset: moves the grid by this many pixels, per axis or for all; with .5 the points lie between pixels
            (and the last one of each axis outside the image).

    Returns:
        ``(prod(shape), len(shape))``.
    """
    shifts = [float(offset)] * len(shape) if isinstance(offset, int | float) else [float(o) for o in offset]
    if len(shifts) != len(shape) or any(n < 1 for n in shape):
        raise ValueError(
            f"coordinate_grid: got shape {tuple(shape)} and offset {offset}, "
            "expected positive sizes and one offset per axis."
        )
    axes = []
    for n, shift in zip(shape, shifts, strict=True):
        steps = torch.arange(n, dtype=torch.float64) + shift
        axes.append(steps * 2 / (n - 1) - 1 if n > 1 else steps)
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
    return grid.reshape(-1, len(shape)).to(dtype)
