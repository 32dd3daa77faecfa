"""The nodes at an end of an edge, brought into the order of the block whose weights lie on it."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class End:
    """One end of the edges between two node sets.

    The axes of the node set are of four kinds. Those of the batch index the block and every end of its edges,
    so that edges lie within one of their indices only. Those of groups index the block. Common ones do not
    index the block, but both ends, which agree on them. The rest are only here, and each of their indices is
    connected with everything.

    Args:
        nodes: name of the node set.
        target: whether the edges lead to these nodes; else they start from them.
        sizes: of the axes of the node set.
        order: these axes in the order batch, groups, common, rest.
        groups: which groups of the block's dimensions (see :class:`GraphBlock`) index these nodes, without
            the batch.
        parts: number of nodes in each of batch, groups, common and rest; their product is that of ``sizes``.
    """

    nodes: str
    target: bool
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    groups: tuple[int, ...]
    parts: tuple[int, int, int, int]

    @cached_property
    def plain(self) -> bool:
        """Whether the nodes are the indices of the block's groups, in their order."""
        return (
            self.order == tuple(range(len(self.order)))
            and self.parts[0] == self.parts[2] == self.parts[3] == 1
        )

    def fold(self, states: Tensor) -> Tensor:
        """States ``(B, n, C)`` to ``(B * batch, groups, common * C)``: the mean over the rest."""
        if self.plain:
            return states
        batch, groups, common, rest = self.parts
        count, _, channels = states.shape
        apart = states.reshape(count, *self.sizes, channels)
        moved = apart.permute(0, *(i + 1 for i in self.order), -1)
        if rest > 1:
            moved = moved.reshape(count * batch, groups, common, rest, channels).mean(3)
        return moved.reshape(count * batch, groups, common * channels)

    def unfold(self, messages: Tensor) -> Tensor:
        """``(B * batch, groups, common * C)`` to ``(B, n, C)``: the same for all of the rest."""
        if self.plain:
            return messages
        batch, _, common, rest = self.parts
        count, channels = messages.shape[0] // batch, messages.shape[2] // common
        spread = messages.unflatten(2, (common, 1, channels)).expand(-1, -1, -1, rest, -1)
        apart = spread.reshape(count, *(self.sizes[i] for i in self.order), channels)
        inverse = sorted(range(len(self.order)), key=self.order.__getitem__)
        return apart.permute(0, *(i + 1 for i in inverse), -1).reshape(count, math.prod(self.sizes), channels)

    def pool(self, states: Tensor) -> Tensor:
        """States ``(B, n, C)`` to ``(B * batch, groups, C)``: the mean over nodes that share weights."""
        folded, common = self.fold(states), self.parts[2]
        return folded if common == 1 else folded.unflatten(2, (common, -1)).mean(2)

    def spread(self, messages: Tensor) -> Tensor:
        """``(B * batch, groups, C)`` to ``(B, n, C)``: the same for all nodes that share weights."""
        common = self.parts[2]
        return self.unfold(messages if common == 1 else messages.repeat(1, 1, common))

    def rows(self, start: int) -> Tensor:
        """Numbers of the nodes, counted from ``start``: ``(batch, groups, common, rest)``."""
        numbers = torch.arange(start, start + math.prod(self.sizes)).reshape(self.sizes)
        return numbers.permute(self.order).reshape(self.parts)


class Use(NamedTuple):
    """Edges between two node sets: those of one use of a block, or identity edges.

    Args:
        target: the nodes that the edges lead to.
        source: the nodes that they start from; ``None`` if the block is added at the targets.
    """

    target: End
    source: End | None

    @property
    def ends(self) -> tuple[End, ...]:
        """The target, and the source if there is one."""
        return (self.target,) if self.source is None else (self.target, self.source)
