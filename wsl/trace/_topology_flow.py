"""Following the facts of a trace: which node set every cell of every value belongs to."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence

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
from wsl.trace._topology_build import Builder
from wsl.trace._topology_cells import CellKey, Layouts
from wsl.trace._topology_content import Content, Plain, Term
from wsl.trace._topology_joint import Joints
from wsl.trace._topology_nodes import Node
from wsl.trace._topology_relations import depend, entangle, pass_on, relate, spin
from wsl.trace._topology_weights import Weave, regrouped, weave

Where = tuple[int, CellKey]
_CONSTANT = {"zero": Plain.ZERO, "constant": Plain.CONSTANT, "input": Plain.INPUT}


class Flow:
    """Content of every neuron cell.

    Args:
        layouts: neuron cells of values.
        builder: makes the node sets.
        contents: what the state tensors hold.
        storages: of each value by identity; writes are seen by all values of one storage.
        last_uses: for each value the last operator that reads it, as a number.
        outputs: identities of the values that the module returns.
    """

    def __init__(
        self,
        layouts: Layouts,
        builder: Builder,
        contents: Mapping[Where, Content],
        storages: Mapping[int, object],
        last_uses: Mapping[int, int],
        outputs: Collection[int],
    ) -> None:
        self.layouts = layouts
        self._joints = Joints(layouts)
        self.builder = builder
        self._contents: dict[Where, Content] = dict(contents)
        self._storages = storages
        self._last_uses = last_uses
        self._outputs = outputs
        self._known = {identity for identity, _ in contents}
        self._made: dict[int, Value] = {}
        self._links: dict[int, list[tuple[Value, Fact]]] = {}

    def content(self, value: Value, key: CellKey) -> Content:
        """What a neuron cell of ``value`` holds; nothing but constants, if no fact tells."""
        found = self._contents.get((id(value), key))
        if found is not None:
            return found
        return _CONSTANT.get(value.constancy or "", Plain.CONSTANT)

    def follow(self, number: int, facts: Sequence[Fact]) -> None:
        """Go through all facts of one operator."""
        self._made = {}
        start = len(self.builder.nodes)
        loose: dict[int, Value] = {}
        read: set[int] = set()
        for fact in facts:
            if isinstance(fact, Opaque):
                if [id(value) for value in fact.values if id(value) not in self._outputs]:
                    loose.update((id(value), value) for value in fact.values)
            else:
                read.update(id(value) for value in values_of(fact))
                self._step(fact)
        lasting = [value for value in self._made.values() if self._lasts(value, number)]
        self._place_loose(
            [value for identity, value in loose.items() if identity not in read], lasting, start
        )
        for value in self._made.values():
            if not value.weight and value.constancy is None and self._lasts(value, number):
                self.promote(value)
        self._known |= self._made.keys()

    def _lasts(self, value: Value, number: int) -> bool:
        """Whether later operators read the value, or it is an output."""
        return self._last_uses.get(id(value), 0) > number or id(value) in self._outputs

    def promote(self, value: Value) -> None:
        """Weights in a value that depends on inputs are neurons, such as a class token."""
        for key, cell in self.layouts[value].cells.items():
            content = self._contents.get((id(value), key))
            if isinstance(content, Weave):
                self._contents[id(value), key] = spin(self.builder, content, cell)

    def _step(self, fact: Fact) -> None:
        if isinstance(fact, (Multiply, Add, Apply)):
            source, target = operands_of(fact)[0].value, fact.out.value
            if len(operands_of(fact)) == 2:
                self._link(source, target, fact)
            if isinstance(fact, Add) and len(fact.operands) == 1 and id(target) in self._made:
                return self._write(target, source)
            return self._define(target, self._related(fact))
        if isinstance(fact, Rearrange):
            self._link(fact.source, fact.target, fact)
            return self._define(fact.target, self._paired(fact, fact.source, fact.target))
        if isinstance(fact, Cut):
            self._link(fact.part, fact.whole, fact)
            part_first = id(fact.whole) not in self._known and (
                fact.part.constancy is not None or id(fact.part) in self._known or id(fact.part) in self._made
            )
            source, target = (fact.part, fact.whole) if part_first else (fact.whole, fact.part)
            return self._define(target, self._paired(fact, source, target))
        return None

    def _link(self, a: Value, b: Value, fact: Fact) -> None:
        """Remember that ``fact`` moves entries; steps within an operator have no storage of their own."""
        storages = {self._storages.get(id(a)), self._storages.get(id(b))} - {None}
        if len(storages) < 2:
            self._links.setdefault(id(a), []).append((b, fact))
            self._links.setdefault(id(b), []).append((a, fact))

    def _define(self, value: Value, contents: Mapping[CellKey, Content], replace: bool = False) -> None:
        """Give cells their contents; several facts about one cell speak of different positions."""
        self._made[id(value)] = value
        for key, content in contents.items():
            where = (id(value), key)
            old = None if replace else self._contents.get(where)
            self._contents[where] = content if old is None else self._either(value, key, old, content)

    def _either(self, value: Value, key: CellKey, old: Content, new: Content) -> Content:
        """The content of a cell that holds ``old`` at some positions, and ``new`` at others."""
        if old == new or new in (Plain.CONSTANT, Plain.ZERO):
            return old
        if old in (Plain.CONSTANT, Plain.ZERO):
            return new
        if isinstance(old, Weave) and isinstance(new, Weave):
            return weave((*old.strands, *new.strands))
        cell = self.layouts[value].cells[key]
        contents = [spin(self.builder, c, cell) if isinstance(c, Weave) else c for c in (old, new)]
        contents = [c for c in contents if c is not Plain.INPUT or cell.own]
        if not contents:
            return Plain.INPUT
        if isinstance(old, Node) and old.kind == "choice" and isinstance(new, Node):
            self.builder.identity(new, old)
            return old
        return pass_on(self.builder, cell, [Term(0, c, cell) for c in contents], "choice")

    def _related(self, fact: Multiply | Add | Apply) -> dict[CellKey, Content]:
        """The contents of the output of a labelled fact."""
        *operands, out = (operand.value for operand in operands_of(fact))
        cells = [self.layouts[value].cells for value in operands]
        labels, entering = self._joints.joint(fact)
        return {
            key: relate(
                self.builder,
                fact,
                labels,
                self.layouts[out].cells[key],
                [
                    [
                        Term(p, self.content(value, k), cells[p][k])
                        for p, (value, k) in enumerate(zip(operands, keys, strict=True))
                    ]
                    for keys in combinations
                ],
            )
            for key, combinations in entering.items()
        }

    def _paired(self, fact: Fact, source: Value, target: Value) -> dict[CellKey, Content]:
        """The contents of a view, a part or a whole of ``source``."""
        before, after = self.layouts[source], self.layouts[target]
        found: dict[CellKey, dict[Content, None]] = {}
        for a, b in self._joints.pairs(fact, source, target):
            content = self.content(source, a)
            if isinstance(content, Weave):
                content = weave(
                    regrouped(strand, before.cells[a], after.cells[b]) for strand in content.strands
                )
            elif isinstance(content, Node):
                content = pass_on(self.builder, after.cells[b], [Term(0, content, before.cells[a])])
            found.setdefault(b, {})[content] = None
        return {
            key: functools.reduce(functools.partial(self._either, target, key), contents)
            for key, contents in found.items()
        }

    def _write(self, new: Value, old: Value) -> None:
        """A tensor was written to: all values in its storage see the new entries."""
        storage = self._storages.get(id(new))
        changed: list[tuple[Value, Value, Fact | None]] = [(new, old, None)]
        seen = {id(new)}
        while changed:
            source, target, fact = changed.pop()
            if id(target) in seen or self._storages.get(id(target), storage) != storage:
                continue
            seen.add(id(target))
            before, after = self.layouts[source].cells, self.layouts[target].cells
            if fact is None:
                contents = {key: self.content(source, key) for key in before.keys() & after.keys()}
                whole = set(contents)
            else:
                contents = self._paired(fact, source, target)
                pairs = self._joints.pairs(fact, source, target)
                whole = {b for a, b in pairs if before[a].entries >= after[b].entries}
            for key, content in contents.items():
                self._define(target, {key: content}, replace=key in whole)
            changed += [(target, other, link) for other, link in self._links.get(id(target), [])]

    def _place_loose(self, values: Sequence[Value], made: Sequence[Value], start: int) -> None:
        """Values of which their operator's rule says nothing: everything may depend on everything."""
        new = [
            value
            for value in values
            if id(value) not in self._known and id(value) not in self._made and value.constancy is None
        ]
        fresh = set(map(id, new))
        terms = [
            Term(p, self.content(value, key), cell)
            for p, value in enumerate(value for value in values if id(value) not in fresh)
            for key, cell in self.layouts[value].cells.items()
        ]
        for value in new:
            self._define(
                value,
                {
                    key: entangle(self.builder, cell, terms, weight=value.weight)
                    for key, cell in self.layouts[value].cells.items()
                },
            )
        if new or not any(isinstance(term.content, (Node, Weave)) for term in terms):
            return
        for value in made:
            for key, cell in self.layouts[value].cells.items():
                content = self.content(value, key)
                if isinstance(content, Node):
                    owned = content in self.builder.nodes[start:]
                    content = depend(self.builder, cell, content, terms, owned=owned)
                    self._contents[id(value), key] = content
