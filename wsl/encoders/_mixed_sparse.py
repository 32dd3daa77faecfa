"""The graph metanetwork on lists of nodes and edges: one graph for networks of any architectures."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from wsl.encoders._base import WeightFeatures
from wsl.encoders._mixed_edges import EdgeLists, Slots, exchange_edges
from wsl.encoders._mixed_graphs import SparseGraphs, join_graphs, sparse_graph
from wsl.encoders._mixed_states import Group, SparseState, cut_features, embed_groups
from wsl.nn import MessagePassing

if TYPE_CHECKING:
    from wsl.encoders._graph_metanetwork import GraphMetanetwork


class FusedLayer(nn.Module):
    """One round of message passing on lists, with the parameters of a dense layer.

    Nodes are projected first, once for all of their edges; what happens on edges is one operator.
    """

    def __init__(self, dense: nn.Module) -> None:
        super().__init__()
        self.dense = dense

    def forward(self, graphs: SparseGraphs, state: SparseState) -> SparseState:
        own = self.dense
        assert isinstance(own, MessagePassing)
        nodes, networks = state.nodes, update_networks(own, graphs, state)
        term_t, term_s, value_t, value_s = own.ends(nodes).chunk(4, dim=-1)
        term_t = term_t + own.network_to_ends(networks).index_select(0, graphs.node_network)
        identity = torch.eye(own.edge.in_features, dtype=nodes.dtype, device=nodes.device)
        target = Slots(
            term_t.index_select(0, graphs.target_node) * graphs.target_share.to(term_t),
            value_t.index_select(0, graphs.target_node),
        )
        source = Slots(
            term_s.index_select(0, graphs.source_node) * graphs.source_share.to(term_t),
            value_s.index_select(0, graphs.source_node),
        )
        lists = EdgeLists(
            graphs.edge_target, graphs.edge_source, graphs.edge_entry if graphs.shared else None
        )
        matrix = own.edge.weight.T + identity
        entries, *sums = exchange_edges(state.entries, matrix, state.contents, target, source, lists)
        ends = [
            (graphs.target_node, graphs.target_mean),
            (graphs.source_node, graphs.source_mean),
            (graphs.target_node, graphs.target_sum),
            (graphs.source_node, graphs.source_sum),
        ]
        received = [
            torch.zeros_like(term_t).index_add(0, to, total * factor.to(total))
            for total, (to, factor) in zip(sums, ends, strict=True)
        ]
        hidden = own.node_in(nodes) + own.messages_in(torch.cat(received, dim=1))
        if len(graphs.identity_target):
            there, here = graphs.identity_target, graphs.identity_source
            forward = value_s.index_select(0, here) * graphs.identity_forward.to(term_t)
            backward = value_t.index_select(0, there) * graphs.identity_backward.to(term_t)
            none = torch.zeros_like(term_t)
            passed = none.index_add(0, there, forward), none.index_add(0, here, backward)
            hidden = hidden + linear(torch.cat(passed, dim=1), own.identity)
        hidden = hidden + own.network_to_nodes(networks).index_select(0, graphs.node_network)
        nodes = own.node_norm(nodes + own.node_out(torch.cat([hidden.relu(), hidden.sin()], dim=1)))
        return SparseState(entries, nodes, networks, state.contents)


def update_networks(layer: MessagePassing, graphs: SparseGraphs, state: SparseState) -> Tensor:
    """New states of networks ``(B, C)``, from the means of their nodes."""
    counts = graphs.sizes["nodes"].to(state.networks).unsqueeze(1)
    nodes = state.nodes.to(state.networks.dtype)
    sums = torch.zeros_like(state.networks).index_add(0, graphs.node_network, nodes)
    update = layer.network_in(torch.cat([state.networks, sums / counts], dim=1)).relu()
    networks: Tensor = layer.network_norm(state.networks + layer.network_out(update))
    return networks


class SparseForm(nn.Module):
    """A graph metanetwork on lists of nodes and edges; shares its parameters.

    Args:
        encoder: of any architecture.
        layer: makes a layer on lists from a dense one.
    """

    def __init__(self, encoder: "GraphMetanetwork", layer: type[nn.Module] = FusedLayer) -> None:
        super().__init__()
        self.encoder = encoder
        self.layers = nn.ModuleList(layer(dense) for dense in encoder.layers)

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        return self.mixed([(self.encoder, weights)])[0]

    def mixed(self, groups: Sequence[Group]) -> list[WeightFeatures]:
        """Networks of several architectures in one graph.

        Args:
            groups: for each architecture the encoder's twin, and weights ``(B_i, *shape)``.

        Returns:
            Features of each group, as the twin gives them.

        Raises:
            GraphError: a block whose edges are no pairs of nodes.
            SpecError: weights that are not of the twin's specification.
        """
        counts = [twin.check(weights) for twin, weights in groups]
        if not all(counts):
            return [twin(weights) for twin, weights in groups]
        networks = [
            [sparse_graph(twin.spec)] * count for (twin, _), count in zip(groups, counts, strict=True)
        ]
        graphs = join_graphs([graph for own in networks for graph in own], self.encoder.mean)
        state = embed_groups(graphs, groups, counts)
        for layer in self.layers:
            state = layer(graphs, state)
        return cut_features(graphs, groups, counts, state)
