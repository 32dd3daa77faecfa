"""Reading tensors of states by selections, and filling tensors from what is computed for selections."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from wsl.nn._universal_terms import Parts, Selection

_Kept = tuple[int, ...]


class _Average(NamedTuple):
    """``kept`` (parts in ascending order) is ``parent`` averaged over ``dims``, of so many entries each."""

    kept: _Kept
    parent: _Kept
    dims: tuple[int, ...]
    entries: int


class Reader:
    """Reads one tensor by several selections; averages are taken of averages where there are any.

    Args:
        axes: the axes of the tensor.
        sizes: the size of every axis.
        wanted: the selections; their order of kept parts is that of the dimensions of what is read.
    """

    def __init__(self, axes: Sequence[str], sizes: Mapping[str, int], wanted: Iterable[Selection]) -> None:
        self.wanted = tuple(wanted)
        self.plan: dict[Parts, list[_Average]] = {}
        for parts in dict.fromkeys(selection.parts for selection in self.wanted):
            counts = [sizes[axes[part[0]]] for part in parts]
            found: list[_Kept] = [tuple(range(len(parts)))]
            sets = {tuple(sorted(s.kept)) for s in self.wanted if s.parts == parts}
            steps = []
            for kept in sorted(sets - set(found), key=lambda kept: (-len(kept), kept)):
                parent = min(
                    (other for other in found if set(kept) < set(other)),
                    key=lambda other: math.prod(counts[i] for i in other),
                )
                dims = tuple(i + 1 for i, part in enumerate(parent) if part not in kept)
                entries = math.prod(counts[i] for i in parent if i not in kept)
                steps.append(_Average(kept, parent, dims, entries))
                found.append(kept)
            self.plan[parts] = steps

    def __call__(self, state: Tensor) -> dict[Selection, Tensor]:
        """States ``(B, *sizes, W)`` to ``(B, *sizes of kept parts, W)`` by selection."""
        found: dict[tuple[Parts, _Kept], Tensor] = {}
        for parts, steps in self.plan.items():
            found[parts, tuple(range(len(parts)))] = diagonal(state, parts)
            for kept, parent, dims, entries in steps:
                # not mean(): its gradient is divided after it is broadcast to the size of the parent
                found[parts, kept] = found[parts, parent].sum(dims) / entries
        read = {}
        for selection in self.wanted:
            ascending = sorted(selection.kept)
            order = [ascending.index(part) + 1 for part in selection.kept]
            value = found[selection.parts, tuple(ascending)]
            read[selection] = value.permute(0, *order, -1)
        return read


def diagonal(state: Tensor, parts: Parts) -> Tensor:
    """A view of ``(B, *sizes, W)``: the diagonal along each part, ``(B, *sizes of parts, W)``."""
    left = list(range(state.dim() - 2))
    for part in parts:
        for other in part[1:]:
            first, second = left.index(part[0]) + 1, left.index(other) + 1
            state = state.diagonal(0, first, second).movedim(-1, first)
            left.remove(other)
    return state


def fill(shape: Sequence[int], pieces: Mapping[Selection, Tensor]) -> Tensor:
    """Add up pieces, each broadcast along the parts that it lacks, on their diagonals of one tensor.

    Args:
        shape: ``(*sizes, W)`` of the tensor.
        pieces: ``(B, *sizes of kept parts, W)`` by selection; the finest partition is among them.

    Returns:
        ``(B, *sizes, W)``.
    """
    finest = tuple((dim,) for dim in range(len(shape) - 1))
    by_parts: dict[Parts, dict[_Kept, Tensor]] = {}
    for selection, piece in pieces.items():
        by_parts.setdefault(selection.parts, {})[selection.kept] = piece
    filled = _broadcast_sum(by_parts.pop(finest), len(finest))
    filled = filled if filled.shape[1:] == tuple(shape) else filled.expand(-1, *shape).clone()
    for parts, found in by_parts.items():
        diagonal(filled, parts).add_(_broadcast_sum(found, len(parts)))
    return filled


def _broadcast_sum(pieces: Mapping[_Kept, Tensor], rank: int) -> Tensor:
    """The sum of pieces, with a dimension for each part; of size 1 where no piece has the part.

    Small pieces are first added to the smallest that has all of their parts.
    """
    sums = {frozenset(kept): _align(piece, kept, rank) for kept, piece in pieces.items()}
    order = sorted(sums, key=len)
    own = set()
    for i, kept in enumerate(order[:-1]):
        parent = next((other for other in order[i + 1 :] if kept < other), order[-1])
        if parent in own and kept < parent:
            sums[parent].add_(sums.pop(kept))
        else:
            sums[parent] = sums[parent] + sums.pop(kept)
        own.add(parent)
    return sums[order[-1]]


def _align(piece: Tensor, kept: _Kept, rank: int) -> Tensor:
    """``(B, *sizes of kept, W)`` with its parts in ascending order, and size 1 for all other parts."""
    ascending = sorted(kept)
    piece = piece.permute(0, *(kept.index(part) + 1 for part in ascending), -1)
    for part in range(rank):
        if part not in kept:
            piece = piece.unsqueeze(part + 1)
    return piece
