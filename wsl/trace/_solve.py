"""Null spaces of sparse linear systems, over the rationals and over GF(2)."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
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
        Integer vectors without a common divisor and with few entries, each as a mapping of the wanted
        unknowns that are not zero.

    Cost: nearly all equations say that two unknowns are equal; a union-find settles these in about linear
    time, and only the others are eliminated.
    """
    classes, rest = _merge_equal(rows, mod2)
    members: defaultdict[V, list[V]] = defaultdict(list)
    for unknown in wanted:
        members[_find(classes, unknown)].append(unknown)
    kept = _eliminate(rest, {root: i for i, root in enumerate(members)}, mod2)
    basis = []
    for free in (root for root in members if root not in kept):
        vector = _vector(free, list(members), kept, mod2)
        spread = {unknown: value for root, value in vector.items() for unknown in members[root]}
        basis.append({unknown: spread[unknown] for unknown in wanted if unknown in spread})
    return _thinned(basis, wanted, mod2)


def independent(known: Iterable[Mapping[V, int]], vector: Mapping[V, int], *, mod2: bool = False) -> bool:
    """Whether ``vector`` is no linear combination of the ``known`` ones."""
    rows = [_reduced(row, mod2) for row in known]
    return len(_echelon([*rows, _reduced(vector, mod2)], {}, mod2)) > len(_echelon(rows, {}, mod2))


def _merge_equal(rows: Iterable[Mapping[V, Number]], mod2: bool) -> tuple[dict[V, V], list[Row[V]]]:
    """A union-find forest of the unknowns that equations make equal, and the other equations in its roots."""
    parents: dict[V, V] = {}
    rest: list[Row[V]] = []
    for equation in rows:
        row = _reduced(equation, mod2)
        if len(row) == 2 and (mod2 or sum(row.values()) == 0):
            a, b = (_find(parents, unknown) for unknown in row)
            if a != b:
                parents[a] = b
        elif row:
            rest.append(row)
    merged = []
    for row in rest:
        total: defaultdict[V, Number] = defaultdict(int)
        for unknown, c in row.items():
            total[_find(parents, unknown)] += c
        merged.append(_reduced(total, mod2))
    return parents, merged


def _find(parents: dict[V, V], unknown: V) -> V:
    while (parent := parents.get(unknown)) is not None:
        if (grandparent := parents.get(parent)) is not None:
            parents[unknown] = grandparent
        unknown = parent
    return unknown


def _echelon(rows: Iterable[Row[V]], rank: Mapping[V, int], mod2: bool) -> dict[V, Row[V]]:
    """Independent equations with the same solutions, by the unknown that each one settles.

    Unknowns without a rank are settled first, and those of high rank before those of low rank.
    """
    pivots: dict[V, Row[V]] = {}
    for row in sorted(rows, key=len):
        while hits := row.keys() & pivots.keys():
            hit = hits.pop()
            row = _subtract(row, pivots[hit], row[hit], mod2)
        if row:
            pivot = max(row, key=lambda unknown: rank.get(unknown, math.inf))
            pivots[pivot] = {unknown: _quotient(c, row[pivot]) for unknown, c in row.items()}
    return pivots


def _eliminate(rows: Iterable[Row[V]], rank: Mapping[V, int], mod2: bool) -> dict[V, Row[V]]:
    """Equations among the ranked unknowns, each in one settled unknown and free ones."""
    kept = {unknown: row for unknown, row in _echelon(rows, rank, mod2).items() if unknown in rank}
    for pivot in reversed(kept):  # later pivots may occur in earlier rows
        for other in kept:
            if other != pivot and pivot in kept[other]:
                kept[other] = _subtract(kept[other], kept[pivot], kept[other][pivot], mod2)
    return kept


def _vector(free: V, wanted: Sequence[V], kept: Mapping[V, Row[V]], mod2: bool) -> dict[V, int]:
    """The solution in which ``free`` is 1 and every other free unknown is 0, scaled to integers."""
    vector: Row[V] = {free: 1}
    vector.update({u: kept[u][free] if mod2 else -kept[u][free] for u in wanted if free in kept.get(u, {})})
    scale = math.lcm(*(Fraction(c).denominator for c in vector.values()))
    return {unknown: int(value * scale) for unknown, value in vector.items()}


def _thinned(basis: list[dict[V, int]], wanted: Sequence[V], mod2: bool) -> list[dict[V, int]]:
    """Add or subtract vectors from one another as long as that leaves fewer entries."""
    changed = True
    while changed:
        changed = False
        for i, j in itertools.permutations(range(len(basis)), 2):
            for factor in (1,) if mod2 else (1, -1):
                thinner = _subtract(basis[i], basis[j], factor, mod2)
                if len(thinner) < len(basis[i]):
                    divisor = math.gcd(*map(int, thinner.values()))
                    basis[i] = {u: int(thinner[u]) // divisor for u in wanted if u in thinner}
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


def _reduced(row: Mapping[V, Number], mod2: bool) -> Row[V]:
    """``row`` without zeros, and modulo 2."""
    return {u: c % 2 if mod2 else c for u, c in row.items() if (c % 2 if mod2 else c)}


def _quotient(a: Number, b: Number) -> Number:
    return a * b if b in (1, -1) else Fraction(a) / b
