"""Message passing on the dense blocks of a computational graph."""

import torch
from torch import Tensor, nn

from wsl.graph import GraphLayout
from wsl.nn._edge_update import update_edges
from wsl.nn._embedding import GraphState
from wsl.nn._linear_messages import linear_messages

_End = tuple[str, bool]


class MessagePassing(nn.Module):
    """One round of message passing among edges, nodes and a state of the whole network.

    With ``h`` the states of nodes, ``e`` of edges, ``g`` of the network, ``w`` the weight on an edge, ``i`` a
    target and ``j`` a source::

        g    <- norm(g + MLP(g, mean_i h_i))
        e_ij <- relu(e_ij + A e_ij + T h_i + S h_j + G g + b)
        m_i   = M mean_j e_ij  +  L sum_j w_ij (V h_j) / sqrt(n)      to targets: forward
        m_j   = likewise from i, with its own M, L, V               to sources: backward
        h_i  <- norm(h_i + O [relu(z_i), sin(z_i)]),   z_i = H h_i + m_i + m'_i + G' g + b'

    The linear messages and the sine let one layer do what one layer of the input network does, so that the
    encoder can run it on inputs of its own making. Messages of several blocks to one axis are averaged, each
    direction with its own maps. A block with more than two axes adds up all its ends.

    The first linear map of an update is split by what it reads, so that nothing is concatenated for an edge,
    and the maps of nodes run once a node. Norms are taken over the channels of one state: a network's output
    does not depend on the others in its batch.

    Source: edge updates and the global state of Lim et al. 2023 (arXiv:2312.04501), both directions of
    Kofinas et al. 2024 (arXiv:2403.12143). Deviates: one linear map an edge, linear messages, sines.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.edge = nn.Linear(channels, channels, bias=False)
        self.ends = nn.Linear(channels, 4 * channels)
        self.network_to_ends = nn.Linear(channels, channels, bias=False)
        self.node_in = nn.Linear(channels, channels)
        self.messages_in = nn.Linear(4 * channels, channels, bias=False)
        self.network_to_nodes = nn.Linear(channels, channels, bias=False)
        self.node_out = nn.Linear(2 * channels, channels)
        self.node_norm = nn.LayerNorm(channels)
        self.network_in = nn.Linear(2 * channels, channels)
        self.network_out = nn.Linear(channels, channels)
        self.network_norm = nn.LayerNorm(channels)

    def forward(self, layout: GraphLayout, state: GraphState) -> GraphState:
        update = self.network_in(torch.cat([state.network, state.nodes.mean(1)], dim=-1)).relu()
        state = state._replace(network=self.network_norm(state.network + self.network_out(update)))
        edges, messages = self._exchange(layout, state)
        hidden = self.node_in(state.nodes) + self.messages_in(messages)
        hidden = hidden + self.network_to_nodes(state.network).unsqueeze(1)
        nodes = self.node_norm(state.nodes + self.node_out(torch.cat([hidden.relu(), hidden.sin()], dim=-1)))
        return state._replace(edges=edges, nodes=nodes)

    def _exchange(self, layout: GraphLayout, state: GraphState) -> tuple[dict[str, Tensor], Tensor]:
        """New states of edges, and what every node receives: ``(B, N, 4 C)``."""
        term_t, term_s, value_t, value_s = self.ends(state.nodes).chunk(4, dim=-1)
        term_t = term_t + self.network_to_ends(state.network).unsqueeze(1)
        identity = torch.eye(self.edge.in_features, dtype=term_t.dtype, device=term_t.device)
        weight = self.edge.weight.T + identity
        pooled: dict[_End, list[Tensor]] = {}
        linear: dict[_End, list[Tensor]] = {}
        edges = {}
        for block in layout.edges:
            ends = list(zip(block.axes, block.targets, strict=True))
            rows = [(layout.slices[axis], target) for axis, target in ends]
            terms = [(term_t if target else term_s)[:, r] for r, target in rows]
            values = [(value_t if target else value_s)[:, r] for r, target in rows]
            edges[block.key], means = update_edges(state.edges[block.key], weight, terms)
            sums = linear_messages(state.weights[block.key], values, state.gains[block.key])
            for end, mean, total in zip(ends, means, sums, strict=True):
                pooled.setdefault(end, []).append(mean)
                linear.setdefault(end, []).append(total)
        sent = [(pooled, True), (pooled, False), (linear, True), (linear, False)]
        return edges, torch.cat([_average(layout, kind, target, term_t) for kind, target in sent], dim=-1)


def _average(layout: GraphLayout, sent: dict[_End, list[Tensor]], target: bool, like: Tensor) -> Tensor:
    """Average the messages of one direction for every axis; zeros where there are none. ``(B, N, C)``."""
    parts = []
    for axis, rows in layout.slices.items():
        messages = sent.get((axis, target), [])
        if len(messages) == 1:
            parts += messages
        else:
            parts.append(torch.stack(messages).mean(0) if messages else torch.zeros_like(like[:, rows]))
    return torch.cat(parts, dim=1)
