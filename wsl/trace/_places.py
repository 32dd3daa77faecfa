"""Where the hidden axes stand in traced values: the unknowns of scaling symmetries."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wsl.spec import Block, TensorSpec, stored_dims
from wsl.trace._axes import AxisVariable, significant
from wsl.trace._cells import DimCell, Place, dim_cells
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
    """

    terms: tuple[tuple[DimCell, ...], ...]
    occurrences: dict[AxisVariable, dict[CellKey, list[Occurrence]]]

    @property
    def keys(self) -> Iterator[CellKey]:
        """All cells in row-major order."""
        return itertools.product(*(range(len(terms)) for terms in self.terms))

    @property
    def axes(self) -> Axes:
        """All hidden axes that the value carries."""
        return frozenset(self.occurrences)

    def at(self, leaf: AxisVariable, key: CellKey) -> list[Occurrence]:
        """The places where ``leaf`` stands in a cell, which may be none."""
        return self.occurrences.get(leaf, {}).get(key, [])

    def covered(self, places: Iterable[Place]) -> Iterator[CellKey]:
        """The cells that overlap a part."""
        return itertools.product(
            *(
                [k for k, term in enumerate(terms) if term.place.meets(place)]
                for terms, place in zip(self.terms, places, strict=True)
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
        found: dict[AxisVariable, dict[CellKey, list[Occurrence]]] = {}
        if any(leaf in self._hidden for term in every for leaf in term.leaves):
            for key in Layout(terms, found).keys:
                leaves = (leaf for dim, k in zip(terms, key, strict=True) for leaf in dim[k].leaves)
                for place, leaf in enumerate(leaves):
                    if leaf in self._hidden:
                        here = found.setdefault(leaf, {}).setdefault(key, [])
                        here.append(((id(value), key), place))
        return Layout(terms, found)


def block_places(tensor: TensorSpec, block: Block) -> tuple[Place, ...]:
    """Where a ``block`` of ``tensor`` lies along every stored dimension."""
    if not block.strides:
        return tuple(Place.of(start, (stop - start,), (1,)) for start, stop in block.slice)
    steps: list[list[tuple[int, int]]] = [[] for _ in block.slice]
    for dim, step in zip(
        stored_dims(tensor, block), zip(block.view, block.strides, strict=True), strict=True
    ):
        steps[dim].append(step)
    return tuple(
        Place.of(start, (size for size, _ in here), (stride for _, stride in here))
        for (start, _), here in zip(block.slice, steps, strict=True)
    )


def same_index(a: Value, b: Value) -> bool:
    """Whether the row-major indices of all entries are one and the same product."""
    first, second = (tuple(factor for dim in value.dims for factor in dim) for value in (a, b))
    return significant(first) == significant(second)
