"""Null spaces of sparse linear systems, over the rationals and over GF(2)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

V = TypeVar("V", bound=Hashable)
Number = int | Fraction
Row = dict[V, Number]


def solutions(
    rows: Iterable[Mapping[V, Number]], wanted: Sequence[V], *, mod2: bool = False
) -> list[dict[V, int]]:
    """A basis of the solutions, restricted to the ``wanted`` unknowns.

    Args:
        rows: equations; each says that a linear combination of unknowns is zero.
        wanted: the unknowns to solve for; the earlier ones are chosen freely, the later ones follow.
        mod2: solve over GF(2) instead of the rationals.

    Returns:
        Integer vectors with few entries, each as a mapping of the wanted unknowns that are not zero.
    """
    rank = {unknown: i for i, unknown in enumerate(wanted)}
    pivots: dict[V, Row[V]] = {}
    for equation in rows:
        row = {unknown: c % 2 if mod2 else c for unknown, c in equation.items() if not mod2 or c % 2}
        while hits := row.keys() & pivots.keys():
            hit = hits.pop()
            row = _subtract(row, pivots[hit], row[hit], mod2)
        if row:
            # Unknowns that are not wanted go first, so that equations among the wanted ones remain.
            pivot = max(row, key=lambda unknown: rank.get(unknown, math.inf))
            pivots[pivot] = {unknown: _quotient(c, row[pivot]) for unknown, c in row.items()}
    kept = {unknown: row for unknown, row in pivots.items() if unknown in rank}
    for pivot in reversed(kept):  # later pivots may occur in earlier rows
        for other in kept:
            if other != pivot and pivot in kept[other]:
                kept[other] = _subtract(kept[other], kept[pivot], kept[other][pivot], mod2)
    basis = [_vector(free, wanted, kept, mod2) for free in wanted if free not in kept]
    return _thinned(basis, wanted, mod2)


def _vector(free: V, wanted: Sequence[V], kept: Mapping[V, Row[V]], mod2: bool) -> dict[V, int]:
    """The solution in which ``free`` is 1 and every other free unknown is 0, scaled to integers."""
    vector: Row[V] = {free: 1}
    vector.update({u: kept[u][free] if mod2 else -kept[u][free] for u in wanted if free in kept.get(u, {})})
    scale = math.lcm(*(Fraction(c).denominator for c in vector.values()))
    return {unknown: int(vector[unknown] * scale) for unknown in wanted if unknown in vector}


def _thinned(basis: list[dict[V, int]], wanted: Sequence[V], mod2: bool) -> list[dict[V, int]]:
    """Add or subtract vectors from one another as long as that leaves fewer entries."""
    changed = True
    while changed:
        changed = False
        for i, j in itertools.permutations(range(len(basis)), 2):
            for factor in (1, -1):
                thinner = _subtract(basis[i], basis[j], factor, mod2)
                if len(thinner) < len(basis[i]):
                    basis[i] = {u: int(thinner[u]) for u in wanted if u in thinner}
                    changed = True
    return basis


def _subtract(row: Mapping[V, Number], other: Mapping[V, Number], factor: Number, mod2: bool) -> Row[V]:
    result = dict(row)
    for unknown, c in other.items():
        value = result.pop(unknown, 0) - factor * c
        value = value % 2 if mod2 else value
        if value:
            result[unknown] = value
    return result


def _quotient(a: Number, b: Number) -> Number:
    return a * b if b in (1, -1) else Fraction(a) / b
