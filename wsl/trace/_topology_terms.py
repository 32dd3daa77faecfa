"""The terms of a dim, those of concatenations within products included."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from wsl.trace._axes import AxisVariable, Concatenation, Dim, Factor, leaves, resolve, size_of
from wsl.trace._cells import Place


class Span(NamedTuple):
    """The indices ``i`` from ``start`` to ``stop`` with ``low <= (i - start) % period < high``."""

    start: int
    stop: int
    low: int
    high: int
    period: int

    @classmethod
    def range(cls, start: int, stop: int) -> Span:
        """All indices from ``start`` to ``stop``."""
        return cls(start, stop, 0, stop - start, stop - start)

    @classmethod
    def of(cls, place: Place) -> Span:
        """The span of a place; of one that alternates within its runs, with what lies in between."""
        (count, period), *inner = place.runs or ((1, 1),)
        high = place._replace(runs=tuple(inner)).stop - place.start
        return cls(place.start, place.start + count * period, 0, high, period)

    @property
    def size(self) -> int:
        """How many indices there are."""
        return (self.stop - self.start) // max(self.period, 1) * (self.high - self.low)

    def meets(self, other: Span, shift: int = 0) -> bool:
        """Whether ``other`` holds an index of this span, moved by ``shift``."""
        if self.start + shift >= other.stop or other.start >= self.stop + shift:
            return False
        first, second = self.start + self.low + shift, other.start + other.low
        whole = self.high - self.low == self.period and other.high - other.low == other.period
        return whole or other._holds(first) or self._holds(second - shift)

    def _holds(self, index: int) -> bool:
        inside = self.start <= index < self.stop
        return inside and self.low <= (index - self.start) % self.period < self.high


class NeuronTerm(NamedTuple):
    """A part of a dim in which every index runs over leaves."""

    span: Span
    leaves: tuple[AxisVariable, ...]


class _Product(NamedTuple):
    leaves: tuple[AxisVariable, ...]
    low: int
    high: int
    period: int


def neuron_terms(dim: Dim, joined: Container[Dim]) -> tuple[NeuronTerm, ...]:
    """The terms of ``dim``: ``t [a + b]`` has the terms ``t a`` and ``t b``, whose indices alternate.

    Args:
        joined: concatenations that are one axis within products.
    """
    resolved = resolve(dim)
    head = resolved[0] if resolved else None
    parts = head.terms if isinstance(head, Concatenation) and len(resolved) == 1 else (resolved,)
    terms = []
    start = 0
    for part in parts:
        stop = start + size_of(part)
        for product in _products(part, joined):
            period = min(product.period, stop - start)
            terms.append(NeuronTerm(Span(start, stop, product.low, product.high, period), product.leaves))
        start = stop
    return tuple(terms)


def _products(factors: Sequence[Factor], joined: Container[Dim]) -> list[_Product]:
    """A product multiplied out."""
    if not factors:
        return [_Product((), 0, 1, 1)]
    head, tail = factors[0], _products(factors[1:], joined)
    size = size_of(tuple(factors[1:]))
    if isinstance(head, Concatenation) and (head,) not in joined:
        found = []
        low = 0
        for term in head.terms:
            high = low + size_of(term)
            found += [
                _Product((*inner.leaves, *outer.leaves), low * size, high * size, head.size * size)
                for inner in _products(resolve(term), joined)
                for outer in tail
            ]
            low = high
        return found
    own = (head,) if isinstance(head, AxisVariable) else tuple(leaves((head,)))
    whole = len(tail) == 1 and tail[0].high - tail[0].low == tail[0].period
    if whole:
        return [_Product((*own, *tail[0].leaves), 0, head.size * size, head.size * size)]
    return [product._replace(leaves=(*own, *product.leaves)) for product in tail]
