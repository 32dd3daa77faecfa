"""Families: which axes may be permuted independently for each index of other axes (wreath products).

A leaf R is *local* to a leaf A, which is written R over A, if every cell of every value that carries R
carries A exactly once, and no operator mixes indices of A where it keeps R. Then R may have another
permutation at every index of A: heads' inner dimensions, members of groups, hidden neurons of experts.

Why this is sound. Let every leaf R have permutations ``p_R[a, r]``, one for each combination ``a`` of
indices of the leaves that it is over. They act on a cell whose indices run over leaves ``A, R, …`` by
``new[a, r] = old[p_A[a], p_R[a, r]]``. Since the cell carries A exactly once, "the index of A" is one
number; since the action on a value follows from its dims alone, all readers of a value, its views, and a
storage that is written in place (whose labels are unified, whatever the order of writes) see one and the
same action. It remains that operators commute with the action, and that it is invertible.

* Labelled facts: the joint index set of all operands is a product of leaves as well. If it carries A
  exactly once, then the A that R sees in one operand is the A that it sees in every other, so that the
  action on an operand is the joint action, restricted. At a kept label the permutation must not depend on
  what the operator sums or mixes over: R kept, A mixed is excluded. At a contracted label it may depend
  on kept indices (the sum at each kept index is reordered) and, for sums of products, on other contracted
  ones: the map of all contracted indices together is then a bijection, because "over" has no cycles. A
  function of slices (:class:`~wsl.trace._facts.Apply`) need not be symmetric across dimensions, but its
  rule knows a dimension only as a whole and so holds for all permutations of it: R and A must then lie
  within one dimension. What lies along a label whose dims differ between operands (they were fixed, after
  a conflict) counts as occurring twice.
* Rearrangements, cuts, and functions of one index: a view has the entries of its base, so that it
  suffices that both values carry A with R. So it is with ``A [R + S]``, whose cells ``A R`` and ``A S``
  alternate: a cell need not be a range of indices.
* "Over" is transitive as defined. Where two leaves are each over the other, the one that occurs first in
  the state stays outside: the relation has no cycles. (If they always lie side by side, the complete
  group permutes all pairs. That axis was split by a ``view``, and is left so; the group is sound, and
  smaller.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable

from wsl.trace._axes import AxisVariable, leaves
from wsl.trace._cells import cells
from wsl.trace._facts import Add, Apply, Fact, Multiply, Operand, Value, operands_of, values_of
from wsl.trace._joint import Part, joint_cells

Place = Hashable


def find_families(
    facts: Iterable[Fact],
    state: Iterable[Value],
    hidden: Collection[AxisVariable],
    named: Collection[AxisVariable],
) -> dict[AxisVariable, tuple[AxisVariable, ...]]:
    """The leaves that each hidden leaf is over; leaves that are over none are left out.

    Args:
        facts: of the finished trace.
        state: values of parameters and buffers, whose order decides what is outside where both could be.
        hidden: leaves to look at.
        named: leaves that may be outside.
    """
    state = list(state)
    over = _Over(state, hidden, named)
    for fact in facts:
        if not any(over.values()):
            break
        over.judge(fact)
    order = dict.fromkeys(leaf for value in state for dim in value.dims for leaf in leaves(dim))
    rank = {leaf: i for i, leaf in enumerate(order)}
    found = {
        leaf: tuple(outer for outer in outers if leaf not in over.get(outer, ()) or rank[outer] < rank[leaf])
        for leaf, outers in over.items()
    }
    return {leaf: outers for leaf, outers in found.items() if outers}


class _Over(dict[AxisVariable, set[AxisVariable]]):
    """The leaves that each hidden leaf can still be over, after all that was judged."""

    def __init__(
        self, state: list[Value], hidden: Collection[AxisVariable], named: Collection[AxisVariable]
    ) -> None:
        self._seen: set[int] = set()
        for value in state:
            for cell in cells(value):
                found = [leaf for leaf in cell.leaves if leaf in hidden and leaf.size > 1]
                for leaf in found:
                    if leaf not in self:
                        outers = {other for other in cell.leaves if other in named and other.size > 1}
                        self[leaf] = outers - {leaf}
            self._judge_value(value)

    def judge(self, fact: Fact) -> None:
        """Drop what the fact excludes."""
        values = values_of(fact)
        touched = {leaf for value in values for dim in value.dims for leaf in leaves(dim)}
        if not any(self.get(leaf) for leaf in touched):
            return
        for value in values:
            self._judge_value(value)
        if isinstance(fact, (Multiply, Add, Apply)):
            self._judge_labels(fact, touched)
        return None

    def _forbid(self, touched: Iterable[AxisVariable]) -> None:
        for leaf in touched:
            self[leaf] = set()

    def _judge_value(self, value: Value) -> None:
        """Keep what every cell that carries a leaf carries exactly once."""
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        for cell in cells(value):
            counts = Counter(cell.leaves)
            for leaf in counts:
                if self.get(leaf):
                    self[leaf] = {outer for outer in self[leaf] if counts[outer] == 1}

    def _judge_labels(self, fact: Multiply | Add | Apply, touched: set[AxisVariable]) -> None:
        operands = operands_of(fact)
        joint = joint_cells(operands)
        if joint is None:
            return self._forbid(touched)
        kept = {label for label in operands[-1].labels if label is not None}
        summed: set[Hashable] = set()
        if isinstance(fact, Multiply):
            summed = {label for _, labels in operands for label in labels if label is not None} - kept
        for parts in joint:
            where: dict[AxisVariable, list[Place]] = {}
            for place, found in _places(parts, operands).items():
                for leaf in found:
                    where.setdefault(leaf, []).append(place)
            for leaf, inside in where.items():
                if self.get(leaf):
                    self[leaf] = {
                        outer
                        for outer in self[leaf]
                        if len(at := where.get(outer, [])) == 1
                        and all(_may_depend(place, at[0], kept, summed) for place in inside)
                    }
        return None


def _places(parts: list[Part], operands: list[Operand]) -> dict[Place, tuple[AxisVariable, ...]]:
    """The leaves at every label of a joint cell; dims that are tied to no label have places of their own.

    What the operands and the output are mixed along is one place, if it has the same leaves.
    """
    places: dict[Place, tuple[AxisVariable, ...]] = {}
    for part in parts:
        untied: Counter[Place] = Counter()
        for label, found in part.along:
            large = tuple(leaf for leaf in found if leaf.size > 1)
            if label not in operands[part.operand].labels:
                untied[large] += 1
                places["untied", large, untied[large]] = large
            elif places.setdefault(label, large) != large:
                places["conflict", label, part.operand] = (*places[label], *places[label], *large, *large)
    return places


def _may_depend(inner: Place, outer: Place, kept: set[Hashable], summed: set[Hashable]) -> bool:
    """Whether the permutation at one place of a joint cell may depend on the index at another one."""
    return inner == outer or outer in kept or (outer in summed and inner in summed)
