"""What a cell of a value holds, and which dims of the values of a fact are indexed together."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from wsl.trace._topology_build import Letters
from wsl.trace._topology_cells import AxisTuple, NeuronCell
from wsl.trace._topology_nodes import Node
from wsl.trace._topology_weights import Strand, Weave


class Plain(enum.Enum):
    """Cells without weights or neurons: numbers; zeros; what inputs alone determine."""

    CONSTANT = enum.auto()
    ZERO = enum.auto()
    INPUT = enum.auto()


Content = Plain | Weave | Node


class Term(NamedTuple):
    """One operand in a joint cell, and its position among the operands."""

    place: int
    content: Content
    cell: NeuronCell


class Labels:
    """Which dims of the operands and the output of a fact are indexed together.

    Args:
        shapes: of operands and output.
        labels: of their dims; those of size 1 that are broadcast lose theirs.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], labels: Sequence[tuple[Hashable, ...]]) -> None:
        sizes: dict[Hashable, int] = {}
        for shape, own in zip(shapes, labels, strict=True):
            for label, size in zip(own, shape, strict=True):
                sizes[label] = max(sizes.get(label, 1), size)
        *self.operands, self.out = [
            tuple(
                label if label is not None and size == sizes[label] else None
                for label, size in zip(own, shape, strict=True)
            )
            for shape, own in zip(shapes, labels, strict=True)
        ]
        self.aligned = [
            {
                i: self.out.index(label)
                for i, label in enumerate(labels)
                if label in self.out and label is not None
            }
            for labels in self.operands
        ]

    def letter(self, place: int, dim: int, source: int | None) -> str | None:
        """The letter of a dim of operand ``place``, a weight, on an edge from operand ``source``."""
        label = self.operands[place][dim]
        if label is None:
            return None
        at_target = label in self.out
        at_source = source is not None and label in self.operands[source]
        return "b" if at_target and at_source else "t" if at_target else "s" if at_source else None

    def letters(self, term: Term, strand: Strand, source: int | None) -> Letters:
        """A letter for each neuron dimension of a strand of ``term``."""
        return tuple(
            None if place is None else self.letter(term.place, place[0], source) for place in strand.places
        )

    def is_elementwise(self, term: Term, source: int) -> bool:
        """Whether a weight has one entry for each index of its dims in source and output alike."""
        return all(
            self.letter(term.place, dim, source) == "b"
            for dim, of in enumerate(term.cell.terms)
            if of.span.size > 1 or any(term.cell.names[dim])
        )


def same_axes(a: AxisTuple, b: AxisTuple) -> bool:
    """Whether two cells have the same neurons, in whatever order."""
    return a == b or sorted(a) == sorted(b)


def operator_word(operator: str) -> str | None:
    """The name of an operator as that of an activation, which may not be called like a kind of scaling."""
    word = operator.rpartition("::")[2].strip("_").replace(".", "_")
    word = "signum" if word == "sign" else word
    return word if word.isidentifier() else None
