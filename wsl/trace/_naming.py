"""From leaves to named axes: what kind an axis is, which leaves make one axis, what it is called."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, Union

from wsl.spec import Dim as SpecDim
from wsl.trace._axes import AxisVariable, Concatenation, Dim, Factor, is_fixed, leaves, resolve
from wsl.trace._cells import dim_cells
from wsl.trace._recorder import Recorder

LeafKind = Literal["hidden", "input", "output", "fixed", "position"]
Product = tuple[Union[AxisVariable, "Sum"], ...]
Sum = tuple[Product, ...]
Key = tuple[tuple[AxisVariable, ...], ...]
Terms = list[list[Union[Key, int, "Terms"]]]
_PREFIXES: dict[LeafKind, str] = {"hidden": "", "fixed": "f", "input": "x", "output": "y"}


class Expansion:
    """Writes dims as sums of products of leaves and of such sums.

    A fixed concatenation within a product, as in heads that are rotated in two halves, becomes one axis,
    which is the same wherever the concatenation occurs.

    Args:
        dims: all dims that will be written.

    Attributes:
        joined: the axis of each such concatenation.
    """

    def __init__(self, dims: Iterable[Dim]) -> None:
        self.joined: dict[Dim, AxisVariable] = {}
        for dim in dims:
            self._join(resolve(dim))

    def __call__(self, dim: Dim) -> Sum:
        """``dim`` as a sum of products."""
        resolved = resolve(dim)
        if len(resolved) == 1 and isinstance(resolved[0], Concatenation) and resolved not in self.joined:
            return tuple(product for term in resolved[0].terms for product in self(term))
        return (tuple(self._factor(factor) for factor in resolved),)

    def _factor(self, factor: Factor) -> AxisVariable | Sum:
        known = self.joined.get((factor,), factor)
        return known if isinstance(known, AxisVariable) else self((known,))

    def _join(self, dim: Dim) -> None:
        for factor in dim:
            if not isinstance(factor, Concatenation):
                continue
            if len(dim) > 1 and is_fixed((factor,)):
                whole = self.joined.setdefault((factor,), AxisVariable(factor.size))
                for leaf in leaves((factor,)):
                    whole.reasons.update(leaf.reasons)
            for term in factor.terms:
                self._join(term)


class Classifier:
    """Tells what kind of axis a leaf is, from why it is fixed and from the layers that it met."""

    def __init__(self, trace: Recorder) -> None:
        self._produced = self._neurons(dim for dim, _ in trace.produced)
        self._consumed = self._neurons(trace.features)

    def kind(self, leaf: AxisVariable) -> LeafKind:
        """``position`` stands for an index that counts no neurons: kernel positions, pixels, tokens."""
        kinds = {reason.kind for reason in leaf.reasons}
        neurons = leaf in self._produced or leaf in self._consumed
        if not kinds:
            return "hidden" if leaf.size > 1 or leaf in self._produced else "position"
        if "input" in kinds:
            if not neurons:
                return "position"
            return "output" if leaf not in self._consumed and "output" in kinds else "input"
        if "output" in kinds:
            return "output" if leaf.size > 1 or neurons else "position"
        if kinds == {"position"}:
            return "fixed" if neurons else "position"
        return "fixed"

    @staticmethod
    def _neurons(dims: Iterable[Dim]) -> set[AxisVariable]:
        """Leaves that layers treat as neurons; in a flattened product, pixels are left out."""
        found: set[AxisVariable] = set()
        for cell in (cell for dim in dims for cell in dim_cells(dim)):
            large = [leaf for leaf in cell.leaves if leaf.size > 1] or list(cell.leaves)
            if len(large) == 1 or all(any(r.kind == "input" for r in leaf.reasons) for leaf in large):
                found.update(large)
        return found


class AxisNames:
    """Gathers leaves to axes, names these, and writes the dims of tensors with the names.

    An axis is a leaf; or a fixed product or concatenation of leaves that is a whole stored dimension, such as
    the pixels of a flattened image. Hidden axes are named in order of the forward pass, others of tensors.

    Args:
        trace: the finished trace.
        sums: the dims of every state tensor, expanded.
    """

    def __init__(self, trace: Recorder, sums: Iterable[tuple[Sum, ...]]) -> None:
        self._classifier = Classifier(trace)
        totals = [total for dims in sums for total in dims]
        self._contexts: dict[AxisVariable, set[Sum]] = {}
        for total in totals:
            for leaf in sum_leaves(total):
                self._contexts.setdefault(leaf, set()).add(total)
        keys = dict.fromkeys(key for total in totals for key in _keys(self._factors(total)))
        self.names = self._name(trace, list(keys))

    def kind(self, key: Key) -> LeafKind:
        """The kind of a named axis."""
        return self._classifier.kind(next(sum_leaves(key)))

    def dims(self, sums: Iterable[Sum]) -> tuple[SpecDim, ...]:
        """The dims of one tensor, written with the names of the axes."""
        return tuple(self._named(self._factors(total)) for total in sums)

    def _named(self, terms: Terms) -> SpecDim:
        return tuple(
            tuple(
                self._named(factor)
                if isinstance(factor, list)
                else (factor if isinstance(factor, int) else self.names[factor])
                for factor in term
            )
            for term in terms
        )

    def _factors(self, total: Sum) -> Terms:
        """A dim with leaves gathered to axes, and positions replaced by their sizes."""
        leaves = list(sum_leaves(total))
        kinds = {self._classifier.kind(leaf) for leaf in leaves}
        if kinds <= {"position"}:
            return [[sum_size(total)]]
        alone = all(self._contexts[leaf] == {total} for leaf in leaves)
        if len(total) > 1 and alone and len(kinds) == 1 and "hidden" not in kinds:
            return [[tuple(tuple(sum_leaves((product,))) for product in total)]]
        return [self._product_factors(product) for product in total]

    def _product_factors(self, product: Product) -> list[Key | int | Terms]:
        kinds = {leaf: self._classifier.kind(leaf) for leaf in sum_leaves((product,))}
        kept = [
            factor
            for factor in product
            if isinstance(factor, tuple) or factor.size > 1 or kinds[factor] != "position"
        ]
        found = {kinds[leaf] for leaf in sum_leaves((tuple(kept),))}
        if found in ({"input"}, {"output"}):
            return [(tuple(leaf for leaf in kept if isinstance(leaf, AxisVariable)),)]
        if found <= {"position"}:
            return [sum_size((product,))]
        factors: list[Key | int | Terms] = []
        for factor in kept:
            if isinstance(factor, AxisVariable):
                factors.append(factor.size if kinds[factor] == "position" else ((factor,),))
            elif {kinds[leaf] for leaf in sum_leaves(factor)} <= {"position"}:
                factors.append(sum_size(factor))
            else:
                factors.append([self._product_factors(term) for term in factor])
        return factors

    def _name(self, trace: Recorder, keys: list[Key]) -> dict[Key, str]:
        prefixes: dict[Key, str] = {}
        for dim, prefix in trace.produced:
            for cell in dim_cells(dim):
                for leaf in cell.leaves:
                    prefixes.setdefault(((leaf,),), prefix)
        order = {key: rank for rank, key in enumerate(prefixes)}
        by_kind = {kind: [key for key in keys if self.kind(key) == kind] for kind in _PREFIXES}
        by_kind["hidden"].sort(key=lambda key: order.get(key, len(order)))
        counts: Counter[str] = Counter()
        names = {}
        for kind, fixed_prefix in _PREFIXES.items():
            for key in by_kind[kind]:
                prefix = fixed_prefix or prefixes.get(key, "h")
                counts[prefix] += 1
                names[key] = prefix if prefix in "xy" and counts[prefix] == 1 else f"{prefix}{counts[prefix]}"
        return names


def sum_size(total: Sum) -> int:
    """Number of indices of an expanded dim."""
    return sum(
        math.prod(sum_size(factor) if isinstance(factor, tuple) else factor.size for factor in product)
        for product in total
    )


def sum_leaves(total: Sum) -> Iterator[AxisVariable]:
    """The leaves of an expanded dim, in order, with repetitions."""
    for factor in itertools.chain(*total):
        if isinstance(factor, tuple):
            yield from sum_leaves(factor)
        else:
            yield factor


def _keys(terms: Terms) -> Iterator[Key]:
    for factor in itertools.chain(*terms):
        if isinstance(factor, list):
            yield from _keys(factor)
        elif not isinstance(factor, int):
            yield factor
