"""Constant features of what a specification says about neurons and kernel positions."""

import math
from functools import lru_cache

import torch
from torch import Tensor

from wsl.graph import GraphBlock, GraphLayout
from wsl.nn._fourier import sinusoids
from wsl.spec import Axis

KINDS = ("hidden", "input", "output", "fixed")
ACTIVATIONS = (
    None, "relu", "leaky_relu", "elu", "gelu", "silu", "softplus", "sigmoid", "tanh", "sin", "softmax",
    "other",
)  # fmt: skip

_DIMS = 4
_PER_DIM = 10
_OCCURRENCE = 4
_DEPTH = 4
_INDEX = 8

POSITION_FEATURES = _DIMS * _PER_DIM + 2 * _OCCURRENCE
NEURON_FEATURES = len(KINDS) + len(ACTIVATIONS) + 2 * (2 * _DEPTH + 1) + 1 + 2 * _INDEX


@lru_cache(maxsize=4096)
def position_features(block: GraphBlock, dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """Describe the positions of a block, counted from the last dimension, and its occurrence.

    Returns:
        ``(K, POSITION_FEATURES)``, or ``None`` where all features are zero: one position, first occurrence.
    """
    if block.position_count == 1 and block.occurrence == 0:
        return None
    lead = math.prod(block.positions[: 1 - _DIMS]) if len(block.positions) > _DIMS else None
    sizes = block.positions if lead is None else (lead, *block.positions[1 - _DIMS :])
    grids = (
        torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in sizes), indexing="ij") if sizes else ()
    )
    columns = torch.zeros(block.position_count, POSITION_FEATURES, dtype=torch.float64)
    for i, (size, grid) in enumerate(zip(reversed(sizes), reversed(grids), strict=True)):
        offset = grid.flatten() - (size - 1) / 2
        coordinate = 2 * offset / max(size - 1, 1)
        parts = [
            coordinate[:, None],
            torch.full_like(coordinate, math.log(size))[:, None],
            sinusoids(offset, 4),
        ]
        columns[:, i * _PER_DIM : (i + 1) * _PER_DIM] = torch.cat(parts, dim=1)
    columns[:, _DIMS * _PER_DIM :] = sinusoids(torch.tensor(float(block.occurrence)).double(), _OCCURRENCE)
    return columns.to(device, dtype)


@lru_cache(maxsize=256)
def neuron_features(layout: GraphLayout, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Describe every neuron by its axis, and by its index where the axis may not be permuted.

    Returns:
        ``(N, NEURON_FEATURES)`` for the neurons of all axes; rows of one hidden axis are equal.
    """
    rows = [_axis_features(axis, layout.depths[axis.name]) for axis in layout.spec.axes.values()]
    return torch.cat(rows).to(device, dtype)


def _axis_features(axis: Axis, depths: tuple[int | None, int | None]) -> Tensor:
    activation = axis.activation if axis.activation in ACTIVATIONS else "other"
    parts = [
        torch.eye(len(KINDS), dtype=torch.float64)[KINDS.index(axis.kind)],
        torch.eye(len(ACTIVATIONS), dtype=torch.float64)[ACTIVATIONS.index(activation)],
        torch.tensor([math.log(axis.size) / 4], dtype=torch.float64),
    ]
    for depth in depths:
        distance = torch.tensor(float(depth or 0), dtype=torch.float64)
        parts += [sinusoids(distance, _DEPTH), torch.tensor([float(depth is None)], dtype=torch.float64)]
    constant = torch.cat(parts).expand(axis.size, -1)
    index = torch.arange(axis.size, dtype=torch.float64)
    return torch.cat([constant, sinusoids(index if axis.kind != "hidden" else 0 * index, _INDEX)], dim=1)
