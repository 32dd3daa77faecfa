"""Message passing on the dense blocks of a computational graph."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from wsl.graph import End, GraphLayout
from wsl.nn._edge_messages import EdgeWeights, exchange
from wsl.nn._embedding import GraphState

Sent = dict[tuple[str, bool], list[Tensor]]


class MessagePassing(nn.Module):
    """One round of message passing among edges, nodes and a state of the whole network.

    With ``h`` the states of nodes, ``e`` of edges, ``g`` of the network, ``w`` the weight on an edge, ``i`` a
    target and ``j`` a source::

        g    <- norm(g + MLP(g, mean_i h_i))
        e_ij <- relu(e_ij + A e_ij + T h_i + S h_j + G g + b)
        m_i   = M mean_j e_ij  +  L sum_j w_ij (V h_j) / sqrt(n)      to targets: forward
        m_j   = likewise from i, with its own M, L, V               to sources: backward
        d_i   = I mean_j V h_j + I' mean_k V' h_k    over the identity edges j -> i and i -> k
        h_i  <- norm(h_i + O [relu(z_i), sin(z_i)]),   z_i = H h_i + m_i + m'_i + d_i + G' g + b'

    The linear messages, the identity messages and the sine let one layer do what one layer of the input
    network does, residual connections included, so that the encoder can run it on inputs of its own making.
    Messages of several blocks to one node set are averaged, each direction with its own maps. A block that is
    used more than once has one state, updated from the mean of its uses, and sends messages along each.
    Where a node set has axes that a block or the other end lacks, weights are shared along them, and what
    goes the other way is averaged.

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
        # The identity, not drawn: networks without residual connections start from the same parameters.
        self.identity = nn.Parameter(torch.eye(channels).repeat(1, 2))

    def forward(self, layout: GraphLayout, state: GraphState) -> GraphState:
        update = self.network_in(torch.cat([state.network, state.nodes.mean(1)], dim=-1)).relu()
        state = state._replace(network=self.network_norm(state.network + self.network_out(update)))
        edges, messages, identities = self._exchange(layout, state)
        hidden = self.node_in(state.nodes) + self.messages_in(messages)
        if identities is not None:
            hidden = hidden + linear(identities, self.identity)
        hidden = hidden + self.network_to_nodes(state.network).unsqueeze(1)
        nodes = self.node_norm(state.nodes + self.node_out(torch.cat([hidden.relu(), hidden.sin()], dim=-1)))
        return state._replace(edges=edges, nodes=nodes)

    def _exchange(
        self, layout: GraphLayout, state: GraphState
    ) -> tuple[dict[str, Tensor], Tensor, Tensor | None]:
        """New states of edges; what nodes receive ``(B, N, 4 C)``, and along identities ``(B, N, 2 C)``."""
        term_t, term_s, value_t, value_s = self.ends(state.nodes).chunk(4, dim=-1)
        term_t = term_t + self.network_to_ends(state.network).unsqueeze(1)
        identity = torch.eye(self.edge.in_features, dtype=term_t.dtype, device=term_t.device)
        matrix = self.edge.weight.T + identity

        def terms(end: End) -> Tensor:
            return (term_t if end.target else term_s)[:, layout.slices[end.nodes]]

        def values(end: End) -> Tensor:
            return (value_t if end.target else value_s)[:, layout.slices[end.nodes]]

        pooled: Sent = {}
        multiplied: Sent = {}
        edges = {}
        for block in layout.edges:
            weights = EdgeWeights(state.weights[block.key], state.gains[block.key])
            edges[block.key], messages = exchange(
                block, state.edges[block.key], weights, matrix, terms, values
            )
            for message in messages:
                at = (message.end.nodes, message.end.target)
                pooled.setdefault(at, []).append(message.mean)
                if message.linear is not None:
                    multiplied.setdefault(at, []).append(message.linear)
        sent = [(pooled, True), (pooled, False), (multiplied, True), (multiplied, False)]
        received = torch.cat(
            [average_messages(layout, kind, target, term_t) for kind, target in sent], dim=-1
        )
        return edges, received, identity_messages(layout, values, term_t)


def identity_messages(layout: GraphLayout, values: Callable[[End], Tensor], like: Tensor) -> Tensor | None:
    """What nodes receive along identity edges, forward and backward; ``None`` if there are no such edges."""
    if not layout.identities:
        return None
    sent: Sent = {}
    for use in layout.identities:
        assert use.source is not None
        for end, other in (use.ends, use.ends[::-1]):
            sent.setdefault((end.nodes, end.target), []).append(end.unfold(other.fold(values(other))))
    return torch.cat([average_messages(layout, sent, target, like) for target in (True, False)], dim=-1)


def average_messages(layout: GraphLayout, sent: Sent, target: bool, like: Tensor) -> Tensor:
    """Average the messages of one direction for every node set; zeros where there are none. ``(B, N, C)``."""
    parts = []
    for name, rows in layout.slices.items():
        messages = sent.get((name, target), [])
        if len(messages) == 1:
            parts += messages
        else:
            parts.append(torch.stack(messages).mean(0) if messages else torch.zeros_like(like[:, rows]))
    return torch.cat([like[:, :0], *parts], dim=1)  # a network may have no neurons
