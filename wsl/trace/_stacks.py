"""Stacks: tensors whose slices along one dimension lie on axes of their own.

Queries, keys and values are often slices of one view ``(batch, token, 3, head, inner)``; the last states of a
recurrent network come back as one tensor ``(layer, batch, hidden)``. As one value their slices would have to
share all axes. Operators that only move entries therefore act on the slices; whatever else reads a stack
collapses it into one value (:meth:`wsl.trace._recorder.Recorder.value`).

A view that splits an axis tells nobody that its slices will be taken apart. So the first run remembers where
axes were split, and which of their parts were indexed later, be it the outer one or one in the middle; a
second run makes a stack at these sites. A site where the stack collapsed after all is given up. A stack is
sound wherever it is made, so that runs need not agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wsl.trace._axes import Dim, leaves, resolve
from wsl.trace._facts import Constancy, Value


class Site(NamedTuple):
    """Where a view splits an axis: the operator's position in the run, and a dim that it makes.

    The innermost of these dims is no site.
    """

    operator: int
    dim: int


class Stack:
    """The value of a tensor, slice by slice.

    Args:
        dim: the dimension of the tensor that counts the slices.
        slices: a value for each index, without that dimension.
        site: the view that made the stack, if a view did.
    """

    __slots__ = ("dim", "site", "slices")

    def __init__(self, dim: int, slices: Sequence[Value], site: Site | None = None) -> None:
        self.dim = dim
        self.slices = tuple(slices)
        self.site = site

    @property
    def constancy(self) -> Constancy | None:
        """What all slices are, if they are the same."""
        kinds = {value.constancy for value in self.slices}
        return kinds.pop() if len(kinds) == 1 else None

    @property
    def weight(self) -> bool:
        """Whether the slices depend on nothing but parameters and constants."""
        made = [value for value in self.slices if value.constancy not in ("zero", "constant")]
        return bool(made) and all(value.weight for value in made)


class Sites:
    """The views that split an axis, and those of whose parts one was indexed later.

    Args:
        stacked: sites of which a stack is made in this run.
    """

    def __init__(self, stacked: frozenset[Site]) -> None:
        self.stacked = stacked
        self.indexed: set[Site] = set()
        self.collapsed: set[Site] = set()
        self._splits: list[tuple[Dim, Site]] = []
        self._middle: list[Dim] = []

    def split(self, parts: Sequence[Dim], sites: Sequence[Site]) -> None:
        """Remember that a view split an axis into ``parts``, outer ones first, at ``sites``."""
        self._splits += list(zip(parts[:-1], sites, strict=False))
        self._middle += parts[1:-1]

    def in_the_middle(self, dim: Dim) -> bool:
        """Whether ``dim`` lies between others that a view split off, as the 3 in ``(head, 3, inner)``.

        Where no stack is made of it, its indices are not set apart from one another.
        """
        found = resolve(dim)
        return any(resolve(middle) == found for middle in self._middle)

    def index(self, dim: Dim) -> None:
        """Note that single indices of ``dim`` are taken."""
        if any(reason.kind != "operator" for leaf in leaves(dim) for reason in leaf.reasons):
            return  # inputs and positions stay fixed whatever becomes of views
        found = resolve(dim)
        self.indexed.update(site for part, site in self._splits if resolve(part) == found)

    def following(self) -> frozenset[Site]:
        """The sites to make stacks of in the next run; the same as in this one if nothing new was found."""
        return frozenset((self.stacked | self.indexed) - self.collapsed)
