"""The terms of permutation-equivariant linear maps between tensors: set partitions of their dimensions."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from wsl.spec import SpecError

MOST_REPEATS = 4

Parts = tuple[tuple[int, ...], ...]
Families = Mapping[str, tuple[str, ...]]


class Signature(NamedTuple):
    """The axes of a tensor of states, ``(B, *sizes of the axes, copies * C)``.

    Args:
        axes: the permuted axis of every dimension; an axis may occur several times.
        copies: how many times ``C`` channels every combination of indices has.
    """

    axes: tuple[str, ...]
    copies: int = 1


class Selection(NamedTuple):
    """One way to read a tensor, or to fill one: on a diagonal, and along some of its dimensions only.

    Args:
        parts: a set partition of the dimensions, in the order of their first dimensions; dimensions in one
            part have the same axis, and are read (filled) on their diagonal.
        kept: indices of the parts that a term links to the other tensor; the others are averaged over
            (broadcast along).
    """

    parts: Parts
    kept: tuple[int, ...]

    def pattern(self, axes: Sequence[str]) -> tuple[str, ...]:
        """The axes of the kept parts."""
        return tuple(axes[self.parts[part][0]] for part in self.kept)

    def arrangements(self, axes: Sequence[str]) -> Iterator["Selection"]:
        """The same selection with its kept parts of equal axes in every order."""
        pattern = self.pattern(axes)
        groups = [
            itertools.permutations(
                part for part, name in zip(self.kept, pattern, strict=True) if name == axis
            )
            for axis in dict.fromkeys(pattern)
        ]
        for orders in itertools.product(*groups):
            yield self._replace(kept=tuple(itertools.chain.from_iterable(orders)))


def partitions(axes: Sequence[str]) -> list[Parts]:
    """All set partitions of dimensions whose parts have one axis each; the finest one comes first.

    Raises:
        SpecError: an axis occurs too often: the number of terms grows like the Bell numbers.
    """
    for axis in set(axes):
        if axes.count(axis) > MOST_REPEATS:
            raise SpecError(
                f"a tensor carries axis {axis} {axes.count(axis)} times: {' '.join(axes)}; universal neural "
                f"functionals are for at most {MOST_REPEATS} times, as the number of terms explodes."
            )
    found: list[Parts] = [()]
    for dim, axis in enumerate(axes):
        grown: list[Parts] = []
        for parts in found:
            grown.append((*parts, (dim,)))
            for i, part in enumerate(parts):
                if axes[part[0]] == axis:
                    grown.append((*parts[:i], (*part, dim), *parts[i + 1 :]))
        found = grown
    return sorted(found, key=len, reverse=True)


def selections(axes: Sequence[str], families: Families) -> list[Selection]:
    """Every selection of a tensor with these axes; kept parts are sorted by the names of their axes.

    A part of a family's axis can only be kept where the axes that the family is over are kept too: without
    them nothing tells which permutation acts on it.
    """
    found = []
    for parts in partitions(axes):
        names = [axes[part[0]] for part in parts]
        order = sorted(range(len(parts)), key=lambda i: names[i])
        for count in range(len(parts), -1, -1):
            for kept in itertools.combinations(order, count):
                carried = {names[i] for i in kept}
                if all(carried.issuperset(families.get(name, ())) for name in carried):
                    found.append(Selection(parts, kept))
    return found


class Source(NamedTuple):
    """A tensor read by some selection; ``width`` is its number of copies."""

    tensor: int
    selection: Selection
    width: int


class Group(NamedTuple):
    """All terms with one pattern: every source is mapped to every target by one matrix.

    Args:
        pattern: the axes that sources and targets are linked along.
        sources: what is read.
        targets: what is filled.
    """

    pattern: tuple[str, ...]
    sources: tuple[Source, ...]
    targets: tuple[Source, ...]


def group_terms(
    inputs: Sequence[Signature], outputs: Sequence[Signature], families: Families
) -> tuple[Group, ...]:
    """The terms of all equivariant linear maps from ``inputs`` to ``outputs``, grouped by pattern.

    A term is a set partition of the dimensions of one input and one output, whose parts have one axis each.
    It is the same as a selection of the input, one of the output with the same pattern, and a matching of
    kept parts with equal axes; the matching is in the order of the source's kept parts.
    """
    sources: dict[tuple[str, ...], list[Source]] = {}
    for i, tensor in enumerate(inputs):
        for selection in selections(tensor.axes, families):
            listed = sources.setdefault(selection.pattern(tensor.axes), [])
            listed += [Source(i, s, tensor.copies) for s in selection.arrangements(tensor.axes)]
    targets: dict[tuple[str, ...], list[Source]] = {}
    for i, tensor in enumerate(outputs):
        for selection in selections(tensor.axes, families):
            targets.setdefault(selection.pattern(tensor.axes), []).append(Source(i, selection, tensor.copies))
    return tuple(
        Group(pattern, tuple(sources[pattern]), tuple(filled))
        for pattern, filled in targets.items()
        if pattern in sources
    )


def count_terms(inputs: Sequence[Signature], outputs: Sequence[Signature], families: Families) -> int:
    """The number of terms between all pairs of tensors, without constants."""
    return sum(len(group.sources) * len(group.targets) for group in group_terms(inputs, outputs, families))
