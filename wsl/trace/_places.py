"""Where the hidden axes stand in traced values: the unknowns of scaling symmetries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wsl.trace._axes import AxisVariable, Concatenation, Dim, resolve, significant
from wsl.trace._cells import DimCell, dim_cells
from wsl.trace._facts import Value
from wsl.trace._joint import Variable

Axes = frozenset[AxisVariable]
CellKey = tuple[int, ...]
Occurrence = tuple[Variable, int]


class Layout(NamedTuple):
    """The cells of one value and the hidden axes in them.

    Attributes:
        terms: of each dimension.
        occurrences: of each axis, in every cell that carries it, the places where it stands, in order.
        nested: axes in concatenations within products, which cells do not resolve.
    """

    terms: tuple[tuple[DimCell, ...], ...]
    occurrences: dict[AxisVariable, dict[CellKey, list[Occurrence]]]
    nested: Axes

    @property
    def keys(self) -> Iterator[CellKey]:
        """All cells in row-major order."""
        return itertools.product(*(range(len(terms)) for terms in self.terms))

    @property
    def axes(self) -> Axes:
        """All hidden axes that the value carries."""
        return self.nested.union(self.occurrences)

    def at(self, leaf: AxisVariable, key: CellKey) -> list[Occurrence]:
        """The places where ``leaf`` stands in a cell, which may be none."""
        return self.occurrences.get(leaf, {}).get(key, [])

    def covered(self, ranges: Iterable[tuple[int, int]]) -> Iterator[CellKey]:
        """The cells that overlap a rectangular part."""
        return itertools.product(
            *(
                [k for k, term in enumerate(terms) if term.start < stop and start < term.stop]
                for terms, (start, stop) in zip(self.terms, ranges, strict=True)
            )
        )


class Places:
    """The layouts of values, each worked out once; for use after a run, when axes change no more."""

    def __init__(self, hidden: Iterable[AxisVariable]) -> None:
        self._hidden = frozenset(hidden)
        self._layouts: dict[int, Layout] = {}

    def layout(self, value: Value) -> Layout:
        """The layout of ``value``, which must be kept alive."""
        found = self._layouts.get(id(value))
        if found is None:
            found = self._layouts[id(value)] = self._survey(value)
        return found

    def _survey(self, value: Value) -> Layout:
        terms = tuple(map(dim_cells, value.dims))
        every = [term for dim in terms for term in dim]
        nested = self._hidden.intersection(leaf for term in every for leaf in term.nested)
        found: dict[AxisVariable, dict[CellKey, list[Occurrence]]] = {}
        if any(leaf in self._hidden for term in every for leaf in term.leaves):
            for key in Layout(terms, found, nested).keys:
                leaves = (leaf for dim, k in zip(terms, key, strict=True) for leaf in dim[k].leaves)
                for place, leaf in enumerate(leaves):
                    if leaf in self._hidden:
                        here = found.setdefault(leaf, {}).setdefault(key, [])
                        here.append(((id(value), key), place))
        return Layout(terms, found, nested)


def same_index(a: Value, b: Value) -> bool:
    """Whether the row-major indices of all entries are one and the same product."""
    first, second = (tuple(factor for dim in value.dims for factor in dim) for value in (a, b))
    return significant(first) == significant(second)


def products(value: Value) -> Iterator[CellKey]:
    """The cell of every product of leaves in the row-major index of ``value``, in order.

    A cell comes several times where concatenations stand within its products.
    """
    options = []
    for dim in value.dims:
        resolved = resolve(dim)
        head = resolved[0] if len(resolved) == 1 else None
        terms = head.terms if isinstance(head, Concatenation) else (resolved,)
        options.append([k for k, term in enumerate(terms) for _ in range(_count(term))])
    return itertools.product(*options)


def _count(dim: Dim) -> int:
    """Into how many products of leaves ``dim`` falls."""
    return math.prod(sum(map(_count, f.terms)) if isinstance(f, Concatenation) else 1 for f in dim)
