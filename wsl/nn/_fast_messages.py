"""Message passing without states of edges: nodes exchange their states through functions of the weights."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from wsl.graph import GraphLayout
from wsl.nn._linear_messages import use_messages
from wsl.nn._message_passing import Sent, average_messages, identity_messages


def scalar_features(weights: Tensor, count: int) -> Tensor:
    """Functions of single weights: ``w, sin(a w), cos(a w) - c, sin(2 a w), ...`` with ``a = pi / 2``.

    The constants ``c`` are such that features of normal numbers are 0 in the mean.

    Args:
        weights: standardised, ``(B, ...)``.
        count: number of features.

    Returns:
        ``(B, count, ...)``.
    """
    features = [weights]
    for i in range(count // 2):
        frequency = 2**i * math.pi / 2
        phase = frequency * weights
        features += [phase.sin(), phase.cos() - math.exp(-(frequency**2) / 2)]
    return torch.stack(features[:count], dim=1)


class WeightedMessages(nn.Module):
    """One round of message passing without a state, or a matrix product, for any edge.

    Channels of messages are split among heads, each of which knows weights by one scalar function ``f``.
    With ``h`` the states of nodes, ``g`` of the network, ``j`` a source of ``i`` and ``k`` a target::

        m_i  = sum_j f(w_ij) (V h_j) / sqrt(n)  +  mean_j V h_j over identity edges, and
        m'_i = sum_k f(w_ki) (V' h_k) / sqrt(n) + ...
        z_i  = H h_i + M [m_i, m'_i] + G g + b
        h_i <- norm(h_i + O [relu(z_i), sin(z_i)]), half of the channels each

    All of it is batched products of matrices of weights with states, and maps of nodes. Messages of several
    blocks to one node set are averaged; a block that is used more than once sends along each use.

    Args:
        channels: width of the states of nodes, a multiple of twice ``heads``.
        heads: number of functions of weights.
        width: of the state of the network.
    """

    def __init__(self, channels: int, heads: int, width: int) -> None:
        super().__init__()
        self.heads = heads
        self.values = nn.Linear(channels, channels)
        self.own = nn.Linear(channels, channels)
        self.received = nn.Linear(channels, channels, bias=False)
        self.network = nn.Linear(width, channels, bias=False)
        self.out = nn.Linear(channels, channels)
        self.norm = nn.LayerNorm(channels)

    def forward(
        self,
        layout: GraphLayout,
        features: Mapping[str, Tensor],
        gains: Mapping[str, Tensor | None],
        nodes: Tensor,
        network: Tensor,
    ) -> Tensor:
        """New states of nodes.

        Args:
            layout: the computational graph.
            features: :func:`scalar_features` by block key, the heads as further networks,
                ``(B * heads, *sizes, K)``.
            gains: of kernel positions by block key, ``(K, channels / (2 * heads))`` or ``None``.
            nodes: ``(B, N, channels)``.
            network: ``(B, width)``.
        """
        count = len(nodes)
        apart = self.values(nodes).unflatten(2, (self.heads, -1)).transpose(1, 2)
        received = exchanged(layout, features, gains, apart.flatten(0, 1))
        received = received.unflatten(0, (count, self.heads)).transpose(1, 2).flatten(2)
        hidden = self.own(nodes) + self.received(received) + self.network(network).unsqueeze(1)
        linear, waves = hidden.chunk(2, dim=-1)
        new: Tensor = self.norm(nodes + self.out(torch.cat([linear.relu(), waves.sin()], dim=-1)))
        return new


def exchanged(
    layout: GraphLayout, weights: Mapping[str, Tensor], gains: Mapping[str, Tensor | None], values: Tensor
) -> Tensor:
    """What nodes receive along all edges in both directions.

    Args:
        layout: the computational graph.
        weights: by block key, ``(B, *sizes, K)``.
        gains: by block key, ``(K, C)`` or ``None``.
        values: what nodes send, ``(B, N, 2 C)``: first to their targets, then to their sources.

    Returns:
        ``(B, N, 2 C)``: first from sources, then from targets.
    """
    forward, backward = values.chunk(2, dim=-1)
    sent: Sent = {}
    for block in layout.edges:
        for number, use in enumerate(block.uses):
            if use.source is None:
                continue
            for i, (receiver, sender) in enumerate((use.ends, use.ends[::-1])):
                states = (backward if i else forward)[:, layout.slices[sender.nodes]]
                message = use_messages(block, number, i, weights[block.key], gains[block.key], states)
                sent.setdefault((receiver.nodes, receiver.target), []).append(message)
    received = torch.cat([average_messages(layout, sent, to, forward) for to in (True, False)], dim=-1)
    identities = identity_messages(
        layout, lambda end: (backward if end.target else forward)[:, layout.slices[end.nodes]], forward
    )
    return received if identities is None else received + identities
