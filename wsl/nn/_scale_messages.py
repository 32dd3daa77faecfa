"""Message passing that commutes with the sign flips of neurons, on canonical weights."""

import torch
from torch import Tensor, nn

from wsl.graph import GraphLayout
from wsl.nn._characters import Message, sign_characters
from wsl.nn._connections import Connection, connections
from wsl.nn._message_passing import Sent, average_messages
from wsl.nn._scale_embedding import flipping_nodes
from wsl.nn._scale_step import ScaleRoutes, scale_step

Edges = dict[str | int, Tensor]


class ScaleInvariants(nn.Module):
    """Invariants of nodes from their states ``v`` and ``u``: ``u + D relu(|N v| + b)``.

    The absolute value is that of nodes that change sign; of others ``N v`` is taken as it is. Linear maps,
    absolute values, and what follows make any function that is the same for ``v`` and ``-v``.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.nodes = nn.Linear(channels, channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(channels))
        self.out = nn.Linear(channels, channels)
        nn.init.uniform_(self.bias, -(channels**-0.5), channels**-0.5)

    def forward(self, layout: GraphLayout, nodes: Tensor, invariants: Tensor) -> Tensor:
        even = absolute(self.nodes(nodes), flipping_nodes(layout, nodes.device))
        found: Tensor = invariants + self.out((even + self.bias).relu())
        return found


class ScaleMessagePassing(nn.Module):
    """One round of scale equivariant message passing, along edges and, if told so, against them.

    With ``v`` and ``e`` the states of nodes and edges, which change sign with neurons and weights, ``a`` the
    invariants of nodes, ``|z|`` the absolute value of what changes sign, else ``z``, and ``j -> i`` an edge::

        k_ij  = relu(T a_i + S a_j + b + |H e_ij|)                      invariants of the edge
        m_i   = sum_j (E e_ij) * (A k_ij + a') * (V v_j) / sqrt(n)      forward
        m'_j  = sum_i (E' e_ij) * (A' k_ij + a'') * (V' v_i) / sqrt(n)  backward
        e_ij <- e_ij + (E e_ij) * (G k_ij + g)
        z_i   = W v_i + M m_i + M' m'_i
        s_i   = relu(U a_i + Q mean_j k_ij + Q' mean_k k_ki + u + |z_i|)
        v_i  <- norm(v_i + (P z_i) * (R s_i + r))
        u_i  <- norm(u_i + O s_i + o)

    Every product has the character of its factors, and every sum is over terms of one character: where those
    along some edges do not match, they carry invariants only. In original units the backward factor
    ``E' e_ij`` is ``w_ij (n_j / n_i)^2`` times invariants, with ``n`` the norms of :func:`canonicalise`: it
    has the scale of ``1 / w_ij``, and is bounded.

    Args:
        channels: width of all states.
        bidirectional: whether messages also go against the edges.
        checkpoint: keep only states of edges for the gradient, as :func:`chunked` does.
    """

    def __init__(self, channels: int, bidirectional: bool, checkpoint: bool = False) -> None:
        super().__init__()
        ways = 1 + int(bidirectional)
        self.ways, self.checkpoint = ways, checkpoint
        self.invariants = ScaleInvariants(channels)
        self.ends = nn.Linear(channels, 2 * channels)
        self.values = nn.Linear(channels, ways * channels, bias=False)
        self.edges = nn.Linear(channels, (1 + ways) * channels, bias=False)
        self.gates = nn.Linear(channels, (1 + ways) * channels)
        self.odd_in = nn.Linear((1 + ways) * channels, channels, bias=False)
        self.even_in = nn.Linear((1 + ways) * channels, channels)
        self.odd_out = nn.Linear(channels, channels, bias=False)
        self.even_out = nn.Linear(channels, 2 * channels)
        self.node_norm = nn.RMSNorm(channels, eps=1e-5, elementwise_affine=False)
        self.invariant_norm = nn.LayerNorm(channels)
        with torch.no_grad():  # gates are open at first: messages are products of edges and nodes
            self.gates.bias[channels:] = 1
            self.even_out.bias[:channels] = 1

    def forward(
        self, layout: GraphLayout, edges: Edges, nodes: Tensor, invariants: Tensor
    ) -> tuple[Edges, Tensor, Tensor]:
        """New states of edges (as :func:`fold_edges` makes them), nodes and invariants."""
        known = self.invariants(layout, nodes, invariants)
        edges, odd, even = self._exchange(layout, edges, nodes, known)
        total = self.odd_in(torch.cat([nodes, odd], dim=-1))
        constant = self.even_in(torch.cat([known, even], dim=-1))
        hidden = (constant + absolute(total, flipping_nodes(layout, nodes.device))).relu()
        gate, update = self.even_out(hidden).chunk(2, dim=-1)
        nodes = self.node_norm(nodes + self.odd_out(total) * gate)
        return edges, nodes, self.invariant_norm(invariants + update)

    def _exchange(
        self, layout: GraphLayout, edges: Edges, nodes: Tensor, known: Tensor
    ) -> tuple[Edges, Tensor, Tensor]:
        """New edges, and what nodes receive: ``(B, N, ways * C)`` with their characters, and invariants."""
        terms = end_terms(self.ends(known), self.values(nodes))
        shared = [self.edges.weight, self.gates.weight, self.gates.bias]
        odd: Sent = {}
        even: Sent = {}
        new = {}
        for connection, kinds, flips in flipping_connections(layout):
            received = tuple(
                kind if terminal.end.target or self.ways > 1 else None
                for terminal, kind in zip(connection.terminals, kinds, strict=True)
            )
            ends = [
                t.gather(terms[t.end.target][:, layout.slices[t.end.nodes]]) for t in connection.terminals
            ]
            routes = ScaleRoutes(connection, flips, received)
            new[connection.key], *found = scale_step(
                routes, [edges[connection.key], *ends], shared, self.checkpoint
            )
            messages = iter(found)
            for terminal, route in zip(connection.terminals, received, strict=True):
                at = (terminal.end.nodes, terminal.end.target)
                if route is not None:
                    even.setdefault(at, []).append(terminal.scatter(next(messages)))
                    if route != "nothing":
                        odd.setdefault(at, []).append(terminal.scatter(next(messages)))
        sides = (True, False)[: self.ways]
        pooled = [
            torch.cat([average_messages(layout, sent, side, nodes) for side in sides], dim=-1)
            for sent in (odd, even)
        ]
        return new, pooled[0], pooled[1]


def absolute(states: Tensor, flips: Tensor) -> Tensor:
    """Absolute values of states ``(B, N, C)`` where ``flips`` ``(N, 1)``."""
    return torch.where(flips, states.abs(), states)


def flipping_connections(layout: GraphLayout) -> list[tuple[Connection, tuple[Message, ...], bool]]:
    """All connections, what each terminal may receive, and whether their edges change sign."""
    characters = sign_characters(layout)
    found = []
    for connection in connections(layout):
        if isinstance(connection.key, str):
            kinds, flips = characters.messages[connection.key], connection.key in characters.blocks
        else:
            kinds, flips = characters.identities[connection.key], False
        found.append((connection, kinds, flips))
    return found


def end_terms(invariants: Tensor, values: Tensor) -> dict[bool, Tensor]:
    """What nodes add to their edges and send along them, as targets and as sources.

    Args:
        invariants: ``(B, N, 2 C)``: as targets, as sources.
        values: ``(B, N, ways * C)``: what goes forward, and what goes backward.

    Returns:
        By ``end.target``, ``(B, N, C)`` or ``(B, N, 2 C)``.
    """
    target, source = invariants.chunk(2, dim=-1)
    forward, backward = values.tensor_split([target.shape[-1]], dim=-1)
    return {True: torch.cat([target, backward], dim=-1), False: torch.cat([source, forward], dim=-1)}
