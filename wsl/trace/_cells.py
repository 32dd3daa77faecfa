"""Dims and values multiplied out into cells: parts in which every index runs over leaves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from wsl.trace._axes import AxisVariable, Concatenation, Dim, resolve, size_of
from wsl.trace._facts import Value


class Place(NamedTuple):
    """Indices of a dim, in order: ``start`` and what steps lead to from there.

    Args:
        start: the first index.
        runs: counts and strides, outermost first; in normal form, so that equal indices have equal places.
    """

    start: int
    runs: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, start: int, sizes: Iterable[int], strides: Iterable[int]) -> Place:
        """The place of a product of ``sizes``."""
        runs: list[tuple[int, int]] = []
        for size, stride in zip(sizes, strides, strict=True):
            if runs and runs[-1][1] == size * stride:
                size *= runs.pop()[0]
            if size > 1:
                runs.append((size, stride))
        return cls(start, tuple(runs))

    @property
    def stop(self) -> int:
        """The index after the last one."""
        return self.start + 1 + sum((size - 1) * stride for size, stride in self.runs)

    def shifted(self, by: int) -> Place:
        """The place ``by`` indices further on."""
        return self._replace(start=self.start + by)

    def meets(self, other: Place) -> bool:
        """Whether an index is in both."""
        if self.start >= other.stop or other.start >= self.stop:
            return False
        if self._is_range and other._is_range:
            return True
        return self == other or bool(np.isin(self._indices(), other._indices()).any())

    @property
    def _is_range(self) -> bool:
        return not self.runs or (len(self.runs) == 1 and self.runs[0][1] == 1)

    def _indices(self) -> np.ndarray:
        found = np.array([self.start])
        for size, stride in self.runs:
            found = np.add.outer(found, np.arange(size) * stride).ravel()
        return found


class DimCell(NamedTuple):
    """One product of leaves in a dim, and where it lies."""

    place: Place
    leaves: tuple[AxisVariable, ...]


class Cell(NamedTuple):
    """One cell of a value: a product of leaves of each of its dims."""

    key: tuple[int, ...]
    terms: tuple[DimCell, ...]

    @property
    def leaves(self) -> tuple[AxisVariable, ...]:
        """All leaves in order."""
        return tuple(leaf for term in self.terms for leaf in term.leaves)


class _Product(NamedTuple):
    start: int
    leaves: tuple[AxisVariable, ...]
    strides: tuple[int, ...]


def dim_cells(dim: Dim) -> tuple[DimCell, ...]:
    """The cells of ``dim``, in order; ``h [a + b]`` has the cells ``h a`` and ``h b``, which alternate."""
    found, _ = _products(resolve(dim))
    return tuple(
        DimCell(Place.of(start, (leaf.size for leaf in leaves), strides), leaves)
        for start, leaves, strides in found
    )


def _products(dim: Dim) -> tuple[list[_Product], int]:
    """A canonical dim multiplied out, and its size."""
    leaves = tuple(factor for factor in dim if isinstance(factor, AxisVariable))
    if len(leaves) == len(dim):
        strides = [math.prod(leaf.size for leaf in leaves[i + 1 :]) for i in range(len(leaves))]
        return [_Product(0, leaves, tuple(strides))], size_of(leaves)
    found = [_Product(0, (), ())]
    stride = 1
    for factor in reversed(dim):
        if isinstance(factor, Concatenation):
            heads: list[_Product] = []
            total = 0
            for term in factor.terms:
                inner, size = _products(term)
                heads += [product._replace(start=total + product.start) for product in inner]
                total += size
        else:
            heads, total = [_Product(0, (factor,), (1,))], factor.size
        found = [
            _Product(
                head.start * stride + tail.start,
                head.leaves + tail.leaves,
                (*(step * stride for step in head.strides), *tail.strides),
            )
            for head, tail in itertools.product(heads, found)
        ]
        stride *= total
    return found, stride


def cells(value: Value) -> Iterator[Cell]:
    """The cells of ``value`` in row-major order."""
    terms = [list(enumerate(dim_cells(dim))) for dim in value.dims]
    for chosen in itertools.product(*terms):
        yield Cell(tuple(i for i, _ in chosen), tuple(term for _, term in chosen))
