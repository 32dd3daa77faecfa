"""Specifications that are wrong in one place each: what a check of symmetries has to refuse."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from wsl.spec import Axis, Dim, TensorSpec, WeightSpec, factors_of
from wsl.testing._scaling_mutations import Mutation, claimed_scalings, wrong_powers


class _Factor(NamedTuple):
    """Where a factor stands in the expression of a stored dimension: terms and positions, from outside."""

    tensor: str
    dim: int
    path: tuple[int, ...]


def mutations(spec: WeightSpec) -> Iterator[Mutation]:
    """Wrong variants of ``spec``, each with what is wrong; :func:`wsl.verify` has to refuse every one.

    A dimension follows another axis or one of its own; two dimensions are swapped; inputs, outputs or kernel
    positions are taken for neurons; an axis is taken for a family over another one; a scaling has a wrong
    power, or is claimed through an activation that does not allow it.

    Only variants that are wrong are made: nothing of size 1 is relabelled; two axes are not merged everywhere
    and no family loses an axis that it is over, which is coarser than need be, but true. Families lose such
    an axis only where another mutation takes it from one of their blocks. ``spec`` must be as fine as it can
    be, and no block free to move on its own (a key's bias before softmax): else some variants are true.
    """
    yield from _wrong_axes(spec)
    yield from _transposed(spec)
    yield from _claimed_permutations(spec)
    yield from _claimed_families(spec)
    yield from wrong_powers(spec)
    yield from claimed_scalings(spec)


def _wrong_axes(spec: WeightSpec) -> Iterator[Mutation]:
    """One dimension of one tensor moves with another axis of the same size, or with one of its own."""
    for axis in spec.hidden_axes:
        found = [place for place, factor in _factors(spec) if factor == axis.name]
        if axis.size == 1 or len(found) == 1:
            continue
        own = replace(axis, name=_fresh_name(spec))
        others = [other for other in spec.hidden_axes if other.size == axis.size and other != axis]
        for place in found:
            for other in (own, *others):
                tensors = _with_factor(spec, place, other.name)
                said = "an axis of its own" if other is own else other.name
                extra = (own,) if other is own else ()
                yield (
                    f"{place.tensor} dim {place.dim}: {said} instead of {axis.name}",
                    _rebuilt(spec, tensors, extra, unscaled={axis.name, other.name}),
                )


def _transposed(spec: WeightSpec) -> Iterator[Mutation]:
    """Two dimensions of one size change places in one tensor."""
    hidden = {axis.name for axis in spec.hidden_axes if axis.size > 1}
    for name, tensor in spec.tensors.items():
        for i in range(len(tensor.dims)):
            for j in range(i):
                dims = list(tensor.dims)
                dims[i], dims[j] = dims[j], dims[i]
                named = {f for dim in (dims[i], dims[j]) for f in factors_of(dim) if isinstance(f, str)}
                if dims[i] == dims[j] or tensor.shape[i] != tensor.shape[j] or not named & hidden:
                    continue
                tensors = {**_dims(spec), name: tuple(dims)}
                yield f"{name}: dims {j} and {i} swapped", _rebuilt(spec, tensors, unscaled=named)


def _claimed_permutations(spec: WeightSpec) -> Iterator[Mutation]:
    """Inputs, outputs and kernel positions are taken for neurons."""
    for axis in spec.axes.values():
        if axis.kind in ("input", "output") and axis.size > 1:
            claimed = replace(axis, kind="hidden")
            yield f"{axis.kind} axis {axis.name} as hidden", _rebuilt(spec, _dims(spec), (claimed,))
    for place, factor in _factors(spec):
        if isinstance(factor, int) and factor > 1:
            claimed = Axis(_fresh_name(spec), factor, "hidden")
            tensors = _with_factor(spec, place, claimed.name)
            yield f"{place.tensor} dim {place.dim}: positions as neurons", _rebuilt(spec, tensors, (claimed,))


def _claimed_families(spec: WeightSpec) -> Iterator[Mutation]:
    """An axis moves on its own for each index of another one, beside its family or instead of it."""
    for axis in spec.hidden_axes:
        carriers = [ref.block.axes for ref in spec.blocks if axis.name in ref.block.axes]
        for other in spec.axes.values():
            below = axis.name in other.family or other.name in axis.family or other == axis
            if below or min(axis.size, other.size) == 1:
                continue
            if all(names.count(other.name) == 1 for names in carriers):
                for family in dict.fromkeys(((*axis.family, *other.family), other.family)):
                    claimed = replace(axis, family=tuple(dict.fromkeys((*family, other.name))))
                    yield (
                        f"{axis.name} as a family over {', '.join(claimed.family)}",
                        _rebuilt(spec, _dims(spec), (claimed,), unscaled={axis.name}),
                    )


def _factors(spec: WeightSpec) -> Iterator[tuple[_Factor, str | int]]:
    for name, tensor in spec.tensors.items():
        for i, dim in enumerate(tensor.dims):
            for path, factor in _paths(dim):
                yield _Factor(name, i, path), factor


def _paths(dim: Dim) -> Iterator[tuple[tuple[int, ...], str | int]]:
    for i, term in enumerate(dim):
        for j, factor in enumerate(term):
            if isinstance(factor, tuple):
                yield from (((i, j, *path), inner) for path, inner in _paths(factor))
            else:
                yield (i, j), factor


def _dims(spec: WeightSpec) -> dict[str, tuple[Dim, ...]]:
    return {name: tensor.dims for name, tensor in spec.tensors.items()}


def _with_factor(spec: WeightSpec, place: _Factor, factor: str) -> dict[str, tuple[Dim, ...]]:
    dims = list(spec.tensors[place.tensor].dims)
    dims[place.dim] = _with_factor_in(dims[place.dim], place.path, factor)
    return {**_dims(spec), place.tensor: tuple(dims)}


def _with_factor_in(dim: Dim, path: tuple[int, ...], factor: str) -> Dim:
    i, j, *rest = path
    old = dim[i][j]
    new = _with_factor_in(old, tuple(rest), factor) if isinstance(old, tuple) else factor
    return (*dim[:i], (*dim[i][:j], new, *dim[i][j + 1 :]), *dim[i + 1 :])


def _rebuilt(
    spec: WeightSpec,
    tensors: Mapping[str, tuple[Dim, ...]],
    axes: tuple[Axis, ...] = (),
    unscaled: Collection[str] = (),
) -> WeightSpec:
    """``spec`` with other dims, with ``axes`` added or replaced, without scalings of ``unscaled`` axes.

    Families keep what every block that carries their axis still carries once, and are closed again.
    """
    declared = {**spec.axes, **{axis.name: axis for axis in axes}}
    sizes = {axis.name: axis.size for axis in declared.values()}
    made = {name: TensorSpec.from_dims(dims, sizes) for name, dims in tensors.items()}
    blocks = [block.axes for tensor in made.values() for block in tensor.blocks]
    for name, axis in declared.items():
        outer = dict.fromkeys(n for member in axis.family for n in (*declared[member].family, member))
        declared[name] = replace(
            axis,
            scaling=None if name in unscaled else axis.scaling,
            family=tuple(n for n in outer if all(axes.count(n) == 1 for axes in blocks if name in axes)),
        )
    return WeightSpec(
        [axis for axis in declared.values() if any(axis.name in axes for axes in blocks)],
        made,
        [scaling for scaling in spec.scalings if scaling.axis not in unscaled],
        [note for note in spec.notes if any(note.axis in axes for axes in blocks)],
    )


def _fresh_name(spec: WeightSpec) -> str:
    return next(name for i in range(len(spec.axes) + 1) if (name := f"m{i + 1}") not in spec.axes)
