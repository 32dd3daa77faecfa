"""Dims and values multiplied out into cells: rectangular parts in which every index runs over leaves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from wsl.trace._axes import AxisVariable, Concatenation, Dim, leaves, resolve, size_of
from wsl.trace._facts import Value


class DimCell(NamedTuple):
    """One term of a dim: its range, its leaves, and leaves inside a concatenation within the product."""

    start: int
    stop: int
    leaves: tuple[AxisVariable, ...]
    nested: tuple[AxisVariable, ...]


class Cell(NamedTuple):
    """One cell of a value: a term of each of its dims."""

    key: tuple[int, ...]
    terms: tuple[DimCell, ...]

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Start and stop along every dim."""
        return tuple((term.start, term.stop) for term in self.terms)

    @property
    def leaves(self) -> tuple[AxisVariable, ...]:
        """All leaves in order."""
        return tuple(leaf for term in self.terms for leaf in term.leaves)


def dim_cells(dim: Dim) -> tuple[DimCell, ...]:
    """The terms of ``dim``, in order."""
    resolved = resolve(dim)
    direct = tuple(factor for factor in resolved if isinstance(factor, AxisVariable))
    if len(direct) == len(resolved):
        return (DimCell(0, size_of(resolved), direct, ()),)
    head = resolved[0]
    terms = head.terms if isinstance(head, Concatenation) and len(resolved) == 1 else (resolved,)
    cells = []
    start = 0
    for term in terms:
        stop = start + size_of(term)
        direct = tuple(factor for factor in term if isinstance(factor, AxisVariable))
        nested = tuple(
            leaf for factor in term if isinstance(factor, Concatenation) for leaf in leaves((factor,))
        )
        cells.append(DimCell(start, stop, direct, nested))
        start = stop
    return tuple(cells)


def cells(value: Value) -> Iterator[Cell]:
    """The cells of ``value`` in row-major order."""
    terms = [list(enumerate(dim_cells(dim))) for dim in value.dims]
    for chosen in itertools.product(*terms):
        yield Cell(tuple(i for i, _ in chosen), tuple(term for _, term in chosen))
