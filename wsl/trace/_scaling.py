"""Scaling symmetries: which powers of one factor for each neuron leave the function unchanged.

For every hidden axis the unknowns are exponents, one for each *occurrence*: a place where the axis stands in
a cell of a traced value. An axis may stand in a cell twice, as in a recurrent weight, and then has two
exponents: the entry at index ``i`` along the one place and ``j`` along the other is multiplied by
``s[i] ** e * s[j] ** f``. Every fact is a set of linear equations between exponents:

* Dimensions with one label are indexed together, so at each place within the label's product all operands
  have the same index ``i``, and an operator commutes with the factors if the powers of ``s[i]`` agree at each
  place by itself: exponents add up in products, are alike in sums, and cancel where a place is summed over.
* Where the same entries are rearranged, cells correspond in row-major order, and so do the places in them.
* Inputs, outputs and constants have exponent 0, and so has what meets an operator of another kind.

Equations place by place are sufficient, hence sound. Where the axis is a family, all operands have the same
indices of its contexts too, so that factors may depend on these. Solutions over the rationals are positive
rescalings (known for ReLU networks from Dinh et al. 2017, arXiv:1703.04933), solutions over GF(2) are sign
flips. Beside them each axis has a :class:`~wsl.trace._linear.LinearPattern` for matrices that may act on it.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wsl.trace._axes import AxisVariable, Dim, resolve
from wsl.trace._cells import DimCell
from wsl.trace._facts import (
    Add,
    Apply,
    Cut,
    Fact,
    Multiply,
    Opaque,
    Rearrange,
    operands_of,
    values_of,
)
from wsl.trace._joint import Part, joint_cells
from wsl.trace._linear import LinearPattern
from wsl.trace._places import Axes, CellKey, Layout, Occurrence, Places, same_index
from wsl.trace._solve import Number

Row = dict[Occurrence, Number]
Carried = Sequence[Sequence[Occurrence]]


class Equations:
    """Linear equations between the exponents of one axis: over the rationals, over GF(2), or both."""

    def __init__(self) -> None:
        self.positive: list[Row] = []
        self.sign: list[Row] = []
        self.linear: LinearPattern[Occurrence] = LinearPattern()

    def require(self, row: Row, *, positive: bool = True, sign: bool = True) -> None:
        """Add the equation that the sum of ``coefficient * exponent`` is zero."""
        if row and positive:
            self.positive.append(row)
        if row and sign:
            self.sign.append(row)

    def zero(self, occurrences: Iterable[Occurrence]) -> None:
        """Each of these exponents is zero."""
        for occurrence in occurrences:
            self.require({occurrence: 1})
            self.linear.broken = True

    def same(self, a: Occurrence, b: Occurrence) -> None:
        """Two occurrences are scaled, or transformed, alike."""
        if a != b:
            self.require({a: 1, b: -1})
            self.linear.tie(a, b)

    def match(self, a: Sequence[Occurrence], b: Sequence[Occurrence]) -> None:
        """The places of the axis in two cells that hold the same entries."""
        if len(a) != len(b):
            self.zero((*a, *b))
            return
        for x, y in zip(a, b, strict=True):
            self.same(x, y)


System = defaultdict[AxisVariable, Equations]


def collect_equations(facts: Iterable[Fact], places: Places) -> System:
    """The equations that the facts impose on the exponents of the hidden axes."""
    system: System = defaultdict(Equations)
    for fact in facts:
        values = values_of(fact)
        layouts = list(map(places.layout, values))
        touched: Axes = frozenset().union(*(layout.axes for layout in layouts))
        if not touched:
            continue
        fixed = isinstance(fact, Opaque)
        for value, layout in zip(values, layouts, strict=True):
            if fixed or value.constancy in ("constant", "input"):
                _forbid(system, [layout], touched)
        if isinstance(fact, Rearrange):
            _rearrange(system, fact, layouts, touched)
        elif isinstance(fact, Cut):
            _cut(system, fact, layouts, touched)
        elif not isinstance(fact, Opaque):
            _labelled(system, fact, layouts, touched)
    return system


def _forbid(system: System, layouts: Iterable[Layout], axes: Axes) -> None:
    """Nothing may act on these axes in values of these layouts."""
    for layout in layouts:
        for leaf in axes & layout.axes:
            system[leaf].zero(itertools.chain(*layout.occurrences.get(leaf, {}).values()))
            system[leaf].linear.broken = True


def _rearrange(system: System, fact: Rearrange, layouts: Sequence[Layout], axes: Axes) -> None:
    """Cells correspond if the index is the same product; else as far as the dims around it are the same."""
    source, target = layouts
    if not same_index(fact.source, fact.target):
        return _match_around(system, fact, layouts, axes)
    pairs = list(zip(source.keys, target.keys, strict=True))
    for leaf, (before, after) in itertools.product(axes, pairs):
        system[leaf].match(source.at(leaf, before), target.at(leaf, after))
    return None


def _match_around(system: System, fact: Rearrange, layouts: Sequence[Layout], axes: Axes) -> None:
    """Cells that agree along the first and last dims, which are the same, are scaled alike."""
    before, after = (list(map(resolve, value.dims)) for value in (fact.source, fact.target))
    shorter = min(len(before), len(after))
    first = _common(before, after)
    last = min(_common(before[::-1], after[::-1]), shorter - first)
    for leaf in axes:
        groups: list[dict[tuple[CellKey, CellKey], list[list[Occurrence]]]] = [{}, {}]
        for group, layout in zip(groups, layouts, strict=True):
            for key, found in layout.occurrences.get(leaf, {}).items():
                group.setdefault((key[:first], key[len(key) - last :]), []).append(found)
        if leaf.size == 1 or groups[0].keys() != groups[1].keys():
            system[leaf].zero(itertools.chain(*itertools.chain(*groups[0].values(), *groups[1].values())))
            continue
        for around, cells in groups[0].items():
            for a, b in itertools.pairwise((*cells, *groups[1][around])):
                system[leaf].match(a, b)


def _common(a: Sequence[Dim], b: Sequence[Dim]) -> int:
    """How many dims two sequences have in common at the beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _match_all(system: System, layouts: Sequence[Layout], axes: Axes) -> None:
    """Cells hold the same entries, but do not correspond: an axis is scaled alike in all that carry it."""
    for leaf in axes:
        cells = [list(layout.occurrences.get(leaf, {}).values()) for layout in layouts]
        if leaf.size == 1 or not all(cells):
            system[leaf].zero(itertools.chain(*itertools.chain(*cells)))
            continue
        for a, b in itertools.pairwise(itertools.chain(*cells)):
            system[leaf].match(a, b)


