"""Which neuron cells of the values of a fact belong together."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from wsl.trace._facts import Add, Apply, Cut, Fact, Multiply, Rearrange, Value, operands_of
from wsl.trace._topology_cells import CellKey, Layout, Layouts
from wsl.trace._topology_content import Labels

Pairs = list[tuple[CellKey, CellKey]]


class Joint(NamedTuple):
    """The labels of a fact, and for each cell of its output the cells of the operands that enter it."""

    labels: Labels
    entering: dict[CellKey, list[tuple[CellKey, ...]]]


class Joints:
    """Computes what belongs together once for all facts of equal dims and labels, such as time steps."""

    def __init__(self, layouts: Layouts) -> None:
        self._layouts = layouts
        self._joints: dict[Hashable, Joint] = {}
        self._pairs: dict[Hashable, Pairs] = {}

    def joint(self, fact: Multiply | Add | Apply) -> Joint:
        """The cells of operands and output that are indexed together."""
        operands = operands_of(fact)
        layouts = [self._layouts[operand.value] for operand in operands]
        labels = tuple(operand.labels for operand in operands)
        key = (tuple(map(id, layouts)), labels)
        if key not in self._joints:
            self._joints[key] = _joint(layouts, Labels([layout.shape for layout in layouts], labels))
        return self._joints[key]

    def pairs(self, fact: Fact, source: Value, target: Value) -> Pairs:
        """The cells of two values of a fact that share entries."""
        if isinstance(fact, (Multiply, Add, Apply)):
            turned = operands_of(fact)[0].value is not source
            found = [(a, b) for b, entering in self.joint(fact).entering.items() for (a,) in entering]
            return [(b, a) for a, b in found] if turned else found
        before, after = self._layouts[source], self._layouts[target]
        dim, shift = None, 0
        if isinstance(fact, Cut):
            dim, shift = fact.dim, fact.start if source is fact.part else -fact.start
        key = (id(before), id(after), dim, shift)
        if key not in self._pairs:
            pairs = _viewed(before, after) if isinstance(fact, Rearrange) else _cut(before, after, dim, shift)
            self._pairs[key] = list(pairs)
        return self._pairs[key]


def _joint(layouts: list[Layout], labels: Labels) -> Joint:
    """Terms of equal labels go together if they begin and end at the same indices; else all do."""
    every = [*labels.operands, labels.out]
    cuts: dict[Hashable, set[object]] = {}
    for layout, own in zip(layouts, every, strict=True):
        for label, spans in zip(own, layout.spans, strict=True):
            if len(spans) > 1:
                cuts.setdefault(label, set()).add(spans)
    counts: dict[Hashable, int] = {}
    places: list[list[Hashable]] = []
    for p, (layout, own) in enumerate(zip(layouts, every, strict=True)):
        places.append([])
        for d, (label, spans) in enumerate(zip(own, layout.spans, strict=True)):
            alone = label is None or len(spans) == 1 or len(cuts[label]) > 1
            place = ("own", p, d) if alone else ("label", label)
            counts[place] = len(spans)
            places[-1].append(place)
    entering: dict[CellKey, dict[tuple[CellKey, ...], None]] = {}
    for chosen in itertools.product(*map(range, counts.values())):
        at = dict(zip(counts, chosen, strict=True))
        *inputs, out = [tuple(at[place] for place in here) for here in places]
        entering.setdefault(out, {})[tuple(inputs)] = None
    return Joint(labels, {out: list(inputs) for out, inputs in entering.items()})


def _cut(before: Layout, after: Layout, dim: int | None, shift: int) -> Iterator[tuple[CellKey, CellKey]]:
    """Cells of a part and of its whole that overlap, in either order."""
    along = [
        [
            (i, j)
            for i, one in enumerate(first)
            for j, other in enumerate(second)
            if one.meets(other, shift if d == dim else 0)
        ]
        for d, (first, second) in enumerate(zip(before.spans, after.spans, strict=True))
    ]
    for chosen in itertools.product(*along):
        yield tuple(i for i, _ in chosen), tuple(j for _, j in chosen)


def _viewed(before: Layout, after: Layout) -> Iterator[tuple[CellKey, CellKey]]:
    """Cells of a value and of a view of it that share entries: those of the same leaves."""
    if [cell.neurons for cell in before.cells.values()] == [cell.neurons for cell in after.cells.values()]:
        yield from zip(before.cells, after.cells, strict=True)
        return
    for a, first in before.cells.items():
        alike = [b for b, second in after.cells.items() if second.neurons == first.neurons]
        yield from ((a, b) for b in alike or after.cells)
