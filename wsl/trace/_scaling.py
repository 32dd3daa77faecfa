"""Scaling symmetries: which powers of one factor for each neuron leave the function unchanged.

For every hidden axis the unknowns are exponents, one for each cell of each value that carries the axis: the
cell is multiplied along the axis by ``s ** exponent``. Every fact is a set of linear equations between them;
inputs, outputs and constants have exponent 0. Solutions over the rationals are positive rescalings (known for
ReLU networks from Dinh et al. 2017, arXiv:1703.04933), solutions over GF(2) are sign flips.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from wsl.trace._axes import AxisVariable, leaves
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
from wsl.trace._joint import Variable, joint_cells
from wsl.trace._solve import Number

Row = dict[Variable, Number]


class Equations:
    """Linear equations between the exponents of one axis: over the rationals, over GF(2), or both."""

    def __init__(self) -> None:
        self.positive: list[Row] = []
        self.sign: list[Row] = []

    def require(
        self, coefficients: Mapping[Variable, Number], *, positive: bool = True, sign: bool = True
    ) -> None:
        """Add the equation that the sum of ``coefficient * exponent`` is zero."""
        row = {variable: c for variable, c in coefficients.items() if c}
        if row and positive:
            self.positive.append(row)
        if row and sign:
            self.sign.append(row)

    def zero(self, variables: Iterable[Variable]) -> None:
        """Each of these exponents is zero."""
        for variable in variables:
            self.require({variable: 1})


System = defaultdict[AxisVariable, Equations]


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
    return [(id(value), cell.key) for cell in cells(value) if leaf in cell.leaves]


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
    aligned = [cell.leaves for cell in sides[0]] == [cell.leaves for cell in sides[1]]
    for leaf in touched - barred:
        before, after = (
            [(id(value), cell.key) for cell in side if leaf in cell.leaves]
            for value, side in zip(values, sides, strict=True)
        )
        if not before or not after or (leaf.size == 1 and not aligned and len(before + after) > 2):
            system[leaf].zero(before + after)
        elif aligned:
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
                system[leaf].require({(id(fact.part), cell.key): 1, (id(fact.whole), match.key): -1})
    _forbid(system, values, touched & barred)


def _labelled(
    system: System, fact: Multiply | Add | Apply, values: list[Value], touched: set[AxisVariable]
) -> None:
    operands = operands_of(fact)
    joint = joint_cells(operands)
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
            carried = [part.variable if any(part is p for p, _ in carriers) else None for part in parts]
            relate(system[leaf], fact, carried)
    return None


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
