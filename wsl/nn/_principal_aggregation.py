"""The layer of the neural graph network: principal neighbourhood aggregation, modulated by edges."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu

from wsl.graph import GraphLayout
from wsl.nn._connections import Connection, connections
from wsl.nn._constants import cached_constants
from wsl.nn._edge_steps import EdgeStep, add_ends, run_steps
from wsl.nn._neighbourhoods import Statistics, pool_statistics, summarise

_USUAL_DEGREE = 32


class EdgeUpdate(EdgeStep):
    """``e_ij <- W silu(A e_ij + T h_i + S h_j + a) + b`` for an edge from ``j`` to ``i``.

    The first map is split by what it reads, so that nothing is concatenated for an edge. Of a block that is
    used more than once, the mean of its uses is read.
    """

    updates = True

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.edge = nn.Linear(channels, channels)
        self.ends = nn.Linear(channels, 2 * channels, bias=False)
        self.out = nn.Linear(channels, channels)

    def terms(self, nodes: Tensor) -> Tensor:
        terms: Tensor = self.ends(nodes)
        return terms

    def tensors(self) -> list[Tensor]:
        return [self.edge.weight, self.edge.bias, self.out.weight, self.out.bias]

    def compute(
        self, connection: Connection, edges: Tensor, terms: Sequence[Tensor], tensors: Sequence[Tensor]
    ) -> list[Tensor]:
        weight, bias, weight_out, bias_out = tensors
        hidden = add_ends(connection, linear(edges, weight), terms, bias)
        return [linear(silu(hidden), weight_out, bias_out)]


class ModulatedMessages(EdgeStep):
    """Messages to both ends of every edge, and four statistics of those that a node receives.

    With ``i`` the receiver, ``j`` the sender, and maps ``A`` and ``B`` of each direction::

        m_ij = (A e_ij + a) * (R h_i + S h_j + r) + (B e_ij + b)

    Returns for each terminal mean, variance, minimum and maximum over its edges, ``(B, *sizes[dims], C)``.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.ends = nn.Linear(channels, 2 * channels)
        self.film = nn.Linear(channels, 4 * channels)

    def terms(self, nodes: Tensor) -> Tensor:
        terms: Tensor = self.ends(nodes)
        return terms

    def tensors(self) -> list[Tensor]:
        return [*self.film.weight.chunk(4), *self.film.bias.chunk(4)]

    def compute(
        self, connection: Connection, edges: Tensor, terms: Sequence[Tensor], tensors: Sequence[Tensor]
    ) -> list[Tensor]:
        statistics: list[Tensor] = []
        start = 0
        film: dict[int, Tensor] = {}
        for use in connection.uses:
            receives, sends = zip(
                *(term.chunk(2, -1) for term in terms[start : start + len(use)]), strict=True
            )
            start += len(use)
            for side, terminal in enumerate(use):
                for part in (2 * side, 2 * side + 1):
                    if part not in film:  # a constant in all messages is added to their statistics
                        shift = None if part % 2 else tensors[4 + part]
                        film[part] = linear(edges, tensors[part], shift)
                pair = receives[side] if len(use) == 1 else receives[side] + sends[1 - side]
                message = torch.addcmul(film[2 * side + 1], film[2 * side], pair)
                mean, variance, lowest, highest = summarise(message, terminal.others)
                shift = tensors[4 + 2 * side + 1]
                statistics += [mean + shift, variance, lowest + shift, highest + shift]
        return statistics


class PrincipalAggregation(nn.Module):
    """One layer: edges are updated, then nodes from statistics of the messages along their edges.

    With ``s_i`` the mean, minimum, maximum and standard deviation of all messages ``m_ij`` that node ``i``
    receives (:class:`ModulatedMessages`), along its edges and against them, and ``d_i`` their number::

        h_i <- silu(norm(U h_i + P s_i + Q s_i log(1 + d_i) / log(1 + 32) + u))

    Args:
        channels: width of all states.
        activate: whether ``silu`` and ``norm``, which the last layer lacks, are there.
    """

    def __init__(self, channels: int, activate: bool = True) -> None:
        super().__init__()
        self.messages = ModulatedMessages(channels)
        self.own = nn.Linear(channels, channels)
        self.plain = nn.Linear(4 * channels, channels, bias=False)
        self.amplified = nn.Linear(4 * channels, channels, bias=False)
        self.norm = nn.LayerNorm(channels) if activate else None

    def forward(
        self,
        layout: GraphLayout,
        nodes: Tensor,
        edges: Mapping[str | int, Tensor],
        update: EdgeUpdate | None = None,
        checkpoint: bool = False,
    ) -> tuple[Tensor, dict[str | int, Tensor]]:
        """Nodes ``(B, N, C)`` and states of connections to new ones; without ``update`` edges stay."""
        steps: list[EdgeStep] = [self.messages] if update is None else [update, self.messages]
        terms = [step.terms(nodes) for step in steps]
        received: dict[str, list[Statistics]] = {name: [] for name in layout.sizes}
        new = {}
        for connection in connections(layout):
            states = edges[connection.key]
            new[connection.key], found = run_steps(layout, connection, states, steps, terms, checkpoint)
            for i, terminal in enumerate(connection.terminals):
                parts = [terminal.scatter(part) for part in found[4 * i : 4 * i + 4]]
                received[terminal.end.nodes].append(Statistics(terminal.degree, *parts))
        channels = self.plain.in_features
        pooled = torch.cat(
            [
                pool_statistics(received[name])
                if received[name]
                else nodes.new_zeros(len(nodes), size, channels)
                for name, size in layout.sizes.items()
            ],
            dim=1,
        )
        scale = degree_scales(layout, nodes.dtype, nodes.device)
        nodes = self.own(nodes) + self.plain(pooled) + scale * self.amplified(pooled)
        return nodes if self.norm is None else silu(self.norm(nodes)), new


@cached_constants(256)
def degree_scales(layout: GraphLayout, dtype: torch.dtype, device: torch.device) -> Tensor:
    """``log(1 + d) / log(1 + 32)`` of the number ``d`` of edges of every node, ``(N, 1)``."""
    degrees = dict.fromkeys(layout.sizes, 0)
    for connection in connections(layout):
        for terminal in connection.terminals:
            degrees[terminal.end.nodes] += terminal.degree
    scales = [math.log1p(degrees[name]) / math.log1p(_USUAL_DEGREE) for name in layout.sizes]
    column = torch.tensor(scales, dtype=torch.float64).repeat_interleave(
        torch.tensor(list(layout.sizes.values()))
    )
    return column.unsqueeze(1).to(device, dtype)
