"""Scaling symmetries: which powers of one factor for each neuron, put on the tensors, leave the function unchanged.

For every hidden axis the unknowns are exponents, one for each cell of each value that carries the axis: the cell is
multiplied along the axis by ``s ** exponent``. Every fact is a set of linear equations between them. Inputs, outputs
and constants have exponent 0. The solutions over the rationals are positive rescalings, those over GF(2) sign flips.

Source: the exponents of ReLU networks are those of Dinh et al. 2017 (arXiv:1703.04933), signs of odd activations those
of Chen et al. 1993; the equations are ours.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from wsl.trace._axes import AxisVariable, leaves, size_of
from wsl.trace._cells import Cell, DimCell, cells, dim_cells
from wsl.trace._facts import (
    Add,
    Apply,
    Cut,
    Fact,
    Multiply,
    Opaque,
    Operand,
    Rearrange,
    Value,
    operands_of,
    values_of,
)

Variable = tuple[int, Hashable]
Row = dict[Variable, Fraction]


class Equations:
    """Linear equations between the exponents of one axis: over the rationals, over GF(2), or both."""

    def __init__(self) -> None:
        self.positive: list[Row] = []
        self.sign: list[Row] = []

    def require(
        self, coefficients: Mapping[Variable, int | Fraction], *, positive: bool = True, sign: bool = True
    ) -> None:
        """Add the equation that the sum of ``coefficient * exponent`` is zero."""
        row = {variable: Fraction(c) for variable, c in coefficients.items() if c}
        if row and positive:
            self.positive.append(row)
        if row and sign:
            self.sign.append(row)

    def zero(self, variables: Iterable[Variable]) -> None:
        """Each of these exponents is zero."""
        for variable in variables:
            self.require({variable: 1})


System = defaultdict[AxisVariable, Equations]


class _Part(NamedTuple):
    """One operand in a joint cell: its unknown, and the leaves along each label."""

    operand: int
    variable: Variable
    along: dict[Hashable, tuple[AxisVariable, ...]]


def collect_equations(facts: Iterable[Fact], hidden: set[AxisVariable]) -> System:
    """The equations that the facts impose on the exponents of the hidden axes."""
    system: System = defaultdict(Equations)
    for fact in facts:
        values = values_of(fact)
        touched = {leaf for value in values for dim in value.dims for leaf in leaves(dim)} & hidden
        if not touched:
            continue
        for value in values:
            if value.constancy in ("constant", "input"):
                _forbid(system, [value], touched)
        if isinstance(fact, Opaque):
            _forbid(system, values, touched)
        elif isinstance(fact, Rearrange):
            _rearrange(system, fact, touched)
        elif isinstance(fact, Cut):
            _cut(system, fact, touched)
        else:
            _labelled(system, fact, values, touched)
    return system


def _variables(value: Value, leaf: AxisVariable) -> list[Variable]:
    return [(id(value), cell.index) for cell in cells(value) if leaf in cell.leaves]


def _forbid(system: System, values: Iterable[Value], axes: Iterable[AxisVariable]) -> None:
    for value, leaf in itertools.product(values, axes):
        system[leaf].zero(_variables(value, leaf))


def _repeated(cell: Cell) -> set[AxisVariable]:
    return {leaf for leaf, count in Counter(cell.leaves).items() if count > 1}


def _nested(values: Iterable[Value]) -> set[AxisVariable]:
    """Leaves of concatenations within products, which cells do not resolve."""
    return {leaf for value in values for dim in value.dims for cell in dim_cells(dim) for leaf in cell.nested}


def _rearrange(system: System, fact: Rearrange, touched: set[AxisVariable]) -> None:
    sides = [list(cells(value)) for value in (fact.source, fact.target)]
    values = (fact.source, fact.target)
    barred = _nested(values) | {leaf for side in sides for cell in side for leaf in _repeated(cell)}
    _forbid(system, values, touched & barred)
    signatures = [[[leaf for leaf in cell.leaves if leaf.size > 1] for cell in side] for side in sides]
    for leaf in touched - barred:
        before, after = (
            [(id(value), cell.index) for cell in side if leaf in cell.leaves]
            for value, side in zip(values, sides, strict=True)
        )
        if not before or not after:
            system[leaf].zero(before + after)
        elif signatures[0] == signatures[1] and len(before) == len(after):
            for a, b in zip(before, after, strict=True):
                system[leaf].require({a: 1, b: -1})
        else:  # cells do not correspond one to one: the axis is scaled alike in all of them
            for a, b in itertools.pairwise(before + after):
                system[leaf].require({a: 1, b: -1})


def _cut(system: System, fact: Cut, touched: set[AxisVariable]) -> None:
    values = (fact.part, fact.whole)
    whole = {cell.ranges: cell for cell in cells(fact.whole)}
    barred = _nested(values)
    for cell in cells(fact.part):
        shifted = tuple(
            (start + fact.start, stop + fact.start) if i == fact.dim else (start, stop)
            for i, (start, stop) in enumerate(cell.ranges)
        )
        match = whole.get(shifted)
        barred |= set(cell.leaves) if match is None or match.leaves != cell.leaves else _repeated(cell)
        if match is not None:
            for leaf in touched & set(cell.leaves) - barred:
                system[leaf].require({(id(fact.part), cell.index): 1, (id(fact.whole), match.index): -1})
    _forbid(system, values, touched & barred)


def _labelled(
    system: System, fact: Multiply | Add | Apply, values: list[Value], touched: set[AxisVariable]
) -> None:
    operands = operands_of(fact)
    joint = _joint_cells(operands)
    if joint is None:
        return _forbid(system, values, touched)
    barred = _nested(values)
    relate = _RELATIONS[type(fact)]
    for parts in joint:
        present = [
            leaf for part in parts for found in part.along.values() for leaf in found if leaf in touched
        ]
        for leaf in dict.fromkeys(present):
            carriers = [
                (part, label) for part in parts for label, found in part.along.items() if leaf in found
            ]
            twice = any(found.count(leaf) > 1 for part in parts for found in part.along.values())
            if twice or len({label for _, label in carriers}) > 1 or leaf in barred:
                system[leaf].zero(part.variable for part, _ in carriers)
                continue
            label = carriers[0][1]
            carried = [part.variable if any(part is p for p, _ in carriers) else None for part in parts]
            relate(system[leaf], fact, carried)
    return None


def _joint_cells(operands: Sequence[Operand]) -> Iterator[list[_Part]] | None:
    """Cells of all operands at once, one term for each label; ``None`` if their terms do not fit."""
    sizes: dict[Hashable, int] = {}
    for value, labels in operands:
        for label, dim in zip(labels, value.dims, strict=True):
            sizes[label] = max(sizes.get(label, 1), size_of(dim))
    terms: dict[Hashable, int] = {}
    ranges: dict[Hashable, list[tuple[int, int]]] = {}
    pieces: list[list[tuple[Hashable, tuple[DimCell, ...]]]] = []
    for p, (value, labels) in enumerate(operands):
        pieces.append([])
        for d, (label, dim) in enumerate(zip(labels, value.dims, strict=True)):
            # A dim of size 1 that is broadcast, or tied to nothing, has a label of its own.
            own = label if label is not None and size_of(dim) == sizes[label] else ("own", p, d)
            found = dim_cells(dim)
            here = [(cell.start, cell.stop) for cell in found]
            if ranges.setdefault(own, here) != here:
                return None
            terms[own] = len(found)
            pieces[p].append((own, found))
    return _enumerate(operands, pieces, terms)


def _enumerate(
    operands: Sequence[Operand],
    pieces: list[list[tuple[Hashable, tuple[DimCell, ...]]]],
    terms: dict[Hashable, int],
) -> Iterator[list[_Part]]:
    for chosen in itertools.product(*(range(count) for count in terms.values())):
        at = dict(zip(terms, chosen, strict=True))
        yield [
            _Part(
                p,
                (id(operand.value), tuple(at[label] for label, _ in pieces[p])),
                {label: found[at[label]].leaves for label, found in pieces[p]},
            )
            for p, operand in enumerate(operands)
        ]


def _relate_product(equations: Equations, fact: Fact, carried: list[Variable | None]) -> None:
    assert isinstance(fact, Multiply)
    row: Counter[Variable] = Counter()
    for variable, power in zip(carried, (*fact.powers, -1), strict=True):
        if variable is not None:
            row[variable] += power
    equations.require(row)


def _relate_sum(equations: Equations, fact: Fact, carried: list[Variable | None]) -> None:
    assert isinstance(fact, Add)
    *inputs, out = carried
    for operand, variable in zip(fact.operands, inputs, strict=True):
        if operand.value.constancy == "zero":
            continue
        if variable is None or out is None:
            equations.zero(v for v in (variable, out) if v is not None)
        elif variable != out:
            equations.require({variable: 1, out: -1})


def _relate_function(equations: Equations, fact: Fact, carried: list[Variable | None]) -> None:
    assert isinstance(fact, Apply)
    x, out = carried
    if x is None or out is None:
        equations.zero(variable for variable in carried if variable is not None)
        return
    if fact.degree is None:
        equations.require({x: 1}, sign=False)
        equations.require({out: 1}, sign=False)
    else:
        equations.require({x: fact.degree, out: -1}, sign=False)
    if fact.parity == "odd":
        equations.require({x: 1, out: -1}, positive=False)
    else:
        equations.require({out: 1}, positive=False)
        if fact.parity is None:
            equations.require({x: 1}, positive=False)


_RELATIONS: dict[type[Fact], Callable[[Equations, Fact, list[Variable | None]], None]] = {
    Multiply: _relate_product,
    Add: _relate_sum,
    Apply: _relate_function,
}
