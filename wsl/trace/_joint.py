"""The cells of several operands at once, where dimensions of equal labels are indexed together."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from wsl.trace._axes import AxisVariable, Dim, is_fixed, size_of
from wsl.trace._cells import DimCell, Place, dim_cells
from wsl.trace._facts import Operand

Variable = tuple[int, Hashable]


class Part(NamedTuple):
    """One operand in a joint cell.

    Attributes:
        operand: its position among the operands.
        variable: identity of its value, and key of the value's cell.
        along: for each of its dims the label and the leaves of the term, in order.
    """

    operand: int
    variable: Variable
    along: tuple[tuple[Hashable, tuple[AxisVariable, ...]], ...]


def joint_cells(operands: Sequence[Operand]) -> Iterator[list[Part]] | None:
    """Cells of all operands at once, one term for each label; ``None`` if their terms do not fit."""
    sizes: dict[Hashable, int] = {}
    for value, labels in operands:
        for label, dim in zip(labels, value.dims, strict=True):
            sizes[label] = max(sizes.get(label, 1), size_of(dim))
    terms: dict[Hashable, int] = {}
    cuts: dict[Hashable, list[Place]] = {}
    pieces: list[list[tuple[Hashable, tuple[DimCell, ...]]]] = []
    unlike = _cut_differently(operands)
    for p, (value, labels) in enumerate(operands):
        pieces.append([])
        for d, (label, dim) in enumerate(zip(labels, value.dims, strict=True)):
            # A dim of size 1 that is broadcast, or tied to nothing, has a label of its own. So have fixed
            # dims that are cut in different ways: every term of one is then met by every term of the other.
            tied = label is not None and label not in unlike and size_of(dim) == sizes[label]
            own = label if tied else ("own", p, d)
            found = dim_cells(dim)
            here = [cell.place for cell in found]
            if cuts.setdefault(own, here) != here:
                return None
            terms[own] = len(found)
            pieces[p].append((own, found))
    return _enumerate(operands, pieces, terms)


def _cut_differently(operands: Sequence[Operand]) -> set[Hashable]:
    """Labels of fixed dims whose terms do not lie at the same indices."""
    cuts: dict[Hashable, list[tuple[Dim, tuple[Place, ...]]]] = {}
    for value, labels in operands:
        for label, dim in zip(labels, value.dims, strict=True):
            if label is not None and size_of(dim) > 1:
                cuts.setdefault(label, []).append((dim, tuple(cell.place for cell in dim_cells(dim))))
    return {
        label
        for label, found in cuts.items()
        if len({places for _, places in found}) > 1 and all(is_fixed(dim) for dim, _ in found)
    }


def _enumerate(
    operands: Sequence[Operand],
    pieces: list[list[tuple[Hashable, tuple[DimCell, ...]]]],
    terms: dict[Hashable, int],
) -> Iterator[list[Part]]:
    for chosen in itertools.product(*(range(count) for count in terms.values())):
        at = dict(zip(terms, chosen, strict=True))
        yield [
            Part(
                p,
                (id(operand.value), tuple(at[label] for label, _ in pieces[p])),
                tuple((label, found[at[label]].leaves) for label, found in pieces[p]),
            )
            for p, operand in enumerate(operands)
        ]
