"""Null spaces of sparse linear systems, over the rationals and over GF(2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

V = TypeVar("V", bound=Hashable)
Row = dict[V, Fraction]


def solutions(
    rows: Iterable[Mapping[V, Fraction]], wanted: Sequence[V], *, mod2: bool = False
) -> list[dict[V, int]]:
    """A basis of the solutions, restricted to the ``wanted`` unknowns.

    Args:
        rows: equations; each says that a linear combination of unknowns is zero.
        wanted: the unknowns to solve for; the earlier ones are chosen freely, the later ones follow.
        mod2: solve over GF(2) instead of the rationals.

    Returns:
        Integer vectors in reduced echelon form, each as a mapping of the wanted unknowns that are not zero.
    """
    reduce = (lambda c: c % 2) if mod2 else (lambda c: c)
    rank = {unknown: i for i, unknown in enumerate(wanted)}
    pivots: dict[V, Row[V]] = {}
    for equation in rows:
        row = _clean(equation, reduce)
        while hit := next((unknown for unknown in row if unknown in pivots), None):
            row = _subtract(row, pivots[hit], row[hit], reduce)
        if row:
            # Unknowns that are not wanted go first, so that equations among the wanted ones remain.
            pivot = max(row, key=lambda unknown: math.inf if unknown not in rank else rank[unknown])
            pivots[pivot] = _clean({u: c / row[pivot] for u, c in row.items()}, reduce)
    kept = {unknown: row for unknown, row in pivots.items() if unknown in rank}
    for pivot in reversed(kept):  # later pivots may occur in earlier rows
        for other in kept:
            if other != pivot and pivot in kept[other]:
                kept[other] = _subtract(kept[other], kept[pivot], kept[other][pivot], reduce)
    basis = []
    for free in wanted:
        if free in kept:
            continue
        vector = {free: Fraction(1)}
        vector.update({u: reduce(-kept[u][free]) for u in wanted if u in kept and free in kept[u]})
        scale = math.lcm(*(c.denominator for c in vector.values()))
        basis.append({u: int(vector[u] * scale) for u in wanted if u in vector})
    return basis


def _clean(row: Mapping[V, Fraction], reduce: Callable[[Fraction], Fraction]) -> Row[V]:
    reduced = {unknown: reduce(Fraction(c)) for unknown, c in row.items()}
    return {unknown: c for unknown, c in reduced.items() if c}


def _subtract(row: Row[V], other: Row[V], factor: Fraction, reduce: Callable[[Fraction], Fraction]) -> Row[V]:
    result = dict(row)
    for unknown, c in other.items():
        result[unknown] = result.get(unknown, Fraction(0)) - factor * c
    return _clean(result, reduce)
