"""What one operator does to its operands: the facts from which the scaling symmetries are derived.

A rule states an operator once, as facts over labelled operands: dimensions with the same label are indexed
together. From labels and relation follow the exponents of a scaling (:mod:`wsl.trace._scaling`); a label that
the output lacks is contracted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from wsl.trace._axes import Dim, Reason

Parity = Literal["odd", "even"]
Constancy = Literal["zero", "constant", "input"]


class Value:
    """What is known of one traced tensor: its dims, and whether it depends on nothing but constants.

    Args:
        dims: one expression for each dimension of the tensor.
        constancy: ``zero`` for a tensor of zeros, ``constant`` for one that no input or parameter reaches,
            ``input`` for an input or a view of one.

    Attributes:
        weight: whether it is a parameter, or depends on nothing but parameters and constants.
        indexes: dims that the tensor's *values* point into (indices of a maximum), which are fixed if it is
            read, and the reason for that.
        uses: of a constant fill, which has axes of its own at every use: the values of these uses.
        is_use: whether it is the value of one use of a fill.
    """

    __slots__ = ("constancy", "dims", "indexes", "is_use", "uses", "weight")

    def __init__(
        self, dims: tuple[Dim, ...], constancy: Constancy | None = None, weight: bool = False
    ) -> None:
        self.dims = dims
        self.constancy = constancy
        self.weight = weight
        self.indexes: tuple[tuple[Dim, Reason], ...] = ()
        self.uses: list[Value] | None = None
        self.is_use = False


def derived(source: Value, dims: Iterable[Dim]) -> Value:
    """The value of a view or copy: constant, a weight or a fill if its source is."""
    out = Value(tuple(dims), source.constancy, source.weight)
    out.uses = [] if source.is_use else None
    return out


class Operand(NamedTuple):
    """A value with a label for each of its dimensions; unlabelled (``None``) ones are tied to no other."""

    value: Value
    labels: tuple[Hashable, ...]


def aligned(value: Value) -> Operand:
    """Label dimensions from the last one, as broadcasting aligns them."""
    return Operand(value, tuple(range(-len(value.dims), 0)))


@dataclass(frozen=True, slots=True)
class Multiply:
    """``out`` is linear in the product of the operands to the given powers, summed over lost labels."""

    operands: tuple[Operand, ...]
    out: Operand
    powers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Add:
    """``out`` is a linear combination of the operands, broadcast; or picks one of them at each index."""

    operands: tuple[Operand, ...]
    out: Operand


@dataclass(frozen=True, slots=True)
class Apply:
    """``out`` is a function of the operand at each index, or of its slices over lost labels.

    Args:
        degree: of positive homogeneity, ``f(s x) = s ** degree f(x)`` for ``s > 0``.
        parity: under ``x -> -x``.
        name: of the activation function, if it is one.
    """

    operand: Operand
    out: Operand
    degree: int | Fraction | None
    parity: Parity | None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Rearrange:
    """``target`` holds the entries of ``source`` in the same row-major order of indices."""

    source: Value
    target: Value


@dataclass(frozen=True, slots=True)
class Cut:
    """``part`` is the range of ``whole`` along ``dim`` that begins at ``start``."""

    part: Value
    whole: Value
    dim: int
    start: int


@dataclass(frozen=True, slots=True)
class Opaque:
    """The values may not be scaled."""

    values: tuple[Value, ...]


Fact = Multiply | Add | Apply | Rearrange | Cut | Opaque


def operands_of(fact: Multiply | Add | Apply) -> list[Operand]:
    """The operands of a labelled fact, the output last."""
    inputs = (fact.operand,) if isinstance(fact, Apply) else fact.operands
    return [*inputs, fact.out]


def values_of(fact: Fact) -> list[Value]:
    """All values that a fact is about."""
    if isinstance(fact, Opaque):
        return list(fact.values)
    if isinstance(fact, Rearrange):
        return [fact.source, fact.target]
    if isinstance(fact, Cut):
        return [fact.part, fact.whole]
    return [operand.value for operand in operands_of(fact)]


class Facts(list[Fact]):
    """The facts of one trace, in order."""

    def multiply(self, operands: Iterable[Operand], out: Operand, powers: tuple[int, ...] = ()) -> None:
        """Record a :class:`Multiply`; powers default to 1."""
        operands = tuple(operands)
        self.append(Multiply(operands, out, powers or (1,) * len(operands)))

    def add(self, operands: Iterable[Operand], out: Operand) -> None:
        """Record an :class:`Add`."""
        self.append(Add(tuple(operands), out))

    def apply(
        self,
        operand: Operand,
        out: Operand,
        degree: float | None = None,
        parity: Parity | None = None,
        name: str | None = None,
    ) -> None:
        """Record an :class:`Apply`; a degree that is no simple fraction counts as none."""
        exact: int | Fraction | None = None
        if degree is not None:
            exact = Fraction(degree).limit_denominator(64)
            exact = None if exact != degree else exact.numerator if exact.denominator == 1 else exact
        self.append(Apply(operand, out, exact, parity, name))

    def rearrange(self, source: Value, target: Value) -> None:
        """Record a :class:`Rearrange`."""
        self.append(Rearrange(source, target))

    def cut(self, part: Value, whole: Value, dim: int, start: int) -> None:
        """Record a :class:`Cut`."""
        self.append(Cut(part, whole, dim, start))

    def opaque(self, *values: Value) -> None:
        """Record an :class:`Opaque`."""
        self.append(Opaque(values))

    def same(self, a: Value, b: Value) -> None:
        """Record that two values of equal dims hold the same entries."""
        self.add([aligned(a)], aligned(b))

    def move(self, source: Value, labels: Sequence[Hashable], target: Value) -> None:
        """Record that ``target`` holds the entries of ``source``, whose dims lie at positions ``labels``."""
        out = Operand(target, tuple(range(len(target.dims))))
        self.multiply([Operand(source, tuple(labels))], out)
