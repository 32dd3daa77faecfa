"""From a finished trace to a weight-space specification."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from wsl.spec import Axis, NodeSet, Note, SpecError, TensorSpec, WeightSpec
from wsl.trace._axes import AxisVariable, leaves
from wsl.trace._facts import Apply, Fact, Value
from wsl.trace._generators import find_scalings
from wsl.trace._locality import find_families
from wsl.trace._naming import AxisNames, Expansion, Key, sum_leaves, sum_size
from wsl.trace._recorder import Recorder
from wsl.trace._topology import find_topology
from wsl.trace._topology_norms import WRITTEN_OUT

_logger = logging.getLogger(__name__)
_STRENGTHS = ("linear", "positive", "sign")


def emit(trace: Recorder, state: Mapping[str, Value], outputs: Sequence[Value]) -> WeightSpec:
    """The specification of the state tensors ``state``, by name; tied tensors have one and the same value."""
    expand = Expansion(dim for value in state.values() for dim in value.dims)
    sums = {name: tuple(map(expand, value.dims)) for name, value in state.items()}
    names = AxisNames(trace, sums.values())
    sizes = {name: sum_size(key) for key, name in names.names.items()}
    tensors = {name: TensorSpec.from_dims(names.dims(dims), sizes) for name, dims in sums.items()}
    leaves_named = {key[0][0]: name for key, name in names.names.items() if len(key) == len(key[0]) == 1}
    hidden = {leaf: name for leaf, name in leaves_named.items() if names.kind(((leaf,),)) == "hidden"}
    families = _families(trace.facts, state, tensors, hidden, leaves_named)
    scalings = find_scalings(trace.facts, state, tensors, hidden, families)
    nodes, edges = find_topology(trace, state, outputs, expand, names, tensors, families)
    activations = _activations(trace.facts, hidden, nodes)
    axes = []
    notes = []
    for key, name in names.names.items():
        kind = names.kind(key)
        assert kind != "position"
        found = [scaling.kind for scaling in scalings if scaling.axis == name]
        strongest = min(found, key=_STRENGTHS.index, default=None)
        axes.append(Axis(name, sizes[name], kind, activations.get(name), strongest, families.get(name, ())))
        if kind == "fixed":
            notes.append(Note(name, _why(key)))
    spec = WeightSpec(axes, tensors, scalings, notes)
    try:
        return WeightSpec(axes, tensors, scalings, notes, nodes, edges)
    except SpecError as err:  # the group does not depend on it
        _logger.warning("the computational graph is left as tensors suggest it: %s", err)
        return spec


def _families(
    facts: Iterable[Fact],
    state: Mapping[str, Value],
    tensors: Mapping[str, TensorSpec],
    hidden: Mapping[AxisVariable, str],
    named: Mapping[AxisVariable, str],
) -> dict[str, tuple[str, ...]]:
    """The axes that each axis is over, of those that all its blocks carry under a name of their own."""
    blocks = [block for tensor in tensors.values() for block in tensor.blocks]
    return {
        hidden[leaf]: tuple(
            named[outer]
            for outer in over
            if all(block.axes.count(named[outer]) == 1 for block in blocks if hidden[leaf] in block.axes)
        )
        for leaf, over in find_families(facts, state.values(), hidden, named).items()
    }


def _why(key: Key) -> str:
    reasons = {reason: None for leaf in sum_leaves(key) for reason in leaf.reasons}
    return "; ".join(
        dict.fromkeys(
            f"{reason.text}, which runs along it" if reason.kind == "position" else reason.text
            for reason in reasons
            if reason.kind not in ("input", "output")
        )
    )


def _activations(
    facts: Iterable[Fact], hidden: Mapping[AxisVariable, str], nodes: Iterable[NodeSet]
) -> dict[str, str]:
    """The activation function of each axis, where only one kind is applied to it.

    One that is written out, as GELU by way of tanh, has the name that its node set has.
    """
    found: dict[str, dict[str, None]] = {}
    for fact in facts:
        if isinstance(fact, Apply) and fact.name:
            for leaf in {leaf for dim in fact.operand.value.dims for leaf in leaves(dim)} & hidden.keys():
                found.setdefault(hidden[leaf], {})[fact.name] = None
    whole: dict[str, dict[str, None]] = {}
    for node in nodes:
        if node.axes and node.activation in WRITTEN_OUT:
            whole.setdefault(node.axes[-1], {})[node.activation] = None
    chosen = {
        axis: names if (named := whole.get(axis, names)).keys() & names.keys() else named
        for axis, names in found.items()
    }
    return {axis: next(iter(names)) for axis, names in chosen.items() if len(names) == 1}
