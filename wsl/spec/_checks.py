"""Checks of a whole specification: its parts fit together, and the text form can hold them."""

import re
from typing import TYPE_CHECKING

from wsl.spec._text import format_tensor
from wsl.spec._values import SCALING_KINDS, Exponent, Scaling, SpecError, TensorSpec

if TYPE_CHECKING:
    from wsl.spec._weight_spec import WeightSpec

_UNWRITABLE = re.compile(r"|.*\s.*|.*:|#.*|.*@\d+|ends=.*|\\", re.DOTALL)


def check_tensors(spec: "WeightSpec") -> None:
    """Names can be written, dimensions make the stored shapes, and every axis is used."""
    sizes = {axis.name: axis.size for axis in spec.axes.values()}
    for name, tensor in spec.tensors.items():
        if _UNWRITABLE.fullmatch(name):
            raise SpecError(
                f"tensor name {name!r} cannot be written: it is empty or a backslash, has spaces, starts "
                "with '#' or 'ends=', or ends with ':' or with '@' and a number."
            )
        if TensorSpec.from_dims(tensor.dims, sizes) != tensor:
            raise SpecError(
                f"{format_tensor(name, tensor, spec.axes)} contradicts the declared axis sizes {sizes}."
            )
    blocks = {ref.key: ref for ref in spec.blocks}
    if len(blocks) < len(spec.blocks):
        key = next(ref.key for ref in spec.blocks if blocks[ref.key] is not ref)
        raise SpecError(f"{key} names both a tensor and a block of another one; rename the tensor.")
    used = {axis for tensor in spec.tensors.values() for axis in tensor.axes}
    if unused := [name for name in spec.axes if name not in used]:
        raise SpecError(f"axes {', '.join(unused)} occur in no tensor; leave them out.")


def check_notes(spec: "WeightSpec") -> None:
    """Notes are on axes that exist, and can be written."""
    if unknown := [note.axis for note in spec.notes if note.axis not in spec.axes]:
        raise SpecError(f"notes name axes that are not declared: {', '.join(unknown)}.")
    for note in spec.notes:
        if not note.reason or " #" in f" {note.reason}" or note.reason.endswith("\\"):
            raise SpecError(
                f"the note of {note.axis} cannot be written: {note.reason!r} is empty, holds a comment or "
                "ends with a backslash."
            )


def check_scalings(spec: "WeightSpec") -> None:
    """Scalings are of hidden axes that declare one, and name blocks that carry them."""
    carried = {ref.key: ref.block.axes for ref in spec.blocks}
    linear = {scaling.axis for scaling in spec.scalings if scaling.kind == "linear"}
    seen = set()
    for scaling in spec.scalings:
        axis = spec.axes.get(scaling.axis)
        if axis is None or axis.kind != "hidden" or axis.scaling is None:
            raise SpecError(
                f"scaling of {scaling.axis}, which is not declared as a hidden axis with a scaling; declare "
                f"it as in '{scaling.axis}: {axis.size if axis else 4} hidden {scaling.kind}'."
            )
        if scaling.kind not in SCALING_KINDS or not scaling.exponents:
            raise SpecError(
                f"scaling of {scaling.axis} has kind {scaling.kind!r}, {len(scaling.exponents)} blocks;"
                f" expected {', '.join(SCALING_KINDS)}, and at least one block."
            )
        if scaling.axis in linear and scaling.axis in seen:
            raise SpecError(
                f"axis {scaling.axis} has a linear scaling beside another one; the linear one contains all "
                "others, so state only that."
            )
        seen.add(scaling.axis)
        for exponent in scaling.exponents:
            _check_exponent(scaling, exponent, carried.get(exponent.key, ()))
        places = [(exponent.key, exponent.dim) for exponent in scaling.exponents]
        if repeated := [key for i, (key, dim) in enumerate(places) if (key, dim) in places[:i]]:
            raise SpecError(
                f"scaling of {scaling.axis} names block {', '.join(repeated)} twice; add up the powers."
            )
    for name, axis in spec.axes.items():
        found = {scaling.kind for scaling in spec.scalings if scaling.axis == name}
        kinds = [kind for kind in SCALING_KINDS if kind in found]
        if axis.scaling != (kinds[0] if kinds else None):
            raise SpecError(
                f"axis {name} is declared {axis.scaling}, but its scalings are {', '.join(kinds) or 'none'}."
                f"\n  Say how it is scaled, as in 'scaling:  {name} {axis.scaling} w+1 …'; an axis is "
                "declared with the strongest of its scalings."
            )


def _check_exponent(scaling: Scaling, exponent: Exponent, axes: tuple[str, ...]) -> None:
    key, power, dim = exponent
    if not isinstance(power, int) or (scaling.kind == "linear" and power not in (1, -1)):
        expected = "an integer" if scaling.kind != "linear" else "+1 or -1, as a matrix acts"
        raise SpecError(f"scaling of {scaling.axis} has power {power!r} for {key}; expected {expected}.")
    dims = [i for i, axis in enumerate(axes) if axis == scaling.axis]
    if not dims:
        raise SpecError(f"scaling of {scaling.axis} names block {key}, which does not carry that axis.")
    if dim is None and len(dims) > 1:
        raise SpecError(
            f"scaling of {scaling.axis} names block {key}, whose view dimensions {', '.join(map(str, dims))} "
            f"all carry that axis: {' '.join(axes)}.\n  Say which, as in {key}@{dims[0]}{power:+d}."
        )
    if dim is not None and (len(dims) == 1 or dim not in dims):
        way = "leave it out" if len(dims) == 1 else f"give one of {', '.join(map(str, dims))}"
        raise SpecError(
            f"scaling of {scaling.axis} names dimension {dim} of block {key}, whose view is "
            f"{' '.join(axes)}; {way}."
        )
