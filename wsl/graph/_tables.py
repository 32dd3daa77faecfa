"""Index tables of the sparse form of a computational graph; built once per layout."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from wsl.graph._layout import GraphBlock, GraphLayout


@dataclass(frozen=True, eq=False)
class GraphTables:
    """Where everything lies in the sparse form of one network.

    Args:
        node_type: ``(nodes,)``, index of the neuron's axis; after those, a type for each hyperedge block.
        node_layer: ``(nodes,)``, graph distance of the neuron's axis from the inputs; -1 if there is no path,
            and for entries of hyperedge blocks.
        node_position: ``(nodes,)``, index of the neuron in its axis where that may not be permuted (inputs,
            outputs, fixed axes); -1 for hidden neurons and entries of hyperedge blocks.
        edge_type: ``(edges,)``, numbers the edge blocks, and the axes of hyperedge blocks after them.
        edge_index: ``(2, edges)``, sources and targets.
        node_width: columns of ``x``.
        edge_width: columns of ``edge_attr``.
        node_rows: by key of a block that lies in ``x``, its nodes.
        edge_rows: by key of a block that lies in ``edge_attr``, its edges, in row-major order of the block.
        columns: by key of a block that lies in ``x`` or ``u``, its columns there.
    """

    node_type: Tensor
    node_layer: Tensor
    node_position: Tensor
    edge_type: Tensor
    edge_index: Tensor
    node_width: int
    edge_width: int
    node_rows: Mapping[str, slice]
    edge_rows: Mapping[str, slice]
    columns: Mapping[str, slice]


@lru_cache(maxsize=256)
def graph_tables(layout: GraphLayout) -> GraphTables:
    """Build the tables of ``layout``; cached, as indices do not depend on weights."""
    axes = layout.spec.axes
    columns, width = _columns(layout)
    pairs = [block for block in layout.edges if len(block.axes) == 2]
    stars = [block for block in layout.edges if len(block.axes) > 2]
    node_type = [torch.full((axis.size,), i) for i, axis in enumerate(axes.values())]
    node_rows = {block.key: layout.slices[block.axes[0]] for block in layout.nodes}
    edge_rows, edges = {}, []
    count = 0
    for block in pairs:
        ends = _ends(layout, block)
        edges.append(torch.stack(ends if block.targets == (False, True) else ends[::-1]))
        edge_rows[block.key] = slice(count, count + ends[0].numel())
        count += ends[0].numel()
    nodes = sum(axis.size for axis in axes.values())
    for i, block in enumerate(stars):
        ends = _ends(layout, block)
        entries = torch.arange(nodes, nodes + ends[0].numel())
        node_type.append(torch.full((len(entries),), len(axes) + i))
        node_rows[block.key] = slice(nodes, nodes + len(entries))
        for end, target in zip(ends, block.targets, strict=True):
            edges.append(torch.stack([entries, end] if target else [end, entries]))
        nodes += len(entries)
    empty = torch.zeros(2, 0, dtype=torch.long)
    layers = [torch.full((axis.size,), _depth(layout, name)) for name, axis in axes.items()]
    positions = [
        torch.full((axis.size,), -1) if axis.kind == "hidden" else torch.arange(axis.size)
        for axis in axes.values()
    ]
    entries = torch.full((nodes - sum(axis.size for axis in axes.values()),), -1)
    return GraphTables(
        node_type=torch.cat(node_type),
        node_layer=torch.cat([*layers, entries]),
        node_position=torch.cat([*positions, entries]),
        edge_type=torch.cat([empty[0], *(torch.full((e.shape[1],), i) for i, e in enumerate(edges))]),
        edge_index=torch.cat([empty, *edges], dim=1),
        node_width=width,
        edge_width=max((block.position_count for block in pairs), default=1),
        node_rows=node_rows,
        edge_rows=edge_rows,
        columns=columns,
    )


def _depth(layout: GraphLayout, axis: str) -> int:
    depth = layout.depths[axis][0]
    return -1 if depth is None else depth


def _ends(layout: GraphLayout, block: GraphBlock) -> list[Tensor]:
    """For every axis of a block, the node at that end of each entry, in row-major order."""
    ranges = [torch.arange(rows.start, rows.stop) for rows in (layout.slices[axis] for axis in block.axes)]
    return [end.flatten() for end in torch.meshgrid(*ranges, indexing="ij")]


def _columns(layout: GraphLayout) -> tuple[dict[str, slice], int]:
    """Columns of node blocks and hyperedges in ``x``, shared by role and occurrence; of globals in ``u``."""
    shared: dict[tuple[object, ...], list[GraphBlock]] = {}
    for block in layout.nodes:
        shared.setdefault((block.role, block.occurrence), []).append(block)
    for block in layout.edges:
        if len(block.axes) > 2:
            shared.setdefault((block.key,), []).append(block)
    columns: dict[str, slice] = {}
    start = 0
    for blocks in shared.values():
        for block in blocks:
            columns[block.key] = slice(start, start + math.prod(block.positions))
        start += max(block.position_count for block in blocks)
    width, start = start, 0
    for block in layout.globals:
        columns[block.key] = slice(start, start + block.position_count)
        start += block.position_count
    return columns, width
