"""Provisional node sets, one for each cell that an operator computes, before equal ones are merged."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Literal, NamedTuple

from wsl.trace._topology_cells import AxisTuple

# origin: inputs; contract: new neurons, from a weight; affine: weights at each neuron; sum: of several
# nodes; choice: one of several, at different positions; function: without a name; apply: with a name.
Kind = Literal["origin", "contract", "affine", "sum", "choice", "function", "apply", "product"]
LINEAR: tuple[Kind, ...] = ("contract", "affine", "sum", "choice")


class Origin(NamedTuple):
    """What made a node set; equal where one line runs again."""

    operator: str
    module: Hashable
    line: Hashable


class Entry(NamedTuple):
    """One edge into a provisional node set.

    Attributes:
        source: where it comes from; ``None`` if a block belongs to the node set itself.
        block: key of the block; ``None`` for an identity.
        ends: one letter for each neuron dimension of the block.
        place: position of the source among the operands.
        dormant: the weights met nothing but zeros, such as the initial state of a recurrence.
    """

    source: Node | None
    block: str | None = None
    ends: str = ""
    place: int = 0
    dormant: bool = False


class Node:
    """A provisional node set; a member of a union-find forest.

    Args:
        kind: what computes it.
        axes: of its neurons.
        activation: the non-linearity, if it has a name.
        origin: the operator, the module that ran it, and its line in the code.
        order: counts nodes in the order of the forward pass.
    """

    __slots__ = ("activation", "axes", "entries", "is_output", "kind", "order", "origin", "parent")

    def __init__(
        self, kind: Kind, axes: AxisTuple, activation: str | None, origin: Origin, order: int
    ) -> None:
        self.kind: Kind = kind
        self.axes = axes
        self.activation = activation
        self.origin = origin
        self.order = order
        self.entries: dict[Entry, None] = {}
        self.is_output = False
        self.parent: Node | None = None

    @property
    def root(self) -> Node:
        """The node that this one has been merged into."""
        node = self
        while node.parent is not None:
            if node.parent.parent is not None:
                node.parent = node.parent.parent
            node = node.parent
        return node

    @property
    def blocks(self) -> frozenset[str]:
        """The keys of all blocks on edges into the node set."""
        return frozenset(entry.block for entry in self.entries if entry.block is not None)

    @property
    def identities(self) -> set[Node]:
        """The node sets that identity edges come from."""
        return {entry.source.root for entry in self.entries if entry.source and entry.block is None}

    @property
    def is_map(self) -> bool:
        """Whether it is another node set times or plus weights at each neuron; or zeros are."""
        return self.kind == "affine" and any(
            entry.block is None or (entry.dormant and "?" not in entry.ends) for entry in self.entries
        )

    @property
    def is_linear(self) -> bool:
        """Whether nothing but weights and sums has been applied since the last non-linearity."""
        return self.activation is None and self.kind in LINEAR

    def join(self, other: Node) -> Node:
        """Merge two roots; the later one becomes part of the earlier one, which is returned."""
        first, second = (self, other) if self.order <= other.order else (other, self)
        if first is not second:
            if first.kind == "affine":
                first.kind, first.activation = second.kind, second.activation
            second.parent = first
            first.entries |= second.entries
            first.is_output |= second.is_output
            second.entries = {}
        return first

    def drop_identities(self, source: Node) -> None:
        """Remove identity edges from ``source``."""
        self.entries = {
            entry: None
            for entry in self.entries
            if entry.block is not None or entry.source is None or entry.source.root is not source.root
        }


def settle(nodes: Iterable[Node]) -> list[Node]:
    """The roots in order, with edges that name roots."""
    roots = sorted(dict.fromkeys(node.root for node in nodes), key=lambda node: node.order)
    for root in roots:
        root.entries = dict.fromkeys(map(_settled, root.entries))
    return roots


def _settled(entry: Entry) -> Entry:
    moved = entry.source is not None and entry.source.parent is not None
    return entry._replace(source=entry.source.root) if moved and entry.source else entry


def consumers_of(nodes: Iterable[Node]) -> dict[Node, list[tuple[Node, Entry]]]:
    """For every root the edges that leave it."""
    found: dict[Node, list[tuple[Node, Entry]]] = {}
    for node in nodes:
        for entry in node.entries:
            if entry.source is not None:
                found.setdefault(entry.source.root, []).append((node, entry))
    return found
