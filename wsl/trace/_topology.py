"""The topology of a traced network: its node sets, one for each activation, and what connects them.

Every neuron cell of every value is followed through the facts of a trace. An operator that computes new
neurons makes a provisional node set (:mod:`wsl.trace._topology_relations`); views, reductions over positions
and masks pass on the one they read. Then equal sets are merged and the steps of a layer are folded
(:mod:`wsl.trace._topology_merge`). The result is the computational graph of Neural Graphs (Kofinas et al.
2024, arXiv:2403.12143) and graph metanetworks (Lim et al. 2023, arXiv:2312.04501), by node sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from wsl.spec import Edge, NodeSet, TensorSpec
from wsl.trace._facts import Fact, Value, values_of
from wsl.trace._naming import AxisNames, Expansion
from wsl.trace._recorder import Recorder
from wsl.trace._topology_build import Builder
from wsl.trace._topology_cells import Layouts
from wsl.trace._topology_content import operator_word
from wsl.trace._topology_flow import Flow
from wsl.trace._topology_merge import simplify
from wsl.trace._topology_nodes import Node, Origin
from wsl.trace._topology_weights import state_weaves

_NO_AXES = "s"


def find_topology(
    trace: Recorder,
    state: Mapping[str, Value],
    outputs: Sequence[Value],
    expand: Expansion,
    names: AxisNames,
    tensors: Mapping[str, TensorSpec],
    families: Mapping[str, Sequence[str]],
) -> tuple[tuple[NodeSet, ...], tuple[Edge, ...]]:
    """Node sets and edges of a finished trace.

    Args:
        trace: the facts.
        state: values of the state tensors.
        outputs: values that the module returned.
        expand: how the dims of state tensors are written.
        names: of the axes.
        tensors: specifications of the state tensors, whose blocks are on the edges.
        families: for each axis those that it is a family over.
    """
    builder = Builder()
    layouts = Layouts(names, expand)
    steps = list(_steps(trace))
    last_uses = {id(value): number for number, facts in steps for fact in facts for value in values_of(fact)}
    identities = {id(value) for value in outputs}
    storages = trace.values.storages()
    weaves = state_weaves(state, tensors, layouts)
    flow = Flow(layouts, builder, weaves, storages, last_uses, identities)
    for number, facts in steps:
        ran = trace.operators[number]
        builder.begin(Origin(ran.name, ran.module, ran.line))
        flow.follow(number, facts)
    for value in outputs:
        flow.promote(value)
        for key in layouts[value].cells:
            if isinstance(node := flow.content(value, key), Node):
                node.is_output = True
    blocks = {
        name if len(tensor.blocks) == 1 else f"{name}[{i}]": [block.axes[dim] for dim in block.neuron_dims]
        for name, tensor in tensors.items()
        for i, block in enumerate(tensor.blocks)
    }
    return _emit(simplify(builder), families, blocks)


def _steps(trace: Recorder) -> Iterator[tuple[int, list[Fact]]]:
    """The facts of each operator that recorded any, and its number."""
    starts = [ran.first for ran in trace.operators]
    for number, (start, stop) in enumerate(zip(starts, [*starts[1:], len(trace.facts)], strict=True)):
        if start < stop:
            yield number, trace.facts[start:stop]


def _emit(
    nodes: list[Node], families: Mapping[str, Sequence[str]], blocks: Mapping[str, Sequence[str | None]]
) -> tuple[tuple[NodeSet, ...], tuple[Edge, ...]]:
    """Named node sets in the order of the forward pass, and edges in the order of their targets.

    A square weight that was added to neurons of a single axis, as in ``W - W.T``, lies between these neurons.
    """
    counts: Counter[str] = Counter()
    sets: dict[Node, NodeSet] = {}
    for node in nodes:
        base = node.axes[-1] if node.axes else _NO_AXES
        counts[base] += 1
        name = base if counts[base] == 1 else f"{base}.{counts[base]}"
        activation = node.activation
        if node.kind == "function" and activation is None:
            activation = operator_word(node.origin.operator)
        # What a derived weight is summed over may lack the axes that tell the members of a family apart.
        axes = dict.fromkeys(outer for axis in node.axes for outer in (*families.get(axis, ()), axis))
        sets[node] = NodeSet(name, tuple(axes), activation)
    edges: dict[Edge, None] = {}
    for node in nodes:
        for entry in node.entries:
            source = sets[entry.source.root].name if entry.source else None
            ends = entry.ends if entry.block else None
            if (
                source is None
                and ends
                and entry.block
                and (apart := _apart(blocks[entry.block], ends)) != ends
            ):
                source, ends = sets[node].name, apart
            edges[Edge(source, sets[node].name, entry.block, ends)] = None
    return tuple(sets.values()), tuple(edges)


def _apart(axes: Sequence[str | None], ends: str) -> str:
    """``ends`` with the source at every further occurrence of an axis."""
    return "".join("s" if axis in axes[:i] else ends[i] for i, axis in enumerate(axes))
