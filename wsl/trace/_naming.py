"""From leaves to named axes: what kind an axis is, which leaves make one axis, what it is called."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from wsl.spec import Dim as SpecDim
from wsl.trace._axes import AxisVariable, Concatenation, Dim, Reason, fix, is_fixed, leaves, resolve, size_of
from wsl.trace._cells import dim_cells
from wsl.trace._recorder import Recorder

LeafKind = Literal["hidden", "input", "output", "fixed", "position"]
Product = tuple[AxisVariable, ...]
Sum = tuple[Product, ...]
_TERM_LIMIT = 4096
_PREFIXES: dict[LeafKind, str] = {"hidden": "", "fixed": "f", "input": "x", "output": "y"}


class Expansion:
    """Writes dims as sums of products of leaves.

    A fixed concatenation within a product, as in heads that are rotated in two halves, becomes one axis,
    which is the same wherever the concatenation occurs. Else ``t [a + b]`` is written out as ``t`` equal
    terms, which fixes ``t``.

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
        factors = tuple(self.joined.get((factor,), factor) for factor in resolved)
        inner = next((i for i, factor in enumerate(factors) if isinstance(factor, Concatenation)), None)
        if inner is None:
            return (tuple(factor for factor in factors if isinstance(factor, AxisVariable)),)
        head, tail = factors[:inner], factors[inner:]
        reason = Reason("operator", "a flattened concatenation that is not outermost")
        if size_of(head) > _TERM_LIMIT:
            fix(dim, reason)
            return ((AxisVariable(size_of(dim), reason),),)
        fix(head, reason)
        return self(tail) * size_of(head)

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
            for leaf in itertools.chain(*total):
                self._contexts.setdefault(leaf, set()).add(total)
        keys = dict.fromkeys(
            factor
            for total in totals
            for term in self._factors(total)
            for factor in term
            if not isinstance(factor, int)
        )
        self.names = self._name(trace, list(keys))

    def kind(self, key: Sum) -> LeafKind:
        """The kind of a named axis."""
        return self._classifier.kind(next(itertools.chain.from_iterable(key)))

    def dims(self, sums: Iterable[Sum]) -> tuple[SpecDim, ...]:
        """The dims of one tensor, written with the names of the axes."""
        return tuple(
            tuple(
                tuple(factor if isinstance(factor, int) else self.names[factor] for factor in term)
                for term in self._factors(total)
            )
            for total in sums
        )

    def _factors(self, total: Sum) -> list[list[Sum | int]]:
        """A dim with leaves gathered to axes, and positions replaced by their sizes."""
        leaves = list(itertools.chain(*total))
        kinds = {self._classifier.kind(leaf) for leaf in leaves}
        if kinds <= {"position"}:
            return [[sum_size(total)]]
        alone = all(self._contexts[leaf] == {total} for leaf in leaves)
        if len(total) > 1 and alone and len(kinds) == 1 and "hidden" not in kinds:
            return [[total]]
        return [self._product_factors(product) for product in total]

    def _product_factors(self, product: Product) -> list[Sum | int]:
        kinds = {leaf: self._classifier.kind(leaf) for leaf in product}
        kept = tuple(leaf for leaf in product if leaf.size > 1 or kinds[leaf] != "position")
        if {kinds[leaf] for leaf in kept} in ({"input"}, {"output"}):
            return [(kept,)]
        if all(kinds[leaf] == "position" for leaf in kept):
            return [sum_size((product,))]
        return [leaf.size if kinds[leaf] == "position" else ((leaf,),) for leaf in kept]

    def _name(self, trace: Recorder, keys: list[Sum]) -> dict[Sum, str]:
        prefixes: dict[Sum, str] = {}
        for dim, prefix in trace.produced:
            for cell in dim_cells(dim):
                for leaf in (*cell.leaves, *cell.nested):
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
    return sum(math.prod(leaf.size for leaf in product) for product in total)
