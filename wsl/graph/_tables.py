"""Index tables of the sparse form of a computational graph; built once per layout."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from wsl.graph._block import GraphBlock
from wsl.graph._ends import End, Use
from wsl.graph._layout import GraphLayout
from wsl.spec import NodeSet

ACTIVATIONS = (
    None, "relu", "leaky_relu", "elu", "gelu", "silu", "softplus", "sigmoid", "tanh", "sin", "softmax",
    "product", "layer_norm", "rms_norm", "group_norm", "batch_norm", "exp", "log", "cos", "pow", "hardtanh",
    "hardswish", "hardsigmoid", "mish", "selu", "prelu", "other",
)  # fmt: skip
EDGE_KINDS = ("weight", "identity", "hyperedge")


@dataclass(frozen=True, eq=False)
class GraphTables:
    """Where everything lies in the sparse form of one network.

    Args:
        node_type: ``(nodes,)``, index of the node set; after those, a type for each hyperedge block.
        node_activation: ``(nodes,)``, index of the node set's activation in ``ACTIVATIONS``.
        node_layer: ``(nodes,)``, graph distance of the node set from the inputs; -1 if there is no path, and
            for entries of hyperedge blocks.
        node_position: ``(nodes,)``, index of the node in those of its axes that may not be permuted (inputs,
            outputs, fixed axes); -1 if all may be, and for entries of hyperedge blocks.
        edge_type: ``(edges,)``, numbers the uses of blocks, the identity edges and the ends of hyperedges.
        edge_kind: ``(edges,)``, index in ``EDGE_KINDS``.
        edge_index: ``(2, edges)``, sources and targets.
        weight_id: ``(edges,)``, numbers the stored weights (all kernel positions are one): equal where a
            weight is used more than once; -1 where the edge has none.
        node_width: columns of ``x``.
        edge_width: columns of ``edge_attr``.
        node_rows: by key of a block that lies in ``x``, its nodes ``(copies, entries)``, in row-major order.
        edge_rows: by key of a block that lies in ``edge_attr``, its edges, use after use.
        edge_entries: by key of such a block, the entry that lies on each of these edges.
        columns: by key of a block that lies in ``x`` or ``u``, its columns there.
    """

    node_type: Tensor
    node_activation: Tensor
    node_layer: Tensor
    node_position: Tensor
    edge_type: Tensor
    edge_kind: Tensor
    edge_index: Tensor
    weight_id: Tensor
    node_width: int
    edge_width: int
    node_rows: Mapping[str, Tensor]
    edge_rows: Mapping[str, slice]
    edge_entries: Mapping[str, Tensor]
    columns: Mapping[str, slice]

    def first_edges(self, block: GraphBlock) -> Tensor:
        """For every entry of a block in ``edge_attr`` an edge on which it lies, ``(entries,)``."""
        rows, entries = self.edge_rows[block.key], self.edge_entries[block.key]
        first = torch.full((math.prod(block.sizes),), rows.stop)
        return first.scatter_reduce(0, entries, torch.arange(rows.start, rows.stop), "amin")


class _Edges:
    """Edges while they are listed."""

    def __init__(self) -> None:
        self.index = [torch.zeros(2, 0, dtype=torch.long)]
        self.types, self.kinds, self.weights = ([self.index[0][0]] for _ in range(3))
        self.count = 0

    def add(self, source: Tensor, target: Tensor, kind: str, weights: Tensor | None = None) -> None:
        """Add edges of a new type."""
        ends = torch.stack([source.flatten(), target.flatten()])
        none = torch.full_like(ends[0], -1)
        self.types.append(torch.full_like(ends[0], len(self.types) - 1))
        self.kinds.append(torch.full_like(ends[0], EDGE_KINDS.index(kind)))
        self.weights.append(none if weights is None else weights)
        self.index.append(ends)
        self.count += ends.shape[1]


@lru_cache(maxsize=256)
def graph_tables(layout: GraphLayout) -> GraphTables:
    """Build the tables of ``layout``; cached, as indices do not depend on weights."""
    columns, width = _columns(layout)
    pairs = [block for block in layout.edges if not block.is_hyperedge]
    stars = [block for block in layout.edges if block.is_hyperedge]
    edges, edge_rows, edge_entries, weights = _Edges(), {}, {}, 0
    for block in pairs:
        start, entries = edges.count, []
        for use in block.uses:
            source, target, entry = use_edges(layout, block, use)
            edges.add(source, target, "weight", weights + entry)
            entries.append(entry)
        edge_rows[block.key] = slice(start, edges.count)
        edge_entries[block.key] = torch.cat(entries)
        weights += math.prod(block.sizes)
    for use in layout.identities:
        source, target, _ = use_edges(layout, None, use)
        edges.add(source, target, "identity")
    node_rows = {block.key: _node_rows(layout, block) for block in layout.nodes}
    nodes = sum(layout.sizes.values())
    for block in stars:
        count = math.prod(block.sizes)
        entries_of = torch.arange(nodes, nodes + count)
        node_rows[block.key] = entries_of.unsqueeze(0)
        for use in block.uses:
            for end in use.ends:
                there = _spread(layout, block, end)
                here = entries_of.reshape(*block.sizes, 1, 1).expand(there.shape)
                edges.add(*((here, there) if end.target else (there, here)), "hyperedge")
        nodes += count
    extra = [math.prod(block.sizes) for block in stars]
    return GraphTables(
        **_node_columns(layout, extra),
        edge_type=torch.cat(edges.types),
        edge_kind=torch.cat(edges.kinds),
        edge_index=torch.cat(edges.index, dim=1),
        weight_id=torch.cat(edges.weights),
        node_width=width,
        edge_width=max((block.position_count for block in pairs), default=1),
        node_rows=node_rows,
        edge_rows=edge_rows,
        edge_entries=edge_entries,
        columns=columns,
    )


def activation_index(nodes: NodeSet) -> int:
    """Index of a node set's activation in ``ACTIVATIONS``."""
    return ACTIVATIONS.index(nodes.activation if nodes.activation in ACTIVATIONS else "other")


