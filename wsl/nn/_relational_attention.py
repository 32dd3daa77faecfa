"""The layer of the neural graph transformer: attention along edges that have states of their own."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, linear

from wsl.graph import GraphLayout
from wsl.nn._connections import Connection, connections
from wsl.nn._edge_steps import EdgeStep, add_ends, run_steps
from wsl.nn._relational_step import attend_along


class RelationalEdgeUpdate(EdgeStep):
    """Two residual maps with norms, ``e`` to ``norm(e + MLP(e, h_i, h_j))`` to ``norm(e + MLP'(e))``.

    The first map is split by what it reads, so that nothing is concatenated for an edge. Of a block that is
    used more than once, the mean of its uses is read.

    Args:
        channels: width of the states of nodes.
        edge_channels: width of the states of edges.
        hidden: width of the two hidden layers.
    """

    updates = True

    def __init__(self, channels: int, edge_channels: int, hidden: int) -> None:
        super().__init__()
        self.ends = nn.Linear(channels, 2 * hidden, bias=False)
        self.edge = nn.Linear(edge_channels, hidden)
        self.out = nn.Linear(hidden, edge_channels)
        self.norm = nn.LayerNorm(edge_channels)
        self.edge2 = nn.Linear(edge_channels, hidden)
        self.out2 = nn.Linear(hidden, edge_channels)
        self.norm2 = nn.LayerNorm(edge_channels)

    def terms(self, nodes: Tensor) -> Tensor:
        terms: Tensor = self.ends(nodes)
        return terms

    def tensors(self) -> list[Tensor]:
        parts = (self.edge, self.out, self.norm, self.edge2, self.out2, self.norm2)
        return [tensor for part in parts for tensor in (part.weight, part.bias)]

    def compute(
        self, connection: Connection, edges: Tensor, terms: Sequence[Tensor], tensors: Sequence[Tensor]
    ) -> list[Tensor]:
        weight, bias, weight_out, bias_out, scale, shift = tensors[:6]
        hidden = add_ends(connection, linear(edges, weight), terms, bias)
        new = edges + linear(gelu(hidden), weight_out, bias_out)
        new = layer_norm(new, new.shape[-1:], scale, shift)
        weight, bias, weight_out, bias_out, scale, shift = tensors[6:]
        new = new + linear(gelu(linear(new, weight, bias)), weight_out, bias_out)
        return [layer_norm(new, new.shape[-1:], scale, shift)]


class RelationalMessages(EdgeStep):
    """Attention of every node over the edges of one connection, with queries, keys and values of edges.

    With ``i`` the node and ``j`` another one on an edge; ``a``, ``b``, ``V'`` and ``V"`` are those of the
    direction, along or against the edge::

        q_ij = Q h_i + Q' e_ij + a      k_ij = K h_j + K' e_ij + b      v_ij = (V h_j) * (V' e_ij) + V" e_ij
        o_i  = sum_j softmax_j(q_ij k_ij / sqrt(d)) v_ij                              in each head

    Returns for each terminal ``o`` of all heads, and the logarithm of the softmax's denominator of each head,
    ``(B, *sizes[dims], hidden + heads)``, by which parts of a neighbourhood are joined.

    ``V" e_ij`` is linear in ``e_ij``, so the map follows the sum; where edges have no source, ``h_j`` is 0.
    """

    def __init__(self, channels: int, edge_channels: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ends = nn.Linear(channels, 3 * hidden)
        self.edges = nn.Linear(edge_channels, 2 * hidden, bias=False)
        self.directions = nn.Parameter(torch.zeros(2, 2, hidden))
        self.gains = nn.Parameter(torch.empty(2, hidden, edge_channels))
        self.values = nn.Parameter(torch.empty(2, heads, edge_channels, hidden // heads))
        for parameter in (self.gains, self.values):
            nn.init.uniform_(parameter, -(edge_channels**-0.5), edge_channels**-0.5)

    def terms(self, nodes: Tensor) -> Tensor:
        terms: Tensor = self.ends(nodes)
        return terms

    def tensors(self) -> list[Tensor]:
        return [*self.edges.weight.chunk(2), self.directions, *self.gains, *self.values]

    def compute(
        self, connection: Connection, edges: Tensor, terms: Sequence[Tensor], tensors: Sequence[Tensor]
    ) -> list[Tensor]:
        return attend_along(connection, edges, terms, tensors, self.heads)


def join_heads(parts: Sequence[tuple[int, Tensor]], heads: int) -> Tensor:
    """Attention over several parts of a neighbourhood as over all of it.

    Args:
        parts: how many edges each entry stands for, and what :func:`attend` returned, ``(B, n, D + heads)``.
        heads: number of heads.

    Returns:
        ``(B, n, D)``.
    """
    if len(parts) == 1:
        return parts[0][1][..., :-heads]
    weights = torch.stack([part[..., -heads:] + math.log(edges) for edges, part in parts]).softmax(0)
    values = torch.stack([part[..., :-heads] for _, part in parts]).unflatten(-1, (heads, -1))
    return (weights.unsqueeze(-1) * values).sum(0).flatten(-2)


class RelationalAttention(nn.Module):
    """One layer: edges are updated, then nodes from attention along all of their edges, in both directions.

    ``h_i <- norm(h_i + O o_i + b)``, ``h_i <- norm(h_i + MLP(h_i))``, with ``o_i`` of
    :class:`RelationalMessages` and one softmax over all edges of node ``i``.

    Args:
        channels: width of the states of nodes.
        edge_channels: width of the states of edges.
        heads: number of heads; queries, keys and values have ``2 * channels`` channels together.
    """

    def __init__(self, channels: int, edge_channels: int, heads: int) -> None:
        super().__init__()
        hidden = 2 * channels
        self.messages = RelationalMessages(channels, edge_channels, hidden, heads)
        self.out = nn.Linear(hidden, channels)
        self.norm = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, channels))
        self.norm2 = nn.LayerNorm(channels)

    def forward(
        self,
        layout: GraphLayout,
        nodes: Tensor,
        edges: Mapping[str | int, Tensor],
        update: RelationalEdgeUpdate | None = None,
        checkpoint: bool = False,
    ) -> tuple[Tensor, dict[str | int, Tensor]]:
        """Nodes ``(B, N, C)`` and states of connections to new ones; without ``update`` edges stay."""
        steps: list[EdgeStep] = [self.messages] if update is None else [update, self.messages]
        terms = [step.terms(nodes) for step in steps]
        received: dict[str, list[tuple[int, Tensor]]] = {name: [] for name in layout.sizes}
        new = {}
        for connection in connections(layout):
            states = edges[connection.key]
            new[connection.key], found = run_steps(layout, connection, states, steps, terms, checkpoint)
            for terminal, part in zip(connection.terminals, found, strict=True):
                received[terminal.end.nodes].append((terminal.edges, terminal.scatter(part)))
        joined = [
            join_heads(received[name], self.messages.heads)
            if received[name]
            else nodes.new_zeros(len(nodes), size, self.out.in_features)
            for name, size in layout.sizes.items()
        ]
        nodes = self.norm(nodes + self.out(torch.cat(joined, dim=1)))
        return self.norm2(nodes + self.mlp(nodes)), new
