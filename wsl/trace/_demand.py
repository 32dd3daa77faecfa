"""Which parts of the weights the outputs depend on; axes that lie in no such part are fixed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from wsl.trace._axes import AxisVariable, Reason, leaves
from wsl.trace._cells import Cell, Place, cells
from wsl.trace._facts import Cut, Fact, Multiply, Opaque, Rearrange, Value, operands_of, values_of
from wsl.trace._joint import Variable, joint_cells

Demands = defaultdict[Variable, set[Variable]]


def fix_unused(facts: Iterable[Fact], state: Mapping[str, Value], outputs: Iterable[Value]) -> None:
    """Fix the axes of weights that nothing depends on: of a head that is not returned, of unread positions.

    What may be needed counts as needed. A permutation of such an axis would be a symmetry too, but no check
    can tell it from any other claim about these weights.
    """
    facts, outputs = list(facts), list(outputs)
    live = _carried(state, _needed(facts, outputs))
    read = {id(value) for fact in facts for value in values_of(fact)}
    unused = [
        (value, leaf)
        for value in state.values()
        for leaf in dict.fromkeys(leaf for dim in value.dims for leaf in leaves(dim))
        if leaf not in live and not leaf.reasons
    ]
    if not unused:
        return
    reached = _carried(state, _needed(facts, outputs, through_zeros=True))
    for value, leaf in unused:
        if leaf in reached:
            text = "it meets only zeros on these examples: give a longer sequence, or a state"
        elif id(value) in read:
            text = "no output depends on it"
        else:
            text = "not used in the forward pass"
        leaf.reasons[Reason("unused", text)] = None


def _carried(state: Mapping[str, Value], needed: set[Variable]) -> set[AxisVariable]:
    """The leaves of the cells of weights that are among the ``needed`` ones."""
    found = ((value, cell) for value in state.values() for cell in cells(value))
    return {leaf for value, cell in found if (id(value), cell.key) in needed for leaf in cell.leaves}


def _needed(facts: list[Fact], outputs: Iterable[Value], through_zeros: bool = False) -> set[Variable]:
    """The cells that outputs, or values that rules do not follow, depend on.

    Args:
        through_zeros: also what is multiplied by nothing but zeros, as by the first state of a recurrent
            network.
    """
    demands: Demands = defaultdict(set)
    roots = list(outputs)
    for fact in facts:
        if isinstance(fact, Opaque):
            roots += fact.values
        elif isinstance(fact, (Rearrange, Cut)):
            _link(demands, fact)
        elif not through_zeros and isinstance(fact, Multiply) and _is_zero(fact):
            continue
        else:
            values = values_of(fact)
            joint = joint_cells(operands_of(fact))
            if joint is None:
                pairs: Iterable[list[Variable]] = [
                    [*(v for value in values[:-1] for v in _variables(value)), out]
                    for out in _variables(values[-1])
                ]
            else:
                pairs = ([part.variable for part in parts] for parts in joint)
            for *inputs, out in pairs:
                demands[out].update(inputs)
                if len(values) == 2:  # a view may be written to, and then its base depends on it
                    demands[inputs[0]].add(out)
    found = {variable for value in roots for variable in _variables(value)}
    pending = list(found)
    while pending:
        fresh = demands[pending.pop()] - found
        found |= fresh
        pending += fresh
    return found


def _is_zero(fact: Multiply) -> bool:
    return any(operand.value.constancy == "zero" for operand in fact.operands)


def _link(demands: Demands, fact: Rearrange | Cut) -> None:
    """Two values of which one holds entries of the other, whichever was there first."""
    if isinstance(fact, Cut):
        whole = list(cells(fact.whole))
        start, dim = fact.start, fact.dim
        pairs = []
        for cell in cells(fact.part):
            places = [term.place.shifted(start if i == dim else 0) for i, term in enumerate(cell.terms)]
            pairs += [(cell, other) for other in whole if _overlap(other, places)]
        ends = (fact.part, fact.whole)
    else:
        before, after = list(cells(fact.source)), list(cells(fact.target))
        aligned = [cell.leaves for cell in before] == [cell.leaves for cell in after]
        pairs = list(zip(before, after, strict=True)) if aligned else [(a, b) for a in before for b in after]
        ends = (fact.source, fact.target)
    for a, b in pairs:
        first, second = (id(ends[0]), a.key), (id(ends[1]), b.key)
        demands[first].add(second)
        demands[second].add(first)


def _overlap(cell: Cell, places: list[Place]) -> bool:
    return all(term.place.meets(place) for term, place in zip(cell.terms, places, strict=True))


def _variables(value: Value) -> list[Variable]:
    return [(id(value), cell.key) for cell in cells(value)]