def use_edges(layout: GraphLayout, block: GraphBlock | None, use: Use) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, targets and entries of the block (``None``: identity edges) of all edges of one use.

    In row-major order of the block; edges of one entry follow one another.
    """
    assert use.source is not None
    target, source = _spread(layout, block, use.target), _spread(layout, block, use.source)
    sizes = () if block is None else block.sizes
    shape = (*sizes, use.target.parts[2], use.target.parts[3], use.source.parts[3])
    entries = torch.arange(math.prod(sizes)).reshape(*sizes, 1, 1, 1).expand(shape)
    target, source = target.unsqueeze(-1).expand(shape), source.unsqueeze(-2).expand(shape)
    return source.flatten(), target.flatten(), entries.flatten()


def _spread(layout: GraphLayout, block: GraphBlock | None, end: End) -> Tensor:
    """The nodes at one end of every entry of a block: ``(n_1, ..., n_k, common, rest)``."""
    rows = end.rows(layout.slices[end.nodes].start)
    if block is None:
        return rows.reshape(end.parts[2:])
    covered = {*end.groups, *([0] if block.batched else [])}
    own = [size if g in covered else 1 for g, size in enumerate(block.sizes)]
    return rows.reshape(*own, *end.parts[2:]).expand(*block.sizes, *end.parts[2:])


def _node_rows(layout: GraphLayout, block: GraphBlock) -> Tensor:
    """The nodes that hold each entry of a block, ``(copies, entries)``."""
    rows = [_spread(layout, block, use.target).reshape(math.prod(block.sizes), -1) for use in block.uses]
    return torch.cat(rows, dim=1).T


def _node_columns(layout: GraphLayout, extra: list[int]) -> dict[str, Tensor]:
    """What is known of every node; ``extra`` says how many entries every hyperedge block has."""
    types, activations, layers = [], [], []
    for i, nodes in enumerate(layout.spec.topology.nodes):
        depth = layout.depths[nodes.name][0]
        types.append(i)
        activations.append(activation_index(nodes))
        layers.append(-1 if depth is None else depth)
    count = len(types)
    sizes = torch.tensor([*layout.sizes.values(), *extra], dtype=torch.long)
    entries = torch.full((sum(extra),), -1)
    return {
        "node_type": torch.arange(count + len(extra)).repeat_interleave(sizes),
        "node_activation": torch.tensor(activations + [0] * len(extra)).repeat_interleave(sizes),
        "node_layer": torch.tensor(layers + [-1] * len(extra)).repeat_interleave(sizes),
        "node_position": torch.cat([*layout.indices.values(), entries]),
    }


def _columns(layout: GraphLayout) -> tuple[dict[str, slice], int]:
    """Columns of node blocks and hyperedges in ``x``, shared by role and occurrence; of globals in ``u``."""
    shared: dict[tuple[object, ...], list[GraphBlock]] = {}
    for block in layout.nodes:
        shared.setdefault((block.role, block.occurrence), []).append(block)
    for block in layout.edges:
        if block.is_hyperedge:
            shared.setdefault((block.key,), []).append(block)
    columns: dict[str, slice] = {}
    start = 0
    for blocks in shared.values():
        for block in blocks:
            columns[block.key] = slice(start, start + block.position_count)
        start += max(block.position_count for block in blocks)
    width, start = start, 0
    for block in layout.globals:
        columns[block.key] = slice(start, start + block.position_count)
        start += block.position_count
    return columns, width
