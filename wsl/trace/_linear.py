"""Axes that meet only linear operators, along which any invertible matrix may act.

Where the neurons of an axis are only ever summed against other copies of the axis, added to alike ones and
moved, a change of their basis leaves the function unchanged: ``W2 W1 = (W2 inv(M)) (M W1)``. So it is for the
ranks of LoRA, the inner dimension of values and of queries and keys of attention, the projection of an LSTM.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

Place = TypeVar("Place", bound=Hashable)


class LinearPattern(Generic[Place]):
    """How ``GL(n)`` acts on the occurrences of one axis, as far as the facts say.

    An occurrence is transformed by ``M`` or by ``inverse(M).T``. Operators that keep the axis tie occurrences
    that are transformed alike, contractions tie such that are transformed inversely; a signed union-find
    keeps both. Any other operator on the axis breaks the pattern: the group would act trivially there.
    """

    def __init__(self) -> None:
        self.broken = False
        self._parents: dict[Place, tuple[Place, int]] = {}

    def tie(self, a: Place, b: Place, sign: int = 1) -> None:
        """Two occurrences are transformed alike (``sign`` 1) or inversely (-1)."""
        if self.broken:
            return
        (root_a, sign_a), (root_b, sign_b) = self._find(a), self._find(b)
        if root_a != root_b:
            self._parents[root_a] = (root_b, sign * sign_a * sign_b)
        elif sign_a != sign * sign_b:
            self.broken = True

    def powers(self, occurrences: Sequence[Place]) -> dict[Place, int] | None:
        """The power of ``M``, 1 or -1, at each occurrence, 1 at the first; ``None`` if no one matrix acts."""
        if self.broken or not occurrences:
            return None
        found = {occurrence: self._find(occurrence) for occurrence in occurrences}
        root, first = found[occurrences[0]]
        if any(other != root for other, _ in found.values()):
            return None
        return {occurrence: first * sign for occurrence, (_, sign) in found.items()}

    def _find(self, occurrence: Place) -> tuple[Place, int]:
        sign = 1
        path = []
        while (step := self._parents.get(occurrence)) is not None:
            path.append(occurrence)
            occurrence = step[0]
        for passed in reversed(path):  # from the root downwards, so that parents are shortened first
            sign *= self._parents[passed][1]
            self._parents[passed] = (occurrence, sign)
        return occurrence, sign
