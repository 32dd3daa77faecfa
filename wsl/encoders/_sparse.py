"""The sparse twin of the graph metanetwork: the same function, written as torch_geometric's users write it.

Imports torch_geometric, which is slow: only :meth:`wsl.encoders.GraphMetanetwork.sparse` imports this file.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch_geometric.nn import MessagePassing as SparseMessagePassing

from wsl.encoders._base import WeightFeatures
from wsl.graph import EDGE_KINDS, End, GraphError, GraphLayout, Use, graph_layout, graph_tables
from wsl.nn import GraphState, MessagePassing

if TYPE_CHECKING:
    from wsl.encoders._graph_metanetwork import GraphMetanetwork

_Direction = tuple[str, bool]


class SparseEdges(NamedTuple):
    """The edges of a batch of graphs with weights, or without.

    Args:
        pairs: ``(2, E)``, sources and targets.
        weight_id: ``(E,)``, the weight on each edge; ``None`` if the edges have none, or one each in order.
        share: ``(E, 1)``, part of an edge in the update of its weight's state.
        coefficients: ``(E, 1)`` by kind of message and whether it goes forward: averages of the dense form.
    """

    pairs: Tensor
    weight_id: Tensor | None
    share: Tensor
    coefficients: Mapping[_Direction, Tensor]


class SparseLayer(SparseMessagePassing):
    """One round of message passing with the parameters of a dense layer.

    Edge updates concatenate what they read, messages are gathered for every edge and scattered.
    """

    def __init__(self, dense: nn.Module) -> None:
        super().__init__(aggr="add")
        self.dense = dense

    def forward(
        self,
        x: Tensor,
        e: Tensor,
        g: Tensor,
        weights: Tensor,
        edges: SparseEdges,
        identities: SparseEdges,
        batch: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        own = self.dense
        assert isinstance(own, MessagePassing)
        means = x.reshape(g.shape[0], -1, x.shape[1]).mean(1)
        update = own.network_in(torch.cat([g, means], dim=1)).relu()
        g = own.network_norm(g + own.network_out(update))
        source, target = edges.pairs
        term_t, term_s, value_t, value_s = own.ends.weight.chunk(4)
        bias_t, bias_s, value_bias_t, value_bias_s = own.ends.bias.chunk(4)
        joint = torch.cat([own.edge.weight, term_t, term_s, own.network_to_ends.weight], dim=1)
        inputs = torch.cat([_on_edges(e, edges), x[target], x[source], g[batch[source]]], dim=1)
        change = linear(inputs, joint, bias_t + bias_s)
        if edges.weight_id is not None:
            change = torch.zeros_like(e).index_add(0, edges.weight_id, edges.share * change)
        e = (e + change).relu()
        values = linear(x, value_s, value_bias_s), linear(x, value_t, value_bias_t)
        received = []
        for kind, forward in (("mean", True), ("mean", False), ("sum", True), ("sum", False)):
            index = edges.pairs if forward else edges.pairs.flip(0)
            content = _on_edges(e if kind == "mean" else weights, edges)
            if kind == "sum":
                content = content * values[not forward][index[0]]
            received.append(self._send(index, content, edges.coefficients[kind, forward], x))
        z = own.node_in(x) + own.messages_in(torch.cat(received, dim=1)) + own.network_to_nodes(g)[batch]
        passed = []
        for forward in (True, False) if identities.pairs.shape[1] else ():
            index = identities.pairs if forward else identities.pairs.flip(0)
            content = values[not forward][index[0]]
            passed.append(self._send(index, content, identities.coefficients["identity", forward], x))
        if passed:
            z = z + linear(torch.cat(passed, dim=1), own.identity)
        x = own.node_norm(x + own.node_out(torch.cat([z.relu(), z.sin()], dim=1)))
        return x, e, g

    def _send(self, index: Tensor, content: Tensor, factor: Tensor, x: Tensor) -> Tensor:
        sent: Tensor = self.propagate(index, content=content, factor=factor, size=(len(x), len(x)))
        return sent

    def message(self, content: Tensor, factor: Tensor) -> Tensor:
        return factor * content


class SparseGraphMetanetwork(nn.Module):
    """A graph metanetwork on lists of nodes and edges; the reference that the dense form must equal.

    Shares the parameters of ``encoder``. Embedding and readout are the encoder's own.

    Raises:
        GraphError: a block whose edges are no pairs of nodes.
    """

    def __init__(self, encoder: "GraphMetanetwork") -> None:
        super().__init__()
        for block in graph_layout(encoder.spec).edges:
            if block.is_hyperedge:
                raise GraphError(
                    f"{block.key} lies on hyperedges: it has no edges, or is added at nodes in one place and "
                    "multiplies in another. The sparse form needs pairs of nodes; use the dense form."
                )
        self.encoder = encoder
        self.layers = nn.ModuleList(SparseLayer(layer) for layer in encoder.layers)

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        blocks, state = self.encoder.embed(weights)
        count, nodes, channels = state.nodes.shape
        layout = graph_layout(self.encoder.spec)
        edges, identities = (
            _batched(one, count, nodes, _weight_count(layout), state.nodes) for one in _edges(layout)
        )
        batch = torch.arange(count, device=state.nodes.device).repeat_interleave(nodes)
        x, g = state.nodes.reshape(-1, channels), state.network
        stored = [state.edges[block.key].reshape(count, -1, channels) for block in layout.edges]
        e = torch.cat([state.nodes[:, :0], *stored], dim=1).flatten(0, 1)
        contents = _linear_contents(layout, state)
        for layer in self.layers:
            x, e, g = layer(x, e, g, contents, edges, identities, batch)
        parts = e.reshape(count, -1, channels).split([part.shape[1] for part in stored], dim=1)
        new = {
            block.key: part.reshape(state.edges[block.key].shape)
            for block, part in zip(layout.edges, parts, strict=True)
        }
        state = state._replace(edges=new, nodes=x.reshape(count, nodes, channels), network=g)
        return self.encoder.features(blocks, state)


def _on_edges(states: Tensor, edges: SparseEdges) -> Tensor:
    return states if edges.weight_id is None else states[edges.weight_id]


def _linear_contents(layout: GraphLayout, state: GraphState) -> Tensor:
    """What multiplies node states in the linear messages: the weights, summed over positions with gains."""
    parts = [state.nodes[:, :0]]
    for block in layout.edges:
        weights, gains = state.weights[block.key], state.gains[block.key]
        weights = weights.reshape(len(weights), -1, weights.shape[-1])
        parts.append(weights.expand(-1, -1, state.nodes.shape[-1]) if gains is None else weights @ gains)
    return torch.cat(parts, dim=1).flatten(0, 1)


def _weight_count(layout: GraphLayout) -> int:
    return sum(math.prod(block.sizes) for block in layout.edges)


def _edges(layout: GraphLayout) -> tuple[SparseEdges, SparseEdges]:
    """The edges of one network, with weights and without; averages as the dense form takes them."""
    tables = graph_tables(layout)
    fan_in = Counter(_at(end) for block in layout.edges for use in block.uses for end in use.ends)
    shares, columns = [], _Columns()
    for block in layout.edges:
        for use in block.uses:
            assert use.source is not None
            count, edges = math.prod(block.sizes), _edge_count(use, math.prod(block.sizes))
            shares.append(torch.full((edges, 1), count / edges / len(block.uses), dtype=torch.float64))
            for end, other in ((use.target, use.source), (use.source, use.target)):
                one = 1 / fan_in[_at(end)]
                columns.add("mean", end, edges, one * layout.sizes[end.nodes] / edges)
                terms = math.sqrt(other.parts[1] * block.position_count) * other.parts[3]
                columns.add("sum", end, edges, one / terms)
    fan_in = Counter(_at(end) for use in layout.identities for end in use.ends)
    for use in layout.identities:
        assert use.source is not None
        edges = _edge_count(use, 1)
        for end, other in ((use.target, use.source), (use.source, use.target)):
            columns.add("identity", end, edges, 1 / (fan_in[_at(end)] * other.parts[3]))
    weighted = tables.edge_kind == EDGE_KINDS.index("weight")
    ids = tables.weight_id[weighted]
    unique = torch.equal(ids, torch.arange(_weight_count(layout)))
    none = torch.zeros(0, 1, dtype=torch.float64)
    made = columns.made()
    return (
        SparseEdges(
            tables.edge_index[:, weighted], None if unique else ids, torch.cat([none, *shares]), made
        ),
        SparseEdges(tables.edge_index[:, ~weighted], None, none, made),
    )


def _edge_count(use: Use, entries: int) -> int:
    assert use.source is not None
    return entries * use.target.parts[2] * use.target.parts[3] * use.source.parts[3]


def _at(end: End) -> tuple[str, bool]:
    return end.nodes, end.target


class _Columns:
    """Coefficients ``(E, 1)`` while they are listed, by kind of message and direction."""

    def __init__(self) -> None:
        none = torch.zeros(0, 1, dtype=torch.float64)
        kinds = ("mean", "sum", "identity")
        self.parts = {(kind, forward): [none] for kind in kinds for forward in (True, False)}

    def add(self, kind: str, end: End, count: int, value: float) -> None:
        self.parts[kind, end.target].append(torch.full((count, 1), value, dtype=torch.float64))

    def made(self) -> dict[_Direction, Tensor]:
        return {key: torch.cat(parts) for key, parts in self.parts.items()}


def _batched(edges: SparseEdges, count: int, nodes: int, weights: int, like: Tensor) -> SparseEdges:
    """The edges of ``count`` networks: a graph of unconnected parts, in the type of ``like``."""
    index = edges.pairs.to(like.device)
    graphs = torch.arange(count, device=like.device).repeat_interleave(index.shape[1])
    ids = edges.weight_id
    if ids is not None:
        ids = ids.to(like.device).repeat(count) + weights * graphs
    return SparseEdges(
        index.repeat(1, count) + nodes * graphs,
        ids,
        edges.share.to(like).repeat(count, 1),
        {key: values.to(like).repeat(count, 1) for key, values in edges.coefficients.items()},
    )
