"""Cells of values as neurons: which named axes a cell carries, whatever the positions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wsl.trace._axes import AxisVariable, Dim, resolve
from wsl.trace._cells import Place
from wsl.trace._facts import Value
from wsl.trace._naming import AxisNames, Expansion
from wsl.trace._topology_terms import NeuronTerm, Span, neuron_terms

CellKey = tuple[int, ...]
AxisTuple = tuple[str, ...]
Spans = tuple[Span, ...]


class NeuronCell(NamedTuple):
    """The cells of a value that differ in positions only.

    Attributes:
        axes: names of the axes along the cell, in order.
        own: those that are not hidden; an input has others only where it is repeated along them.
        terms: for every dim the term of the cell; the first one of dims without neurons.
        names: for every dim the name of the axis that begins at each leaf of the term.
        entries: how many there are.
        neurons: the leaves at which axes begin.
    """

    axes: AxisTuple
    own: AxisTuple
    terms: tuple[NeuronTerm, ...]
    names: tuple[tuple[str | None, ...], ...]
    entries: int
    neurons: tuple[AxisVariable, ...]


class Layout:
    """The neuron cells of all values with the same dims.

    Args:
        spans: for every dim those of its terms; one for all where terms differ in positions only.
        cells: by the index of the span along every dim.
    """

    __slots__ = ("cells", "spans")

    def __init__(self, spans: tuple[Spans, ...], cells: dict[CellKey, NeuronCell]) -> None:
        self.spans = spans
        self.cells = cells

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dims."""
        return tuple(spans[-1].stop for spans in self.spans)

    def keys_of(self, places: Iterable[Place]) -> Iterator[CellKey]:
        """The keys of the neuron cells that meet a part."""
        yield from itertools.product(
            *(
                [i for i, span in enumerate(spans) if Span.of(place).meets(span)]
                for place, spans in zip(places, self.spans, strict=True)
            )
        )


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
        self._joined = expand.joined
        for dim, whole in expand.joined.items():
            if (name := self._products.get((whole,))) is not None:
                self._sums.add(name)
                for part in neuron_terms(dim, ()):
                    if part.leaves:  # a single index may have none
                        self._products.setdefault(_significant(part.leaves), name)
        self._hidden = {name for key, name in names.names.items() if names.kind(key) == "hidden"}
        self._heads: dict[AxisVariable, str] = {}
        for product, name in sorted(self._products.items(), key=lambda item: len(item[0])):
            self._heads.setdefault(product[0], name)
        self._by_value: dict[int, tuple[Value, Layout]] = {}
        self._by_dims: dict[tuple[Dim, ...], Layout] = {}

    def __getitem__(self, value: Value) -> Layout:
        known = self._by_value.get(id(value))
        if known is not None:
            return known[1]
        dims = tuple(map(resolve, value.dims))
        layout = self._by_dims.get(dims)
        if layout is None:
            layout = self._by_dims[dims] = self._lay_out(dims)
        self._by_value[id(value)] = value, layout
        return layout

    def names(self, leaves: tuple[AxisVariable, ...]) -> tuple[str | None, ...]:
        """The name of the axis that begins at each leaf of a term; ``None`` for positions.

        An axis of several leaves, such as the pixels of an image, is named at the first of them.
        """
        core = _significant(leaves)
        if len(core) > 1 and (whole := self._products.get(core)) is not None:
            return tuple(whole if leaf is core[0] else None for leaf in leaves)
        found = [self._heads.get(leaf) for leaf in leaves]
        parts = {i for i in range(1, len(found)) if found[i] == found[i - 1] and found[i] in self._sums}
        return tuple(None if i in parts else name for i, name in enumerate(found))

    def _are_neurons(self, dim: list[tuple[str | None, ...]]) -> bool:
        """Whether the terms of a dim are different neurons, not positions or parts of one fixed axis."""
        found = {name for names in dim for name in names} - {None}
        return bool(found) and not (len(found) == 1 and found <= self._sums)

    def _lay_out(self, dims: tuple[Dim, ...]) -> Layout:
        terms = [neuron_terms(dim, self._joined) for dim in dims]
        named = [[self.names(term.leaves) for term in dim] for dim in terms]
        spans = tuple(
            tuple(term.span for term in dim)
            if self._are_neurons(names)
            else (Span.range(0, dim[-1].span.stop),)
            for dim, names in zip(terms, named, strict=True)
        )
        cells = {}
        for key in itertools.product(*(range(len(parts)) for parts in spans)):
            chosen = tuple(dim[i] for dim, i in zip(terms, key, strict=True))
            names = tuple(dim[i] for dim, i in zip(named, key, strict=True))
            entries = math.prod(parts[i].size for parts, i in zip(spans, key, strict=True))
            axes = tuple(name for dim in names for name in dim if name is not None)
            own = tuple(name for name in axes if name not in self._hidden)
            neurons = tuple(
                leaf
                for term, found in zip(chosen, names, strict=True)
                for leaf, name in zip(term.leaves, found, strict=True)
                if name is not None
            )
            cells[key] = NeuronCell(axes, own, chosen, names, entries, neurons)
        return Layout(spans, cells)


def _significant(leaves: tuple[AxisVariable, ...]) -> tuple[AxisVariable, ...]:
    """Without leaves of size 1, unless there are no others."""
    return tuple(leaf for leaf in leaves if leaf.size > 1) or leaves[:1]
