"""Axis variables and the algebra of dimensions: products, concatenations, and their canonical form.

A traced tensor dimension is a :data:`Dim`: an ordered product of factors, outermost first; ``()`` has size 1.
A factor is an :class:`AxisVariable` or a :class:`Concatenation` of dims. A variable is a node of a union-find
forest; it is a *leaf* until it is merged into another variable or refined into a finer expression.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

ReasonKind = Literal["input", "output", "constant", "operator", "position", "unused"]


@dataclass(frozen=True)
class Reason:
    """Why an axis may not be permuted; ``text`` names the operator and the module, or the constant."""

    kind: ReasonKind
    text: str


class AxisVariable:
    """An index set of ``size`` elements; free to be permuted as long as ``reasons`` is empty."""

    __slots__ = ("parent", "reasons", "refinement", "size")

    def __init__(self, size: int, reason: Reason | None = None) -> None:
        self.size = size
        self.parent: AxisVariable | None = None
        self.refinement: Dim | None = None
        self.reasons: dict[Reason, None] = {} if reason is None else {reason: None}

    def __repr__(self) -> str:
        return f"axis {id(self) % 9973}:{self.size}{'!' if self.reasons else ''}"


class Concatenation:
    """Dims one after another along one stored dimension."""

    __slots__ = ("terms",)

    def __init__(self, terms: Iterable[Dim]) -> None:
        self.terms = tuple(terms)

    @property
    def size(self) -> int:
        return sum(size_of(term) for term in self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Concatenation) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __repr__(self) -> str:
        return "[" + " + ".join(map(repr, self.terms)) + "]"


Factor = AxisVariable | Concatenation
Dim = tuple[Factor, ...]


def size_of(dim: Dim) -> int:
    """Number of indices of ``dim``."""
    return math.prod(factor.size for factor in dim)


def fresh(shape: Iterable[int], reason: Reason | None = None) -> tuple[Dim, ...]:
    """One new variable for each size in ``shape``; nothing for sizes of 1."""
    return tuple((AxisVariable(size, reason),) if size != 1 else () for size in shape)


def resolve(dim: Dim) -> Dim:
    """The canonical form of ``dim`` in terms of leaves: a product, or one concatenation of products.

    A leading concatenation is multiplied out: ``[a + b] h`` becomes ``[a h + b h]``.
    """
    if len(dim) == 1 and type(dim[0]) is AxisVariable:
        root = _find(dim[0])
        if root.refinement is None:
            return (root,)
    return _canonical(_flatten(dim))


def significant(dim: Dim) -> Dim:
    """:func:`resolve` without the factors of size 1."""
    return _canonical([factor for factor in _flatten(dim) if factor.size != 1])


def leaves(dim: Dim) -> Iterator[AxisVariable]:
    """The leaf variables of ``dim``, in order, with repetitions."""
    for factor in resolve(dim):
        if isinstance(factor, AxisVariable):
            yield factor
        else:
            for term in factor.terms:
                yield from leaves(term)


def is_fixed(dim: Dim) -> bool:
    """Whether no leaf of ``dim`` may be permuted."""
    return all(leaf.reasons for leaf in leaves(dim))


def fix(dim: Dim, reason: Reason) -> None:
    """Forbid permutations of every leaf of ``dim``; axes that are already fixed keep their reasons.

    Inputs and outputs are recorded on every leaf, because they decide what kind an axis is.
    """
    for leaf in leaves(dim):
        if not leaf.reasons or reason.kind in ("input", "output"):
            leaf.reasons[reason] = None


def merge(a: AxisVariable, b: AxisVariable) -> None:
    """Make the leaf ``a`` the same axis as the leaf ``b``."""
    a, b = _find(a), _find(b)
    if a is not b:
        b.reasons.update(a.reasons)
        a.parent = b


def refine(leaf: AxisVariable, dim: Dim) -> None:
    """Replace ``leaf`` by a finer expression of the same size, which inherits why it is fixed."""
    leaf.refinement = dim
    for part in leaves(dim):
        part.reasons.update(leaf.reasons)


def _find(variable: AxisVariable) -> AxisVariable:
    while variable.parent is not None:
        if variable.parent.parent is not None:
            variable.parent = variable.parent.parent
        variable = variable.parent
    return variable


def _flatten(dim: Dim) -> list[Factor]:
    factors: list[Factor] = []
    for factor in dim:
        if isinstance(factor, AxisVariable):
            root = _find(factor)
            if root.refinement is None:
                factors.append(root)
            else:
                factors += _flatten(root.refinement)
            continue
        terms: list[Dim] = []
        for term in map(resolve, factor.terms):
            terms += term[0].terms if len(term) == 1 and isinstance(term[0], Concatenation) else (term,)
        if len(terms) == 1:
            factors += terms[0]
        else:
            factors.append(Concatenation(terms))
    return factors


def _canonical(factors: list[Factor]) -> Dim:
    if len(factors) > 1:
        first = next((i for i, factor in enumerate(factors) if factor.size != 1), 0)
        head = factors[first]
        if isinstance(head, Concatenation):
            rest = tuple(factors[first + 1 :])
            return (Concatenation(resolve(term + rest) for term in head.terms),) if rest else (head,)
    return tuple(factors)
