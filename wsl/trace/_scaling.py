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
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from wsl.trace._axes import AxisVariable, Concatenation, Dim, leaves, resolve, significant
from wsl.trace._cells import Cell, cells, dim_cells
from wsl.trace._facts import (
    Add,
    Apply,
    Cut,
    Fact,
    Multiply,
    Opaque,
    Rearrange,
    Value,
    operands_of,
    values_of,
)
from wsl.trace._joint import Part, Variable, joint_cells
from wsl.trace._linear import LinearPattern
from wsl.trace._solve import Number

Occurrence = tuple[Variable, int]
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
Axes = frozenset[AxisVariable]


def collect_equations(facts: Iterable[Fact], hidden: Iterable[AxisVariable]) -> System:
    """The equations that the facts impose on the exponents of the hidden axes."""
    system: System = defaultdict(Equations)
    hidden = frozenset(hidden)
    carried: dict[int, Axes] = {}
    for fact in facts:
        values = values_of(fact)
        for value in values:
            if id(value) not in carried:
                carried[id(value)] = hidden.intersection(leaf for dim in value.dims for leaf in leaves(dim))
        touched: Axes = frozenset().union(*(carried[id(value)] for value in values))
        if not touched:
            continue
        constants = [value for value in values if value.constancy in ("constant", "input")]
        _forbid(system, values if isinstance(fact, Opaque) else constants, touched)
        if isinstance(fact, Rearrange):
            _rearrange(system, fact, touched)
        elif isinstance(fact, Cut):
            _cut(system, fact, touched)
        elif not isinstance(fact, Opaque):
            _labelled(system, fact, values, touched)
    return system


def occurrences(value: Value, cell: Cell, leaf: AxisVariable) -> list[Occurrence]:
    """The places where ``leaf`` stands in a cell of ``value``, in order."""
    variable = (id(value), cell.key)
    return [(variable, place) for place, other in enumerate(cell.leaves) if other is leaf]


def _forbid(system: System, values: Iterable[Value], axes: Axes) -> None:
    """Nothing may act on these axes in ``values``."""
    for value in values:
        for cell in cells(value):
            carried = (leaf for term in cell.terms for leaf in (*term.leaves, *term.nested))
            for leaf in axes.intersection(carried):
                system[leaf].zero(occurrences(value, cell, leaf))
                system[leaf].linear.broken = True


def _nested(values: Iterable[Value], touched: Axes) -> Axes:
    """Leaves of concatenations within products, which cells do not resolve."""
    found = (term.nested for value in values for dim in value.dims for term in dim_cells(dim))
    return touched.intersection(itertools.chain.from_iterable(found))


def _rearrange(system: System, fact: Rearrange, touched: Axes) -> None:
    """Cells correspond if the index is the same product; else an axis is scaled alike in all of them."""
    source, target = fact.source, fact.target
    barred = _nested((source, target), touched)
    _forbid(system, (source, target), barred)
    if significant(_index(source)) == significant(_index(target)):
        pairs = dict.fromkeys(zip(_products(source), _products(target), strict=True))
        for before, after in pairs:
            for leaf in touched.intersection((*before.leaves, *after.leaves)) - barred:
                system[leaf].match(occurrences(source, before, leaf), occurrences(target, after, leaf))
        return
    for leaf in touched - barred:
        first, second = (
            list(filter(None, (occurrences(value, cell, leaf) for cell in cells(value))))
            for value in (source, target)
        )
        if leaf.size == 1 or not first or not second:
            system[leaf].zero(itertools.chain(*first, *second))
        else:
            for a, b in itertools.pairwise(first + second):
                system[leaf].match(a, b)


def _index(value: Value) -> Dim:
    """The row-major index of all entries."""
    return tuple(factor for dim in value.dims for factor in dim)


def _products(value: Value) -> Iterator[Cell]:
    """The cell of every product of leaves in the row-major index of ``value``, in order.

    A cell comes several times where concatenations stand within its products.
    """
    options = []
    for dim in value.dims:
        resolved = resolve(dim)
        head = resolved[0] if len(resolved) == 1 else None
        terms = head.terms if isinstance(head, Concatenation) else (resolved,)
        found = enumerate(zip(dim_cells(dim), terms, strict=True))
        options.append([(i, cell) for i, (cell, term) in found for _ in range(_count(term))])
    for chosen in itertools.product(*options):
        yield Cell(tuple(i for i, _ in chosen), tuple(cell for _, cell in chosen))


def _count(dim: Dim) -> int:
    """Into how many products of leaves ``dim`` falls."""
    return math.prod(sum(map(_count, f.terms)) if isinstance(f, Concatenation) else 1 for f in dim)


def _cut(system: System, fact: Cut, touched: Axes) -> None:
    """The cells of the part are cells of the whole."""
    values = (fact.part, fact.whole)
    barred = _nested(values, touched)
    whole = {cell.ranges: cell for cell in cells(fact.whole)}
    for cell in cells(fact.part):
        shifted = tuple(
            (start + fact.start, stop + fact.start) if i == fact.dim else (start, stop)
            for i, (start, stop) in enumerate(cell.ranges)
        )
        match = whole.get(shifted)
        if match is None or _significant(match) != _significant(cell):
            barred |= touched.intersection((*cell.leaves, *(match.leaves if match else ())))
            continue
        for leaf in touched.intersection((*cell.leaves, *match.leaves)):
            system[leaf].match(occurrences(fact.part, cell, leaf), occurrences(fact.whole, match, leaf))
    _forbid(system, values, barred)


def _significant(cell: Cell) -> list[AxisVariable]:
    return [leaf for leaf in cell.leaves if leaf.size != 1]


def _labelled(system: System, fact: Multiply | Add | Apply, values: list[Value], touched: Axes) -> None:
    operands = operands_of(fact)
    joint = joint_cells(operands)
    if joint is None:
        return _forbid(system, values, touched)
    _forbid(system, values, _nested(values, touched))
    relate = _RELATIONS[type(fact)]
    for parts in joint:
        for (leaf, *_), carried in _places(parts, touched).items():
            relate(system[leaf], fact, [carried.get(part.operand, []) for part in parts])
    return None


def _places(parts: Sequence[Part], touched: Axes) -> dict[tuple[Any, ...], dict[int, list[Occurrence]]]:
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
