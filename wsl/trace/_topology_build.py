"""Making provisional node sets and the edges between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from wsl.trace._topology_cells import AxisTuple
from wsl.trace._topology_nodes import Entry, Kind, Node, Origin
from wsl.trace._topology_weights import Strand

Letters = tuple[str | None, ...]


class Builder:
    """Collects provisional node sets in the order of the forward pass."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.operator = ""
        self._origin = Origin("", None, None)
        self._inputs: dict[AxisTuple, Node] = {}
        self._dormant: list[tuple[Node, Strand, Letters]] = []

    def begin(self, origin: Origin) -> None:
        """From now on nodes are made by the operator ``origin``."""
        self.operator = origin.operator
        self._origin = origin

    def node(
        self, kind: Kind, axes: AxisTuple, activation: str | None = None, before: Node | None = None
    ) -> Node:
        """A new node set; it comes ahead of ``before`` in the forward pass, if that is given."""
        order = 2 * len(self.nodes) if before is None else before.order - 1
        node = Node(kind, axes, activation, self._origin, order)
        self.nodes.append(node)
        return node

    def inputs(self, axes: AxisTuple, before: Node | None = None) -> Node:
        """The input nodes with these axes; those of an index are its possible values."""
        if axes not in self._inputs:
            self._inputs[axes] = self.node("origin", axes, before=before)
        return self._inputs[axes]

    def identity(self, source: Node, target: Node, place: int = 0) -> None:
        """Connect ``source`` to ``target`` without weights."""
        if source is not target:
            target.entries[Entry(source, place=place)] = None

    def connect(
        self, source: Node | None, target: Node, strands: Sequence[tuple[Strand, Letters]], place: int = 0
    ) -> None:
        """Connect two node sets by weights.

        What a product of weights sums over becomes a node set in between: the rank of a low-rank update,
        the values of an index into an embedding.

        Args:
            source: ``None`` if the weights belong to the target itself.
            strands: with a letter for each neuron dimension, as in :class:`wsl.spec.Edge`; ``None`` where
                the weights are summed over it.
        """
        alive = [(strand, letters) for strand, letters in strands if not strand.dormant]
        for strand, given in strands:
            if strand.dormant:
                self._dormant.append((target, strand._replace(dormant=False), given))
                ends = "".join(letter or "?" for letter in given)
                target.entries[Entry(None, strand.block, ends, dormant=True)] = None
        lost = Counter(
            axis
            for strand, letters in alive
            for axis in {a for a, letter in zip(strand.axes, letters, strict=True) if letter is None}
        )
        paired = {axis for axis, count in lost.items() if count > 1}
        known = [(strand, _ends(source, target, strand.axes, letters, paired)) for strand, letters in alive]
        reaches = any("s" in ends or "b" in ends for _, ends in known)
        inner: dict[AxisTuple, Node] = {}
        for strand, text in sorted(known, key=lambda item: "t" in item[1]):
            if "?" in text:
                self._pass_through(source, target, strand, text, inner, place)
            elif source is None or (reaches and not set(text) & set("sb")):
                target.entries[Entry(None, strand.block, text)] = None
            else:
                target.entries[Entry(source, strand.block, text, place)] = None
        for node in inner.values():
            if node.kind != "origin" and not any(entry.source is node for entry in target.entries):
                self.identity(node, target)

    def wake(self) -> None:
        """Connect weights that met nothing but zeros, unless they meet something elsewhere."""
        used = {entry.block for node in self.nodes for entry in node.entries if not entry.dormant}
        for target, strand, letters in self._dormant:
            if strand.block not in used:
                self.connect(None, target.root, [(strand, letters)])
        for node in self.nodes:
            node.entries = {entry: None for entry in node.entries if not entry.dormant}

    def _pass_through(
        self,
        source: Node | None,
        target: Node,
        strand: Strand,
        text: str,
        inner: dict[AxisTuple, Node],
        place: int,
    ) -> None:
        """Lead a strand whose dims ``?`` lie on neither end by a node set in between."""
        from_source = source is not None and ("s" in text or ("b" in text and "t" not in text))
        both = from_source and "t" in text
        wanted = {"?", "b"} | ({"t"} if both else set())
        axes = tuple(axis for axis, letter in zip(strand.axes, text, strict=True) if letter in wanted)
        key = tuple(sorted(axes))
        if from_source or "t" not in text:
            if key not in inner or inner[key].kind == "origin":
                inner[key] = self.node("contract", axes, before=target)
            ends = text.replace("?", "t")
            entry = Entry(source if from_source else None, strand.block, ends, place)
            inner[key].entries[entry if from_source else entry._replace(ends="t" * len(ends))] = None
            return
        if key not in inner:
            inner[key] = self.inputs(axes, before=target)
        target.entries[Entry(inner[key], strand.block, text.replace("?", "s"), place)] = None


def _ends(source: Node | None, target: Node, axes: AxisTuple, letters: Letters, paired: Iterable[str]) -> str:
    """Letters that fit the axes of both ends; ``?`` where neither has the axis."""
    at_target, at_source = Counter(target.axes), Counter(source.axes if source else ())
    ends: list[str | None] = []
    for axis, letter in zip(axes, letters, strict=True):
        if letter == "b" and not at_source[axis]:
            letter = "t"
        sides = {"t": (at_target,), "s": (at_source,), "b": (at_target, at_source)}.get(letter or "", ())
        if not sides or any(not side[axis] for side in sides):
            ends.append(None)
            continue
        ends.append(letter)
        for side in sides:
            side[axis] -= 1
    for i, axis in enumerate(axes):
        if ends[i] is None and axis not in paired:
            for letter, side in (("t", at_target), ("s", at_source)):
                if side[axis]:
                    ends[i] = letter
                    side[axis] -= 1
                    break
    return "".join(letter or "?" for letter in ends)