def _cut(system: System, fact: Cut, layouts: Sequence[Layout], axes: Axes) -> None:
    """The cells of the part are cells of the whole; if not, nothing may act along the dimension."""
    part, whole = layouts
    steps = []
    for i, (inner, outer) in enumerate(zip(part.terms, whole.terms, strict=True)):
        shift = fact.start if i == fact.dim else 0
        found = {(term.place, _significant(term)): k for k, term in enumerate(outer)}
        steps.append([found.get((term.place.shifted(shift), _significant(term))) for term in inner])
    if all(k is not None for step in steps for k in step):
        matches = dict(zip(part.keys, itertools.product(*steps), strict=True))
        for leaf in axes:
            for key in matches if leaf.size == 1 else part.occurrences.get(leaf, ()):
                system[leaf].match(part.at(leaf, key), whole.at(leaf, matches[key]))  # type: ignore[arg-type]
        return
    along = frozenset(leaf for layout in layouts for term in layout.terms[fact.dim] for leaf in term.leaves)
    alike = all(None not in step for i, step in enumerate(steps) if i != fact.dim)
    free = axes - along if alike else frozenset()
    _forbid(system, layouts, axes - free)
    _match_all(system, layouts, free)


def _significant(term: DimCell) -> tuple[AxisVariable, ...]:
    return tuple(leaf for leaf in term.leaves if leaf.size != 1)


def _labelled(system: System, fact: Multiply | Add | Apply, layouts: list[Layout], touched: Axes) -> None:
    joint = joint_cells(operands_of(fact))
    if joint is None:
        return _forbid(system, layouts, touched)
    relate = _RELATIONS[type(fact)]
    for parts in joint:
        for (leaf, *_), carried in _by_place(parts, touched).items():
            relate(system[leaf], fact, [carried.get(part.operand, []) for part in parts])
    return None


def _by_place(parts: Sequence[Part], touched: Axes) -> dict[tuple[Any, ...], dict[int, list[Occurrence]]]:
    """Where hidden axes stand, by axis, label and place within the label: the occurrences in each operand.

    Places are counted without axes of size 1, which not all operands carry, and which need no place.
    """
    found: dict[tuple[Any, ...], dict[int, list[Occurrence]]] = {}
    for part in parts:
        position = 0
        for label, along in part.along:
            place = 0
            for leaf in along:
                if leaf in touched:
                    where = found.setdefault((leaf, label, place if leaf.size != 1 else None), {})
                    where.setdefault(part.operand, []).append((part.variable, position))
                position += 1
                place += leaf.size != 1
    return found


def _relate_product(equations: Equations, fact: Fact, carried: Carried) -> None:
    assert isinstance(fact, Multiply)
    row: Counter[Occurrence] = Counter()
    for found, power in zip(carried, (*fact.powers, -1), strict=True):
        for occurrence in found:
            row[occurrence] += power
    equations.require({occurrence: power for occurrence, power in row.items() if power})
    *inputs, out = carried
    factors = [(found, power) for found, power in zip(inputs, fact.powers, strict=True) if found]
    ends = [occurrence for found, _ in factors for occurrence in found] + list(out)
    if len(ends) == 2 and len(out) < 2 and all(power == 1 for _, power in factors):
        equations.linear.tie(ends[0], ends[1], 1 if out else -1)
    else:
        equations.linear.broken = True


def _relate_sum(equations: Equations, fact: Fact, carried: Carried) -> None:
    assert isinstance(fact, Add)
    *inputs, out = carried
    for operand, found in zip(fact.operands, inputs, strict=True):
        if operand.value.constancy == "zero":
            continue
        if len(found) == len(out) == 1:
            equations.same(found[0], out[0])
        else:
            equations.zero((*found, *out))


def _relate_function(equations: Equations, fact: Fact, carried: Carried) -> None:
    assert isinstance(fact, Apply)
    x, out = carried
    equations.linear.broken = True
    if len(x) != 1 or len(out) != 1:
        equations.zero((*x, *out))
        return
    if fact.degree is None:
        equations.require({x[0]: 1}, sign=False)
        equations.require({out[0]: 1}, sign=False)
    else:
        equations.require({x[0]: fact.degree, out[0]: -1}, sign=False)
    if fact.parity == "odd":
        equations.require({x[0]: 1, out[0]: -1}, positive=False)
    else:
        equations.require({out[0]: 1}, positive=False)
        if fact.parity is None:
            equations.require({x[0]: 1}, positive=False)


_RELATIONS: dict[type[Fact], Callable[[Equations, Fact, Carried], None]] = {
    Multiply: _relate_product,
    Add: _relate_sum,
    Apply: _relate_function,
}
