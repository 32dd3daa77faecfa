"""Cells of values as neurons: which named axes a cell carries, whatever the positions."""

from __future__ import annotations

import math
from typing import NamedTuple

from wsl.trace._axes import AxisVariable, size_of
from wsl.trace._cells import DimCell, dim_cells
from wsl.trace._facts import Value
from wsl.trace._naming import AxisNames, Expansion

CellKey = tuple[int, ...]
AxisTuple = tuple[str, ...]


class NeuronCell(NamedTuple):
    """The cells of a value that differ in positions only.

    Attributes:
        axes: names of the axes along the cell, in order.
        terms: for every dim the term of the cell; the first one of dims without neurons.
        names: for every dim the name of the axis that begins at each leaf of the term.
        entries: how many there are.
        neurons: the leaves at which axes begin.
    """

    axes: AxisTuple
    terms: tuple[DimCell, ...]
    names: tuple[tuple[str | None, ...], ...]
    entries: int
    neurons: tuple[AxisVariable, ...]


class Layout(NamedTuple):
    """The neuron cells of one value; ``counted`` tells which dims have neurons."""

    counted: tuple[bool, ...]
    cells: dict[CellKey, NeuronCell]

    def reduce(self, key: CellKey) -> CellKey:
        """The key of the neuron cell that holds the cell ``key``."""
        return tuple(i if counted else 0 for i, counted in zip(key, self.counted, strict=True))


class Layouts:
    """Neuron cells of every value, computed once each.

    Args:
        names: the named axes; leaves that belong to none are positions.
        expand: knows the concatenations that are one axis.
    """

    def __init__(self, names: AxisNames, expand: Expansion) -> None:
        self._products = {
            _significant(product): name
            for key, name in names.names.items()
            for product in key
            if product and names.kind(key) != "position"
        }
        self._sums = {name for key, name in names.names.items() if len(key) > 1}
        for dim, whole in expand.joined.items():
            if (name := self._products.get((whole,))) is not None:
                self._sums.add(name)
                for cell in dim_cells(dim):
                    self._products.setdefault(_significant((*cell.leaves, *cell.nested)), name)
        self._heads: dict[AxisVariable, str] = {}
        for product, name in sorted(self._products.items(), key=lambda item: len(item[0])):
            self._heads.setdefault(product[0], name)
        self._layouts: dict[int, tuple[Value, Layout]] = {}

    def __getitem__(self, value: Value) -> Layout:
        known = self._layouts.get(id(value))
        if known is None:
            known = self._layouts[id(value)] = (value, self._lay_out(value))
        return known[1]

    def names(self, term: DimCell) -> tuple[str | None, ...]:
        """The name of the axis that begins at each leaf of a term; ``None`` for positions.

        An axis of several leaves, such as the pixels of an image, is named at the first of them.
        """
        leaves = (*term.leaves, *term.nested)
        core = _significant(leaves)
        if len(core) > 1 and (whole := self._products.get(core)) is not None:
            return tuple(whole if leaf is core[0] else None for leaf in leaves)
        found = [self._heads.get(leaf) for leaf in leaves]
        for i in range(len(term.leaves) + 1, len(leaves)):
            if found[i] == found[i - 1]:
                found[i - 1] = None  # two parts of one axis
        return tuple(found)

    def _is_counted(self, dim: list[tuple[str | None, ...]]) -> bool:
        """Whether the terms of a dim are different neurons, not positions or parts of one fixed axis."""
        found = {name for names in dim for name in names} - {None}
        return bool(found) and not (len(found) == 1 and found <= self._sums)

    def _lay_out(self, value: Value) -> Layout:
        terms = [dim_cells(dim) for dim in value.dims]
        named = [[self.names(term) for term in dim] for dim in terms]
        counted = tuple(self._is_counted(dim) for dim in named)
        keys: list[CellKey] = [()]
        for dim, counts in zip(terms, counted, strict=True):
            keys = [(*key, i) for key in keys for i in (range(len(dim)) if counts else (0,))]
        cells = {}
        for key in keys:
            chosen = tuple(dim[i] for dim, i in zip(terms, key, strict=True))
            names = tuple(dim[i] for dim, i in zip(named, key, strict=True))
            entries = math.prod(
                term.stop - term.start if counts else size_of(dim)
                for term, counts, dim in zip(chosen, counted, value.dims, strict=True)
            )
            axes = tuple(name for dim in names for name in dim if name is not None)
            neurons = tuple(
                leaf
                for term, found in zip(chosen, names, strict=True)
                for leaf, name in zip((*term.leaves, *term.nested), found, strict=True)
                if name is not None
            )
            cells[key] = NeuronCell(axes, chosen, names, entries, neurons)
        return Layout(counted, cells)


def _significant(leaves: tuple[AxisVariable, ...]) -> tuple[AxisVariable, ...]:
    """Without leaves of size 1, unless there are no others."""
    return tuple(leaf for leaf in leaves if leaf.size > 1) or leaves[:1]
