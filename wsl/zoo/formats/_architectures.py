"""Architectures of imported networks: traced from a module, or read off the tensors alone."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch

from wsl.spec import SpecError, WeightSpec
from wsl.trace import TraceError, trace
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import UNKNOWN, ForwardDefinition
from wsl.zoo._json import dump_json, load_json
from wsl.zoo._layout import Architecture
from wsl.zoo.formats._protocol import DescribedModule

_REASON = "read from tensors alone"


def traced(name: str, forward: ForwardDefinition, *sizes: tuple[int, ...]) -> Architecture:
    """The architecture of a class of :mod:`wsl.models`, traced on random inputs; the same object each time.

    Args:
        name: what the zoo calls it.
        forward: names the class.
        sizes: of each of its inputs.

    Raises:
        ZooError: the class does not accept the arguments, or its module cannot be traced.
    """
    return _traced(name, dump_json("forward definition", forward.to_dict()), sizes)


@lru_cache(maxsize=4096)
def _traced(name: str, forward_text: str, sizes: tuple[tuple[int, ...], ...]) -> Architecture:
    forward = ForwardDefinition.from_dict(load_json("forward definition", forward_text))
    module = forward.build()
    generator = torch.Generator().manual_seed(0)
    inputs = tuple(torch.randn(size, generator=generator) for size in sizes)
    try:
        return Architecture(name, trace(module, inputs), forward)
    except (TraceError, SpecError) as err:
        raise ZooError(f"{forward.factory} cannot be traced with {dict(forward.arguments)}: {err}") from err


def siren(
    widths: list[int],
    w0: float | None,
    *,
    grid: tuple[int, ...] | None,
    output: tuple[Any, Any] = (0.0, 1.0),
    column_first: bool = False,
) -> Architecture:
    """SIRENs of some widths, first to last.

    Args:
        widths: inputs, hidden layers, outputs.
        w0: factor inside the sines; if it is unknown, the specification holds but the networks cannot run.
        grid, column_first: see :class:`ForwardDefinition`.
        output: offset and scale from outputs to pixels.
    """
    arguments = {"in_features": widths[0], "hidden": widths[1:-1], "out_features": widths[-1]}
    offset, scale = output
    forward = ForwardDefinition(
        "wsl.models:Siren",
        arguments | {"w0": 30.0 if w0 is None else w0},
        None if grid is None else tuple(grid),
        offset,
        scale,
        widths[-1],
        column_first,
    )
    found = traced("siren", forward, (4, widths[0]))
    return found if w0 is not None else undescribed("siren", found.spec)


@lru_cache(maxsize=4096)
def undescribed(name: str, spec: WeightSpec) -> Architecture:
    """An architecture of which nobody said how it runs; the same object each time."""
    return Architecture(name, spec, ForwardDefinition(UNKNOWN))


def fixed(name: str, shapes: Mapping[str, tuple[int, ...]], reason: str = _REASON) -> Architecture:
    """An architecture that claims no symmetry: all that tensors without their network allow.

    A tensor ``x.bias`` has the first axis of ``x.weight`` if their sizes agree; dimensions from the third on
    are kernel positions.

    Raises:
        ZooError: shapes that no specification holds.
    """
    return undescribed(name, _fixed(tuple(shapes.items()), reason))


@lru_cache(maxsize=4096)
def _fixed(shapes: tuple[tuple[str, tuple[int, ...]], ...], reason: str) -> WeightSpec:
    axes: list[str] = []
    first: dict[str, tuple[int, str]] = {}
    lines, notes = [], []
    for name, shape in shapes:
        if 0 in shape:
            raise ZooError(f"{name} has the shape {shape}, and zoos hold no empty tensors.")
        stem = name.rpartition(".")[0]
        words = []
        for dim, size in enumerate(shape[:2]):
            size_and_axis = first.get(stem)
            if dim == 0 and size_and_axis is not None and size_and_axis[0] == size and len(shape) == 1:
                words.append(size_and_axis[1])
                continue
            axis = f"f{len(axes) + 1}"
            axes.append(f"{axis}: {size} fixed")
            notes.append(f"note:  {axis} {reason}")
            words.append(axis)
            if dim == 0:
                first.setdefault(stem, (size, axis))
        kernel = "x".join(map(str, shape[2:]))
        words += ["_"] * len(shape[2:]) + ([f"_={kernel}"] if kernel else [])
        lines.append("   ".join([name, *words]))
    try:
        return WeightSpec.parse("\n".join(["axes   " + "   ".join(axes), *lines, *notes]))
    except SpecError as err:
        raise ZooError(f"these tensors have no specification: {err}") from err


@lru_cache(maxsize=4)
def described(module: DescribedModule) -> Architecture:
    """The architecture of a module that the user named; the same object each time for one module.

    Raises:
        ZooError: it cannot be traced on the inputs.
    """
    name = type(module.module).__name__
    try:
        return Architecture(name, trace(module.module, module.inputs, module.keywords), module.forward)
    except (TraceError, SpecError) as err:
        raise ZooError(f"{module.forward.factory} cannot be traced: {err}") from err


def shapes_of(architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """Name -> shape of each tensor of an architecture."""
    return {name: tuple(tensor.shape) for name, tensor in architecture.spec.tensors.items()}
