"""Specifications that are wrong in one place each: what a check of symmetries has to refuse."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from wsl.spec import Axis, Dim, Scaling, TensorSpec, WeightSpec

_NOT_HOMOGENEOUS = frozenset({"gelu", "silu", "sigmoid", "softplus", "elu", "mish", "sin", "tanh"})

Mutation = tuple[str, WeightSpec]


class _Factor(NamedTuple):
    """Where a factor stands in the expression of a stored dimension."""

    tensor: str
    dim: int
    term: int
    position: int


def mutations(spec: WeightSpec) -> Iterator[Mutation]:
    """Wrong variants of ``spec``, each with what is wrong; :func:`wsl.verify` has to refuse every one.

    A dimension follows another axis or one of its own; two dimensions are swapped; inputs, outputs or kernel
    positions are taken for neurons; a scaling has a wrong power, or is claimed through an activation that
    does not allow it. Only variants that are wrong are made: nothing of size 1 is relabelled, and two axes
    are not merged everywhere, which is coarser than need be, but true. ``spec`` must be as fine as it can
    be, and no block free to move on its own (a key's bias before softmax): else some variants are true.
    """
    yield from _wrong_axes(spec)
    yield from _transposed(spec)
    yield from _claimed_permutations(spec)
    yield from _wrong_powers(spec)
    yield from _claimed_scalings(spec)


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
                named = {f for dim in (dims[i], dims[j]) for term in dim for f in term if isinstance(f, str)}
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


def _wrong_powers(spec: WeightSpec) -> Iterator[Mutation]:
    """One block scales by the inverse factor, or not at all."""
    for index, scaling in enumerate(spec.scalings):
        powers = dict(scaling.exponents)
        for key, power in scaling.exponents if len(powers) > 1 else ():
            left_out = {k: p for k, p in powers.items() if k != key}
            changed = {"left out": left_out}
            if scaling.kind == "positive":
                changed["inverted"] = {**powers, key: -power}
            for what, exponents in changed.items():
                scalings = list(spec.scalings)
                scalings[index] = replace(scaling, exponents=tuple(exponents.items()))
                wrong = WeightSpec(spec.axes, spec.tensors, scalings, spec.notes)
                yield f"scaling of {scaling.axis}: {key} {what}", wrong


def _claimed_scalings(spec: WeightSpec) -> Iterator[Mutation]:
    """Signs flip through an activation that is not odd; sizes pass one that is not homogeneous."""
    carriers = {ref.key: ref.block.axes for ref in spec.blocks}
    for axis in spec.hidden_axes:
        # Scalings that reach no consumer cancel before the activation, which then does not matter.
        through = [
            scaling
            for scaling in spec.scalings
            if scaling.axis == axis.name
            and any(carriers[key][0] != axis.name for key, _ in scaling.exponents)
        ]
        if axis.activation in ("relu", "leaky_relu") and through:
            claimed = replace(through[0], kind="sign")
        elif axis.activation in _NOT_HOMOGENEOUS:
            powers = through[0].exponents if through else _guessed_powers(spec, axis.name)
            claimed = Scaling(axis.name, "positive", powers)
        else:
            continue
        axes = {**spec.axes, axis.name: replace(axis, scaling=claimed.kind)}
        kept = [scaling for scaling in spec.scalings if scaling.axis != axis.name]
        wrong = WeightSpec(axes, spec.tensors, [*kept, claimed], spec.notes)
        yield f"{claimed.kind} scaling of {axis.name} claimed through {axis.activation}", wrong


def _guessed_powers(spec: WeightSpec, axis: str) -> tuple[tuple[str, int], ...]:
    carriers = {ref.key: ref.block.axes for ref in spec.blocks if axis in ref.block.axes}
    return tuple((key, 1 if axes[0] == axis else -1) for key, axes in carriers.items())


def _factors(spec: WeightSpec) -> Iterator[tuple[_Factor, str | int]]:
    for name, tensor in spec.tensors.items():
        for i, dim in enumerate(tensor.dims):
            for j, term in enumerate(dim):
                for k, factor in enumerate(term):
                    yield _Factor(name, i, j, k), factor


def _dims(spec: WeightSpec) -> dict[str, tuple[Dim, ...]]:
    return {name: tensor.dims for name, tensor in spec.tensors.items()}


def _with_factor(spec: WeightSpec, place: _Factor, factor: str) -> dict[str, tuple[Dim, ...]]:
    tensors = _dims(spec)
    dims = [[list(term) for term in dim] for dim in tensors[place.tensor]]
    dims[place.dim][place.term][place.position] = factor
    tensors[place.tensor] = tuple(tuple(tuple(term) for term in dim) for dim in dims)
    return tensors


def _rebuilt(
    spec: WeightSpec,
    tensors: Mapping[str, tuple[Dim, ...]],
    axes: tuple[Axis, ...] = (),
    unscaled: Collection[str] = (),
) -> WeightSpec:
    """``spec`` with other dims, with ``axes`` added or replaced, without scalings of ``unscaled`` axes."""
    declared = {**spec.axes, **{axis.name: axis for axis in axes}}
    sizes = {axis.name: axis.size for axis in declared.values()}
    return WeightSpec(
        declared,
        {name: TensorSpec.from_dims(dims, sizes) for name, dims in tensors.items()},
        [scaling for scaling in spec.scalings if scaling.axis not in unscaled],
        spec.notes,
    )


def _fresh_name(spec: WeightSpec) -> str:
    return next(name for i in range(len(spec.axes) + 1) if (name := f"m{i + 1}") not in spec.axes)
