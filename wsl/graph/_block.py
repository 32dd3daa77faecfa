"""What a block of a specification is in the computational graph."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from wsl.graph._ends import Use

ROLES = ("weight", "bias", "running_mean", "running_var", "other")


@dataclass(frozen=True)
class GraphBlock:
    """One block of a tensor as a part of the graph.

    The neuron dimensions of a block are folded into groups that lie at the same ends: a linear layer has one
    group of targets and one of sources, even where its targets are pairs of head and inner neuron. The first
    group is the batch if there are dimensions that all ends share, as in grouped convolutions.

    Args:
        key: the block's key in the specification.
        role: last component of the tensor's name if that is one of ``ROLES``, else ``other``.
        groups: sizes of the neuron dimensions of every group.
        batched: whether the first group indexes every end.
        positions: sizes of the view dimensions without neurons, such as kernel positions.
        order: view dimensions: those of the groups, then those of ``positions``.
        uses: where the block lies in the graph: once, or several times if weights are shared.
        occurrence: how many earlier blocks have the same role, lie between the same node sets in the same
            way; tells apart blocks such as a layer's bias and the bias of the normalisation after it.
    """

    key: str
    role: str
    groups: tuple[tuple[int, ...], ...]
    batched: bool
    positions: tuple[int, ...]
    order: tuple[int, ...]
    uses: tuple[Use, ...]
    occurrence: int

    @property
    def position_count(self) -> int:
        """Number of weights on every node or edge."""
        return math.prod(self.positions)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of indices of every group."""
        return tuple(math.prod(group) for group in self.groups)

    @cached_property
    def is_edge(self) -> bool:
        """Whether the weights lie on edges with states of their own, and not on nodes or the network."""
        sources = any(use.source is not None for use in self.uses)
        return sources or (not self.uses and bool(self.groups))

    @cached_property
    def is_hyperedge(self) -> bool:
        """Whether the edges are no pairs of nodes: a use without a source, or none, or ends that overlap."""
        inner = list(range(int(self.batched), len(self.groups)))
        pairs = all(
            use.source is not None and sorted(use.target.groups + use.source.groups) == inner
            for use in self.uses
        )
        return self.is_edge and not (self.uses and pairs)

    @cached_property
    def batch(self) -> int:
        """Number of indices of the batch."""
        return self.sizes[0] if self.batched else 1

    @cached_property
    def inner(self) -> tuple[int, ...]:
        """Number of indices of every group but the batch."""
        return self.sizes[int(self.batched) :]

    @cached_property
    def sides(self) -> tuple[tuple[int, ...], ...] | None:
        """For every use the side of each of its ends, where the block is a batch of matrices with two sides.

        Sides that no group stands for have size 1. ``None`` if some use has both ends on one side, or an end
        on both.
        """
        first = int(self.batched)
        sides = []
        for use in self.uses:
            taken = [end.groups[0] - first if end.groups else None for end in use.ends]
            free = [side for side in (0, 1) if side >= len(self.inner) and side not in taken]
            overlap = len(taken) == 2 and taken[0] == taken[1] is not None
            if overlap or any(len(end.groups) > 1 for end in use.ends) or len(free) < taken.count(None):
                return None
            sides.append(tuple(free.pop(0) if side is None else side for side in taken))
        return tuple(sides) if len(self.inner) < 3 else None

    def to_graph(self, values: Tensor) -> Tensor:
        """Reorder ``(B, *view)`` to ``(B, n_1, ..., n_k, K)``: a dimension for each group, positions last."""
        moved = values.permute(0, *(i + 1 for i in self.order))
        return moved.reshape(values.shape[0], *self.sizes, self.position_count)

    def from_graph(self, values: Tensor) -> Tensor:
        """The inverse of :meth:`to_graph`: ``(B, n_1, ..., n_k, K, *rest)`` to ``(B, *view, *rest)``."""
        rest = values.shape[len(self.groups) + 2 :]
        neurons = itertools.chain.from_iterable(self.groups)
        apart = values.reshape(values.shape[0], *neurons, *self.positions, *rest)
        inverse = [self.order.index(i) + 1 for i in range(len(self.order))]
        return apart.permute(0, *inverse, *range(len(self.order) + 1, apart.dim()))

    def to_nodes(self, values: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Values ``(B, *sizes, C)`` of a block on nodes, for every node set that has them ``(B, n, C)``."""
        for use in self.uses:
            yield use.target.nodes, use.target.unfold(values.reshape(-1, 1, values.shape[-1]))

    def from_nodes(self, states: Callable[[str], Tensor]) -> Tensor:
        """States ``(B, n, C)`` of node sets to those of a block on nodes, ``(B, *sizes, C)``: their mean."""
        found = [use.target.fold(states(use.target.nodes)) for use in self.uses]
        mean = found[0] if len(found) == 1 else torch.stack(found).mean(0)
        return mean.reshape(len(mean) // self.batch, *self.sizes, mean.shape[-1])
