"""The sparse twin of the graph metanetwork: the same function, written as torch_geometric's users write it.

Imports torch_geometric, which is slow: only :meth:`wsl.encoders.GraphMetanetwork.sparse` imports this file.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch_geometric.nn import MessagePassing as SparseMessagePassing

from wsl.encoders._mixed_graphs import SparseGraphs, sparse_graph
from wsl.encoders._mixed_sparse import SparseForm, update_networks
from wsl.encoders._mixed_states import SparseState
from wsl.nn import MessagePassing

if TYPE_CHECKING:
    from wsl.encoders._graph_metanetwork import GraphMetanetwork


class SparseLayer(SparseMessagePassing):
    """One round of message passing with the parameters of a dense layer.

    Edge updates concatenate what they read, messages are gathered for every edge and scattered.
    """

    def __init__(self, dense: nn.Module) -> None:
        super().__init__(aggr="add")
        self.dense = dense

    def forward(self, graphs: SparseGraphs, state: SparseState) -> SparseState:
        own = self.dense
        assert isinstance(own, MessagePassing)
        x, g, batch = state.nodes, update_networks(own, graphs, state), graphs.node_network
        source, target = graphs.source_node[graphs.edge_source], graphs.target_node[graphs.edge_target]
        term_t, term_s, value_t, value_s = own.ends.weight.chunk(4)
        bias_t, bias_s, value_bias_t, value_bias_s = own.ends.bias.chunk(4)
        joint = torch.cat([own.edge.weight, term_t, term_s, own.network_to_ends.weight], dim=1)
        on_edges = _on_edges(state.entries, graphs)
        change = linear(
            torch.cat([on_edges, x[target], x[source], g[batch[source]]], dim=1), joint, bias_t + bias_s
        )
        if graphs.shared:
            share = graphs.target_share[graphs.edge_target]
            change = torch.zeros_like(state.entries).index_add(0, graphs.edge_entry, share * change)
        e = (state.entries + change).relu()
        new, weights = _on_edges(e, graphs), _on_edges(state.contents, graphs)
        from_source, from_target = linear(x, value_s, value_bias_s), linear(x, value_t, value_bias_t)
        there, here = graphs.edge_target, graphs.edge_source
        pairs, back = torch.stack([source, target]), torch.stack([target, source])
        received = [
            self._send(pairs, new, graphs.target_mean[there], x),
            self._send(back, new, graphs.source_mean[here], x),
            self._send(pairs, weights * from_source[source], graphs.target_sum[there], x),
            self._send(back, weights * from_target[target], graphs.source_sum[here], x),
        ]
        z = own.node_in(x) + own.messages_in(torch.cat(received, dim=1)) + own.network_to_nodes(g)[batch]
        if len(graphs.identity_target):
            source, target = graphs.identity_source, graphs.identity_target
            pairs, back = torch.stack([source, target]), torch.stack([target, source])
            passed = [
                self._send(pairs, from_source[source], graphs.identity_forward, x),
                self._send(back, from_target[target], graphs.identity_backward, x),
            ]
            z = z + linear(torch.cat(passed, dim=1), own.identity)
        x = own.node_norm(x + own.node_out(torch.cat([z.relu(), z.sin()], dim=1)))
        return SparseState(e, x, g, state.contents)

    def _send(self, index: Tensor, content: Tensor, factor: Tensor, x: Tensor) -> Tensor:
        sent: Tensor = self.propagate(index, content=content, factor=factor, size=(len(x), len(x)))
        return sent

    def message(self, content: Tensor, factor: Tensor) -> Tensor:
        return factor * content


class SparseGraphMetanetwork(SparseForm):
    """A graph metanetwork on lists of nodes and edges; the reference that the other forms must equal.

    Shares the parameters of ``encoder``. Embedding and readout are those of :class:`SparseForm`.

    Raises:
        GraphError: a block whose edges are no pairs of nodes.
    """

    def __init__(self, encoder: "GraphMetanetwork") -> None:
        sparse_graph(encoder.spec)  # fails at once where it cannot be done
        super().__init__(encoder, SparseLayer)


def _on_edges(states: Tensor, graphs: SparseGraphs) -> Tensor:
    return states[graphs.edge_entry] if graphs.shared else states
