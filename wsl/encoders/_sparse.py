"""The sparse twin of the graph metanetwork: the same function, written as torch_geometric's users write it.

Imports torch_geometric, which is slow: only :meth:`wsl.encoders.GraphMetanetwork.sparse` imports this file.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch_geometric.nn import MessagePassing as SparseMessagePassing

from wsl.encoders._base import WeightFeatures
from wsl.graph import GraphError, GraphLayout, graph_layout, graph_tables
from wsl.nn import GraphState, MessagePassing

if TYPE_CHECKING:
    from wsl.encoders._graph_metanetwork import GraphMetanetwork

Coefficients = dict[tuple[str, bool], Tensor]


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
        edge_index: Tensor,
        weights: Tensor,
        coefficients: Coefficients,
        batch: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        own = self.dense
        assert isinstance(own, MessagePassing)
        means = x.reshape(g.shape[0], -1, x.shape[1]).mean(1)
        update = own.network_in(torch.cat([g, means], dim=1)).relu()
        g = own.network_norm(g + own.network_out(update))
        source, target = edge_index
        term_t, term_s, value_t, value_s = own.ends.weight.chunk(4)
        bias_t, bias_s, value_bias_t, value_bias_s = own.ends.bias.chunk(4)
        joint = torch.cat([own.edge.weight, term_t, term_s, own.network_to_ends.weight], dim=1)
        inputs = torch.cat([e, x[target], x[source], g[batch[source]]], dim=1)
        e = (e + linear(inputs, joint, bias_t + bias_s)).relu()
        values = linear(x, value_s, value_bias_s), linear(x, value_t, value_bias_t)
        received = []
        for kind, forward in (("mean", True), ("mean", False), ("sum", True), ("sum", False)):
            index = edge_index if forward else edge_index.flip(0)
            content = e if kind == "mean" else weights * values[not forward][index[0]]
            factor = coefficients[kind, forward]
            size = (len(x), len(x))
            received.append(self.propagate(index, content=content, factor=factor, size=size))
        z = own.node_in(x) + own.messages_in(torch.cat(received, dim=1)) + own.network_to_nodes(g)[batch]
        x = own.node_norm(x + own.node_out(torch.cat([z.relu(), z.sin()], dim=1)))
        return x, e, g

    def message(self, content: Tensor, factor: Tensor) -> Tensor:
        return factor * content


class SparseGraphMetanetwork(nn.Module):
    """A graph metanetwork on lists of nodes and edges; the reference that the dense form must equal.

    Shares the parameters of ``encoder``. Embedding and readout are the encoder's own.

    Raises:
        GraphError: a block with three or more neuron axes, or with two that are both targets or both sources.
    """

    def __init__(self, encoder: "GraphMetanetwork") -> None:
        super().__init__()
        for block in graph_layout(encoder.spec).edges:
            if sorted(block.targets) != [False, True]:
                raise GraphError(
                    f"{block.key} has neuron axes {block.axes}; the sparse form needs one target "
                    "and one source. Use the dense form."
                )
        self.encoder = encoder
        self.layers = nn.ModuleList(SparseLayer(layer) for layer in encoder.layers)

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        blocks, state = self.encoder.embed(weights)
        count, nodes, channels = state.nodes.shape
        layout = graph_layout(self.encoder.spec)
        tables = graph_tables(layout)
        graphs = torch.arange(count, device=state.nodes.device)
        offsets = nodes * graphs.repeat_interleave(tables.edge_index.shape[1])
        edge_index = tables.edge_index.to(graphs.device).repeat(1, count) + offsets
        batch = graphs.repeat_interleave(nodes)
        x, g = state.nodes.reshape(-1, channels), state.network
        e = torch.cat([state.edges[key].flatten(1, -2) for key in tables.edge_rows], dim=1).flatten(0, 1)
        contents = _linear_contents(layout, state)
        coefficients = {key: values.to(x).repeat(count, 1) for key, values in _coefficients(layout).items()}
        for layer in self.layers:
            x, e, g = layer(x, e, g, edge_index, contents, coefficients, batch)
        rows = e.reshape(count, -1, channels)
        edges = {
            key: rows[:, where].reshape(state.edges[key].shape) for key, where in tables.edge_rows.items()
        }
        state = state._replace(edges=edges, nodes=x.reshape(count, nodes, channels), network=g)
        return self.encoder.features(blocks, state)


def _linear_contents(layout: GraphLayout, state: GraphState) -> Tensor:
    """What multiplies node states in the linear messages: the weights, summed over positions with gains."""
    parts = []
    for block in layout.edges:
        weights, gains = state.weights[block.key].flatten(1, -2), state.gains[block.key]
        parts.append(weights.expand(-1, -1, state.nodes.shape[-1]) if gains is None else weights @ gains)
    return torch.cat(parts, dim=1).flatten(0, 1)


def _coefficients(layout: GraphLayout) -> Coefficients:
    """Per edge of one network ``(edges, 1)``: the averages over neurons and blocks of the dense form."""
    columns: dict[tuple[str, bool], list[Tensor]] = {}
    for block in layout.edges:
        sizes = [layout.spec.axes[axis].size for axis in block.axes]
        for i, (axis, target) in enumerate(zip(block.axes, block.targets, strict=True)):
            share = torch.full((sizes[0] * sizes[1], 1), 1 / layout.fan_in[axis, target], dtype=torch.float64)
            others = sizes[1 - i]
            columns.setdefault(("mean", target), []).append(share / others)
            columns.setdefault(("sum", target), []).append(share / (others * block.position_count) ** 0.5)
    return {key: torch.cat(parts) for key, parts in columns.items()}
