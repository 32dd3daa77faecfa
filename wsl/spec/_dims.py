"""Expressions of stored dimensions, and the products of axes that they fall into when multiplied out."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Union

Factor = Union[str, int, "Dim"]
Term = tuple[Factor, ...]
Dim = tuple[Term, ...]


class Piece(NamedTuple):
    """A product of axes within a stored dimension.

    Args:
        start: its first index.
        factors: names of axes, and anonymous sizes; outermost first.
        sizes: of the factors.
        strides: how many indices of the dimension a step along each factor is.
    """

    start: int
    factors: tuple[str | int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def stop(self) -> int:
        """The index after its last one."""
        return (
            self.start
            + 1
            + sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))
        )


def pieces(dim: Dim, size: Callable[[str | int], int]) -> tuple[list[Piece], int]:
    """Multiply ``dim`` out, in order; ``h (a + b)`` falls into ``h a`` and ``h b``, whose indices alternate.

    Args:
        size: the size of a factor that is no sum.

    Returns:
        The pieces, and the size of the dimension.
    """
    found: list[Piece] = []
    start = 0
    for term in dim:
        products, total = _multiplied(term, size)
        found += [piece._replace(start=start + piece.start) for piece in products]
        start += total
    return found, start


def _multiplied(term: Term, size: Callable[[str | int], int]) -> tuple[list[Piece], int]:
    found = [Piece(0, (), (), ())]
    stride = 1
    for factor in reversed(term):
        if isinstance(factor, tuple):
            heads, total = pieces(factor, size)
        else:
            total = size(factor)
            heads = [Piece(0, (factor,), (total,), (1,))]
        found = [
            Piece(
                head.start * stride + tail.start,
                head.factors + tail.factors,
                head.sizes + tail.sizes,
                (*(step * stride for step in head.strides), *tail.strides),
            )
            for head, tail in itertools.product(heads, found)
        ]
        stride *= total
    return found, stride


def products(dim: Dim) -> list[tuple[str | int, ...]]:
    """The factors of the products that ``dim`` falls into, in order."""
    return [piece.factors for piece in pieces(dim, lambda _: 1)[0]]


def factors_of(dim: Dim) -> Iterator[str | int]:
    """The names and sizes that ``dim`` is written with, in order, with repetitions."""
    for term in dim:
        for factor in term:
            if isinstance(factor, tuple):
                yield from factors_of(factor)
            else:
                yield factor


def dim_from_lists(terms: Iterable[Iterable[object]]) -> Dim:
    """The dim whose tuples were written as lists."""
    return tuple(
        tuple(dim_from_lists(factor) if isinstance(factor, (list, tuple)) else factor for factor in term)  # type: ignore[misc]
        for term in terms
    )
