"""The vectors of tensors along their dimensions, as tokens that attend to one another."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

_LEADING = 4  # dimensions of entries before those of the tensor: networks, kinds, heads, channels


class Fibres(NamedTuple):
    """The vectors of a tensor along one of its dimensions.

    Args:
        tensor: which tensor.
        outer: its dimensions that the axis is a family over.
        others: those that tell vectors apart.
        dim: the dimension itself.
        pooled: dimensions of families over the axis, averaged; among the others, with one index.
    """

    tensor: int
    outer: tuple[int, ...]
    others: tuple[int, ...]
    dim: int
    pooled: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FibreGroup:
    """The vectors of several tensors along one axis: what they hold is read as tokens, and tokens are added.

    Entries of a tensor are ``(B, S, H, c, *sizes)``: ``S`` kinds (queries, keys, values), ``H`` heads, ``c``
    channels of each. Tokens are ``(S, B * outer * H, T, c * n)``, and lie in memory as the largest tensor
    does: as the rows of a matrix, or as its columns.

    Args:
        fibres: those of each tensor.
        shapes: the sizes of all tensors.
    """

    fibres: tuple[Fibres, ...]
    shapes: tuple[tuple[int, ...], ...]

    @cached_property
    def rows(self) -> bool:
        """Whether vectors of the largest tensor are along its last dimension."""
        largest = max(self.fibres, key=lambda fibres: math.prod(self.shapes[fibres.tensor]))
        return largest.dim == len(self.shapes[largest.tensor]) - 1

    @cached_property
    def counts(self) -> list[int]:
        """Number of vectors of each tensor."""
        return [
            math.prod(self.shapes[f.tensor][d] for d in f.others if d not in f.pooled) for f in self.fibres
        ]

    def read(self, entries: Sequence[Tensor], total: bool = False) -> Tensor:
        """Tokens of the entries of all tensors; means (or if wanted sums) over pooled dimensions."""
        parts = []
        for fibres in self.fibres:
            part = entries[fibres.tensor]
            if fibres.pooled:
                dims = [d + _LEADING for d in fibres.pooled]
                part = part.sum(dims, keepdim=True) if total else part.mean(dims, keepdim=True)
            start = len(fibres.outer) + (3 if self.rows else 5)
            moved = part.permute(self._order(fibres))
            sizes = moved.shape
            stop = start + len(fibres.others)
            parts.append(moved.reshape(*sizes[:start], math.prod(sizes[start:stop]), *sizes[stop:]))
        outer = len(self.fibres[0].outer)
        tokens = torch.cat(parts, dim=3 + outer if self.rows else -1)
        tokens = tokens.flatten(1, 2 + outer)
        return tokens.flatten(-2) if self.rows else tokens.flatten(2, 3).mT

    def write(
        self, tokens: Tensor, entries: Sequence[Tensor], share: bool = False
    ) -> list[tuple[int, Tensor]]:
        """Tokens back in the order of entries: ``(B, S, H, c, *sizes)``; pooled dimensions have size 1.

        Args:
            tokens: as :meth:`read` returns.
            entries: of all tensors, for their sizes.
            share: divide by the number of what was averaged, as the gradient of :meth:`read` does.

        Returns:
            For each tensor (again if it has several dimensions along the axis) its number, and the tokens.
        """
        written = []
        for fibres, part in zip(self.fibres, tokens.split(self.counts, dim=2), strict=True):
            batch, _, heads, width, *sizes = entries[fibres.tensor].shape
            kept = [1 if d in fibres.pooled else size for d, size in enumerate(sizes)]
            leading = len(tokens), batch, *(kept[d] for d in fibres.outer), heads
            others = [kept[d] for d in fibres.others]
            if self.rows:
                apart = part.reshape(*leading, *others, width, kept[fibres.dim])
            else:
                apart = part.mT.reshape(*leading, width, kept[fibres.dim], *others)
            if share and fibres.pooled:
                apart = apart / math.prod(sizes[d] for d in fibres.pooled)
            order = self._order(fibres)
            written.append((fibres.tensor, apart.permute(sorted(range(len(order)), key=order.__getitem__))))
        return written

    def _order(self, fibres: Fibres) -> tuple[int, ...]:
        """The dimensions of entries in the order of tokens, before any are joined."""
        outer, others = (tuple(d + _LEADING for d in dims) for dims in (fibres.outer, fibres.others))
        dim = fibres.dim + _LEADING
        inner = (*others, 3, dim) if self.rows else (3, dim, *others)
        return (1, 0, *outer, 2, *inner)


def fibre_groups(
    tensors: Sequence[tuple[str, ...]],
    sizes: Mapping[str, int],
    families: Mapping[str, Iterable[str]],
) -> list[FibreGroup]:
    """For every axis its vectors in all tensors, and last a group of the tensors' means.

    The means of all tensors are a further tensor, of sizes ``(number of tensors, 1)``.
    """
    shapes = (*(tuple(sizes[axis] for axis in axes) for axes in tensors), (len(tensors), 1))
    groups: dict[str, list[Fibres]] = {}
    for i, axes in enumerate(tensors):
        for dim, axis in enumerate(axes):
            outer = tuple(axes.index(name) for name in families.get(axis, ()))
            others = tuple(d for d in range(len(axes)) if d != dim and d not in outer)
            pooled = tuple(d for d in others if axis in families.get(axes[d], ()))
            groups.setdefault(axis, []).append(Fibres(i, outer, others, dim, pooled))
    means = Fibres(len(tensors), (), (0,), 1, ())
    return [FibreGroup(tuple(fibres), shapes) for fibres in (*groups.values(), [means])]
