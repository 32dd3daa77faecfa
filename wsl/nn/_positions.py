"""Constant features of what a specification says about neurons, blocks and kernel positions."""

import math

import torch
from torch import Tensor

from wsl.graph import ACTIVATIONS, ROLES, GraphBlock, GraphLayout, activation_index
from wsl.nn._constants import cached_constants
from wsl.nn._fourier import sinusoids
from wsl.spec import NodeSet

KINDS = ("hidden", "input", "output", "fixed")
_COMMON = ACTIVATIONS.index("softmax") + 1  # activations with a feature of their own; one more is for others

_DIMS = 4
_PER_DIM = 10
_OCCURRENCE = 4
_DEPTH = 4
_INDEX = 8

OPERATORS = len(ACTIVATIONS) - _COMMON - 1
POSITION_FEATURES = _DIMS * _PER_DIM + 2 * _OCCURRENCE
NEURON_FEATURES = len(KINDS) + _COMMON + 1 + 2 * (2 * _DEPTH + 1) + 1 + 2 * _INDEX
BLOCK_FEATURES = len(ROLES) + 2 * NEURON_FEATURES


def position_features(block: GraphBlock, dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """Describe the positions of a block, counted from the last dimension, and its occurrence.

    Returns:
        ``(K, POSITION_FEATURES)``, or ``None`` where all features are zero: one position, first occurrence.
    """
    return _position_features(block.positions, block.occurrence, dtype, device)


@cached_constants(4096)
def _position_features(
    positions: tuple[int, ...], occurrence: int, dtype: torch.dtype, device: torch.device
) -> Tensor | None:
    count = math.prod(positions)
    if count == 1 and occurrence == 0:
        return None
    lead = math.prod(positions[: 1 - _DIMS]) if len(positions) > _DIMS else None
    sizes = positions if lead is None else (lead, *positions[1 - _DIMS :])
    grids = (
        torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in sizes), indexing="ij") if sizes else ()
    )
    columns = torch.zeros(count, POSITION_FEATURES, dtype=torch.float64)
    for i, (size, grid) in enumerate(zip(reversed(sizes), reversed(grids), strict=True)):
        offset = grid.flatten() - (size - 1) / 2
        coordinate = 2 * offset / max(size - 1, 1)
        parts = [
            coordinate[:, None],
            torch.full_like(coordinate, math.log(size))[:, None],
            sinusoids(offset, 4),
        ]
        columns[:, i * _PER_DIM : (i + 1) * _PER_DIM] = torch.cat(parts, dim=1)
    columns[:, _DIMS * _PER_DIM :] = sinusoids(torch.tensor(float(occurrence)).double(), _OCCURRENCE)
    return columns.to(device, dtype)


@cached_constants(256)
def neuron_features(layout: GraphLayout, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Describe every node by its node set, and by its index in axes that may not be permuted.

    Returns:
        ``(N, NEURON_FEATURES)`` for the nodes of all sets; rows of a set of hidden neurons are equal.
    """
    rows = [_node_features(layout, nodes) for nodes in layout.spec.topology.nodes]
    return torch.cat(rows).to(device, dtype) if rows else torch.zeros(0, NEURON_FEATURES).to(device, dtype)


@cached_constants(256)
def block_features(layout: GraphLayout, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Describe every block of the specification by its role, and by the nodes that it is first used at.

    Returns:
        ``(blocks, BLOCK_FEATURES)``, in the order of the specification's blocks. Of the nodes at the target
        and the source it holds the mean features; zeros where there are none.
    """
    neurons = neuron_features(layout, torch.float64, torch.device("cpu"))
    rows = torch.zeros(len(layout.blocks), BLOCK_FEATURES, dtype=torch.float64)
    for row, block in zip(rows, layout.blocks, strict=True):
        row[ROLES.index(block.role)] = 1
        for i, end in enumerate(block.uses[0].ends[:2] if block.uses else ()):
            start = len(ROLES) + i * NEURON_FEATURES
            row[start : start + NEURON_FEATURES] = neurons[layout.slices[end.nodes]].mean(0)
    return rows.to(device, dtype)


@cached_constants(256)
def operator_features(layout: GraphLayout, dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """Which of the rarer activations every node follows: products, norms, ...

    Returns:
        ``(N, OPERATORS)``, ones and zeros; ``None`` if there are only zeros.
    """
    choices = torch.eye(OPERATORS, dtype=torch.float64)
    choices = torch.cat([torch.zeros(_COMMON, OPERATORS), choices, torch.zeros(1, OPERATORS)])
    found = {nodes.name: activation_index(nodes) for nodes in layout.spec.topology.nodes}
    if not any(_COMMON <= index < _COMMON + OPERATORS for index in found.values()):
        return None
    indices = [found[name] for name, size in layout.sizes.items() for _ in range(size)]
    return choices[torch.tensor(indices)].to(device, dtype)


def _node_features(layout: GraphLayout, nodes: NodeSet) -> Tensor:
    activation = min(activation_index(nodes), _COMMON)
    index = layout.indices[nodes.name]
    parts = [
        torch.eye(len(KINDS), dtype=torch.float64)[KINDS.index(layout.kinds[nodes.name])],
        torch.eye(_COMMON + 1, dtype=torch.float64)[activation],
        torch.tensor([math.log(len(index)) / 4], dtype=torch.float64),
    ]
    for depth in layout.depths[nodes.name]:
        distance = torch.tensor(float(depth or 0), dtype=torch.float64)
        parts += [sinusoids(distance, _DEPTH), torch.tensor([float(depth is None)], dtype=torch.float64)]
    constant = torch.cat(parts).expand(len(index), -1)
    return torch.cat([constant, sinusoids(index.clamp(min=0).double(), _INDEX)], dim=1)
