"""Networks of any architectures side by side, as lists of nodes and edges: one graph of unconnected parts."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from wsl.graph import EDGE_KINDS, End, GraphBlock, GraphError, GraphLayout, Use, graph_layout, graph_tables
from wsl.nn import OPERATORS, neuron_features, operator_features
from wsl.spec import WeightSpec

# What the entries of a table count, for those that number something: shifted where networks are joined.
_COUNTED = {
    "value_block": "blocks",
    "node_network": "networks",
    "target_node": "nodes",
    "source_node": "nodes",
    "edge_target": "targets",
    "edge_source": "sources",
    "edge_entry": "entries",
    "identity_target": "nodes",
    "identity_source": "nodes",
}
_OWNERS = {"edges": "entries", "nodes": "nodes", "networks": "networks"}


class Placement(NamedTuple):
    """Weights that are embedded alike: of one role, kernel shape and occurrence.

    Args:
        owner: whether they lie on ``edges``, ``nodes`` or ``networks``.
        block: one of their blocks, for its role, positions and occurrence.
        values: ``(M, K)``, where the weights of each entry lie in the list of all values.
        rows: ``(M,)``, the entry, node or network that each belongs to.
    """

    owner: str
    block: GraphBlock
    values: Tensor
    rows: Tensor

    @property
    def kind(self) -> tuple[object, ...]:
        """What embeddings tell apart."""
        return self.owner, self.block.role, self.block.positions, self.block.occurrence


@dataclass(frozen=True, eq=False)
class SparseGraphs:
    """One network or several as lists: values (stored numbers), nodes, entries (weights on edges), edges.

    An edge ends at slots: a slot stands for a node at one end of one use of a block, and holds what all of
    its edges share. An entry that is used more than once has several edges.

    Args:
        sizes: ``(networks,)`` each: how many of everything every network has.
        value_block: ``(values,)``, the block of each stored number.
        node_network: ``(nodes,)``.
        neurons: ``(nodes, F)`` and ``operators``: ``(nodes, O)``, constant features of nodes.
        target_node, source_node: ``(slots,)``, of target and of source slots.
        target_share, source_share: ``(slots, 1)``, part of each edge in the update of its entry.
        target_mean, target_sum, source_mean, source_sum: ``(slots, 1)``, factors of the sums of messages.
        edge_target, edge_source: ``(edges,)``, the slots at the ends.
        edge_entry: ``(edges,)``.
        identity_target, identity_source: ``(identities,)``, nodes at the ends of edges without weights.
        identity_forward, identity_backward: ``(identities, 1)``, factors of their messages.
        placements: where the weights lie.
        shared: whether some entry has not exactly one edge; else entries are the edges.
    """

    sizes: dict[str, Tensor]
    value_block: Tensor
    node_network: Tensor
    neurons: Tensor
    operators: Tensor
    target_node: Tensor
    target_share: Tensor
    target_mean: Tensor
    target_sum: Tensor
    source_node: Tensor
    source_share: Tensor
    source_mean: Tensor
    source_sum: Tensor
    edge_target: Tensor
    edge_source: Tensor
    edge_entry: Tensor
    identity_target: Tensor
    identity_source: Tensor
    identity_forward: Tensor
    identity_backward: Tensor
    placements: tuple[Placement, ...]
    shared: bool

    def total(self, kind: str) -> int:
        """Number of ``values``, ``blocks``, ``nodes``, ``entries``, ... of all networks."""
        return int(self.sizes[kind].sum())


def join_graphs(graphs: Sequence[SparseGraphs], like: Tensor) -> SparseGraphs:
    """Several networks as one graph, on the device of ``like``, and in its type."""
    sizes = {kind: torch.cat([graph.sizes[kind] for graph in graphs]) for kind in graphs[0].sizes}
    starts = {kind: counts.cumsum(0) - counts for kind, counts in sizes.items()}

    def joined(parts: Sequence[Tensor], kind: str | None) -> Tensor:
        table = torch.cat(list(parts))
        if kind is None:
            return table.to(like)
        shift = starts[kind].repeat_interleave(torch.tensor([len(part) for part in parts]))
        return (table + (shift if table.dim() == 1 else shift.unsqueeze(1))).to(like.device)

    found: dict[tuple[object, ...], list[list[Tensor]]] = {}
    blocks = {place.kind: place.block for graph in graphs for place in graph.placements}
    for graph in graphs:
        own = {place.kind: place for place in graph.placements}
        for kind, block in blocks.items():
            values, rows = found.setdefault(kind, [[], []])
            none = graph.value_block[:0]
            place = own.get(kind)
            values.append(none.reshape(0, block.position_count) if place is None else place.values)
            rows.append(none if place is None else place.rows)
    placements = tuple(
        Placement(str(kind[0]), blocks[kind], joined(values, "values"), joined(rows, _OWNERS[str(kind[0])]))
        for kind, (values, rows) in found.items()
    )
    tables = [field.name for field in fields(SparseGraphs) if field.type is Tensor]
    return SparseGraphs(
        sizes=sizes,
        placements=placements,
        shared=any(graph.shared for graph in graphs),
        **{name: joined([getattr(g, name) for g in graphs], _COUNTED.get(name)) for name in tables},
    )


@lru_cache(maxsize=1024)
def sparse_graph(spec: WeightSpec) -> SparseGraphs:
    """The graph of one network of an architecture; cached.

    Raises:
        GraphError: a block whose edges are no pairs of nodes.
    """
    layout = graph_layout(spec)
    for block in layout.edges:
        if block.is_hyperedge:
            raise GraphError(
                f"{block.key} lies on hyperedges: it has no edges, or is added at nodes in one place and "
                "multiplies in another. The sparse form needs pairs of nodes; use the dense form."
            )
    tables = graph_tables(layout)
    weighted = tables.edge_kind == EDGE_KINDS.index("weight")
    entries = tables.weight_id[weighted]
    slots = _Slots(layout)
    slots.add_all(tables.edge_index[:, weighted])
    count = sum(math.prod(block.sizes) for block in layout.edges)
    values, value_block = _values(spec)
    cpu = torch.device("cpu")
    operators = operator_features(layout, torch.float64, cpu)
    neurons = neuron_features(layout, torch.float64, cpu)
    sizes = {
        "values": len(value_block),
        "blocks": len(spec.blocks),
        "networks": 1,
        "nodes": len(neurons),
        "entries": count,
        "targets": slots.counts[True],
        "sources": slots.counts[False],
    }
    identities = tables.edge_index[:, ~weighted]
    forward, backward = _identity_factors(layout)
    return SparseGraphs(
        sizes={kind: torch.tensor([size]) for kind, size in sizes.items()},
        value_block=value_block,
        node_network=torch.zeros(len(neurons), dtype=torch.long),
        neurons=neurons,
        operators=neurons.new_zeros(len(neurons), OPERATORS) if operators is None else operators,
        **slots.tables(),
        edge_entry=entries,
        identity_target=identities[1],
        identity_source=identities[0],
        identity_forward=forward,
        identity_backward=backward,
        placements=_placements(layout, values),
        shared=not torch.equal(entries, torch.arange(count)),
    )


class _Slots:
    """Target (``True``) and source slots while they are listed, and the slots at the ends of edges."""

    def __init__(self, layout: GraphLayout) -> None:
        self.layout = layout
        self.fan_in = Counter(_at(end) for block in layout.edges for use in block.uses for end in use.ends)
        self.counts = {True: 0, False: 0}
        none = torch.zeros(0, dtype=torch.long)
        self.nodes, self.edges = {True: [none], False: [none]}, {True: [none], False: [none]}
        self.factors = {True: [torch.zeros(0, 3).double()], False: [torch.zeros(0, 3).double()]}

    def add_all(self, pairs: Tensor) -> None:
        """Add the slots of all blocks; ``pairs`` are sources and targets of their edges, in order."""
        start = 0
        for block in self.layout.edges:
            entries = math.prod(block.sizes)
            for use in block.uses:
                edges = edge_count(use, entries)
                part = pairs[:, start : start + edges]
                share = entries / edges / len(block.uses)
                assert use.source is not None
                self._add(use.target, use.source, block, part[1], share)
                self._add(use.source, use.target, block, part[0], share)
                start += edges

    def _add(self, end: End, other: End, block: GraphBlock, nodes: Tensor, share: float) -> None:
        rows, one = self.layout.slices[end.nodes], 1 / self.fan_in[_at(end)]
        size = rows.stop - rows.start
        terms = math.sqrt(other.parts[1] * block.position_count) * other.parts[3]
        own = torch.tensor([share, one * size / len(nodes), one / terms], dtype=torch.float64)
        self.edges[end.target].append(nodes - rows.start + self.counts[end.target])
        self.nodes[end.target].append(torch.arange(rows.start, rows.stop))
        self.factors[end.target].append(own.expand(size, 3))
        self.counts[end.target] += size

    def tables(self) -> dict[str, Tensor]:
        """The tables of :class:`SparseGraphs` that have to do with slots."""
        tables: dict[str, Tensor] = {}
        for target, name in ((True, "target"), (False, "source")):
            share, mean, total = torch.cat(self.factors[target]).split(1, dim=1)
            tables |= {f"{name}_share": share, f"{name}_mean": mean, f"{name}_sum": total}
            tables[f"{name}_node"] = torch.cat(self.nodes[target])
            tables[f"edge_{name}"] = torch.cat(self.edges[target])
        return tables


def edge_count(use: Use, entries: int) -> int:
    """Number of edges of one use of a block with so many entries."""
    assert use.source is not None
    return entries * use.target.parts[2] * use.target.parts[3] * use.source.parts[3]


def _identity_factors(layout: GraphLayout) -> tuple[Tensor, Tensor]:
    """Factors of messages along identity edges, forward and backward: ``(identities, 1)`` each."""
    fan_in = Counter(_at(end) for use in layout.identities for end in use.ends)
    factors = {True: [torch.zeros(0, 1).double()], False: [torch.zeros(0, 1).double()]}
    for use in layout.identities:
        assert use.source is not None
        for end, other in ((use.target, use.source), (use.source, use.target)):
            one = 1 / (fan_in[_at(end)] * other.parts[3])
            factors[end.target].append(torch.full((edge_count(use, 1), 1), one, dtype=torch.float64))
    return torch.cat(factors[True]), torch.cat(factors[False])


def _at(end: End) -> tuple[str, bool]:
    return end.nodes, end.target


def _values(spec: WeightSpec) -> tuple[dict[str, Tensor], Tensor]:
    """Where the weights of every block lie in the list of all, ``(*view)``, and the block of each."""
    numbers, start = {}, 0
    for name, tensor in spec.tensors.items():
        size = math.prod(tensor.shape)
        numbers[name] = torch.arange(start, start + size).reshape(1, *tensor.shape)
        start += size
    blocks = spec.split(numbers)
    owners = torch.empty(start, dtype=torch.long)
    for i, ref in enumerate(spec.blocks):
        owners[blocks[ref.key].flatten()] = i
    return blocks, owners


def _placements(layout: GraphLayout, values: dict[str, Tensor]) -> tuple[Placement, ...]:
    """All weights of a network, by what their embedding depends on."""
    rows_of = graph_tables(layout).node_rows
    found: dict[tuple[object, ...], list[Placement]] = {}
    start = 0
    for block in layout.blocks:
        own = block.to_graph(values[block.key]).reshape(-1, block.position_count)
        if block.is_edge:
            place = Placement("edges", block, own, torch.arange(start, start + len(own)))
            start += len(own)
        elif block.uses:
            rows = rows_of[block.key]
            place = Placement("nodes", block, own.repeat(len(rows), 1), rows.flatten())
        else:
            place = Placement("networks", block, own, torch.zeros(len(own), dtype=torch.long))
        found.setdefault(place.kind, []).append(place)
    return tuple(
        Placement(
            places[0].owner,
            places[0].block,
            torch.cat([place.values for place in places]),
            torch.cat([place.rows for place in places]),
        )
        for places in found.values()
    )
