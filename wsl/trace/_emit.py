"""From a finished trace to a weight-space specification."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from wsl.spec import Axis, Note, Scaling, TensorSpec, WeightSpec
from wsl.trace._axes import AxisVariable, leaves
from wsl.trace._cells import cells
from wsl.trace._facts import Apply, Fact, Value
from wsl.trace._joint import Variable
from wsl.trace._naming import AxisNames, Sum, expand, sum_size
from wsl.trace._recorder import Recorder
from wsl.trace._scaling import System, collect_equations
from wsl.trace._solve import solutions


def emit(trace: Recorder, state: Mapping[str, Value]) -> WeightSpec:
    """The specification of the state tensors ``state``, by name; tied tensors have one and the same value."""
    sums = {name: tuple(map(expand, value.dims)) for name, value in state.items()}
    names = AxisNames(trace, sums.values())
    sizes = {name: sum_size(key) for key, name in names.names.items()}
    tensors = {name: TensorSpec.from_dims(names.dims(dims), sizes) for name, dims in sums.items()}
    hidden = {key[0][0]: name for key, name in names.names.items() if names.kind(key) == "hidden"}
    scalings = _scalings(trace.facts, state, tensors, hidden)
    activations = _activations(trace.facts, hidden)
    axes = []
    notes = []
    for key, name in names.names.items():
        kind = names.kind(key)
        assert kind != "position"
        found = {scaling.kind for scaling in scalings if scaling.axis == name}
        strongest = "positive" if "positive" in found else "sign" if found else None
        axes.append(Axis(name, sizes[name], kind, activations.get(name), strongest))  # type: ignore[arg-type]
        if kind == "fixed":
            notes.append(Note(name, _why(key)))
    return WeightSpec(axes, tensors, scalings, notes)


def _why(key: Sum) -> str:
    reasons = {reason: None for leaf in itertools.chain(*key) for reason in leaf.reasons}
    return "; ".join(
        dict.fromkeys(
            f"{reason.text}, which runs along it" if reason.kind == "position" else reason.text
            for reason in reasons
            if reason.kind not in ("input", "output")
        )
    )


def _activations(facts: Iterable[Fact], hidden: Mapping[AxisVariable, str]) -> dict[str, str]:
    """The activation function of each axis, where only one kind is applied to it."""
    found: dict[str, dict[str, None]] = {}
    for fact in facts:
        if isinstance(fact, Apply) and fact.name:
            for leaf in {leaf for dim in fact.operand.value.dims for leaf in leaves(dim)} & hidden.keys():
                found.setdefault(hidden[leaf], {})[fact.name] = None
    return {axis: next(iter(names)) for axis, names in found.items() if len(names) == 1}


def _scalings(
    facts: Iterable[Fact],
    state: Mapping[str, Value],
    tensors: Mapping[str, TensorSpec],
    hidden: Mapping[AxisVariable, str],
) -> list[Scaling]:
    """Independent generators of the positive rescalings and sign flips of every hidden axis."""
    system = collect_equations(facts, set(hidden))
    carriers = _tie_blocks(system, state, tensors, hidden)
    scalings = []
    for leaf, axis in hidden.items():
        blocks = carriers.get(leaf, {})
        for kind, rows in (("positive", system[leaf].positive), ("sign", system[leaf].sign)):
            for solution in solutions(rows, list(blocks), mod2=kind == "sign"):
                exponents = [(key, power) for block, power in solution.items() for key in blocks[block]]
                scalings.append(Scaling(axis, kind, tuple(exponents)))  # type: ignore[arg-type]
    return scalings


def _tie_blocks(
    system: System,
    state: Mapping[str, Value],
    tensors: Mapping[str, TensorSpec],
    hidden: Mapping[AxisVariable, str],
) -> dict[AxisVariable, dict[Variable, list[str]]]:
    """One exponent for each emitted block, equal to those of the cells that it covers.

    Returns:
        For each leaf the variables of the blocks that carry it, and the keys of the blocks: several if tied.
    """
    by_name = {name: leaf for leaf, name in hidden.items()}
    carriers: dict[AxisVariable, dict[Variable, list[str]]] = {}
    for name, tensor in tensors.items():
        value = state[name]
        every = list(cells(value))
        for i, block in enumerate(tensor.blocks):
            key = name if len(tensor.blocks) == 1 else f"{name}[{i}]"
            variable = (id(value), f"block {i}")
            covered = [cell for cell in every if _overlap(cell.ranges, block.slice)]
            for leaf in {by_name[axis]: None for axis in block.axes if axis in by_name}:
                carriers.setdefault(leaf, {}).setdefault(variable, []).append(key)
                for cell in covered:
                    if leaf in cell.leaves:
                        system[leaf].require({variable: 1, (id(value), cell.key): -1})
                    else:
                        system[leaf].zero([variable])
    return carriers


def _overlap(a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]) -> bool:
    return all(x[0] < y[1] and y[0] < x[1] for x, y in zip(a, b, strict=True))
