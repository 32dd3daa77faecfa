"""Checks of a given topology against the axes and blocks of its specification."""

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from wsl.spec._topology import Edge, NodeSet, Topology, default_ends, default_topology, edge_ends, group_edges
from wsl.spec._values import SpecError

if TYPE_CHECKING:
    from wsl.spec._weight_spec import WeightSpec


def canonical_topology(spec: "WeightSpec", given: Topology) -> Topology:
    """``given`` checked, grouped, without what goes without saying; empty if it is the default topology.

    Raises:
        SpecError: a node set that is declared twice or has axes that do not fit together, or an edge that
            names unknown sets or blocks, or whose ends do not fit its block and sets.
    """
    if not given.nodes and not given.edges:
        return given
    sets = {node.name: node for node in given.nodes}
    if len(sets) < len(given.nodes):
        raise SpecError(f"a node set is declared twice: {', '.join(node.name for node in given.nodes)}.")
    for node in given.nodes:
        _check_nodes(spec, node)
    edges = []
    for edge in given.edges:
        _check_edge(spec, edge, sets)
        if edge.block is not None and edge.ends == default_ends(
            spec, edge.block, attached=edge.source is None
        ):
            edge = replace(edge, ends=None)
        edges.append(edge)
    default = default_topology(spec)
    if set(given.nodes) == set(default.nodes) and Counter(edges) == Counter(default.edges):
        return Topology((), ())
    return Topology(given.nodes, group_edges(edges))


def _check_nodes(spec: "WeightSpec", node: NodeSet) -> None:
    for name in node.axes:
        if name not in spec.axes:
            raise SpecError(
                f"node set {node.name} names axis {name}, which is not declared; "
                f"declared: {', '.join(spec.axes)}."
            )
        for outer in spec.axes[name].family:
            if (count := node.axes.count(outer)) != 1:
                raise SpecError(
                    f"node set {node.name} carries {name} and {outer} {count} times: "
                    f"({' '.join(node.axes)}).\n  {name} is a family over {outer}; both tell its nodes "
                    f"apart, as in ({outer} {name})."
                )


def _check_edge(spec: "WeightSpec", edge: Edge, sets: dict[str, NodeSet]) -> None:
    what = f"edge {edge.source or '-'} {edge.target}" + (f" {edge.block}" if edge.block else "")
    for name in (edge.source, edge.target):
        if name is not None and name not in sets:
            raise SpecError(
                f"{what} names node set {name}, which is not declared; declared: {', '.join(sets) or 'none'}."
            )
    if edge.block is None:
        if edge.source is None or edge.ends is not None:
            raise SpecError(
                f"{what} has no block: it is an identity, which has a source and a target, and no ends."
            )
        return
    block = spec.block(edge.block).block
    axes = [block.axes[dim] for dim in block.neuron_dims]
    if edge.ends is not None and (len(edge.ends) != len(axes) or set(edge.ends) - set("tsb")):
        raise SpecError(
            f"{what} has ends {edge.ends!r}, but the block carries {' '.join(axes) or 'no axes'}; give one "
            "letter for each: t (target), s (source) or b (both)."
        )
    ends = edge_ends(spec, edge)
    for name, letters in ((edge.target, "tb"), (edge.source, "sb")):
        indexed = Counter(axis for axis, end in zip(axes, ends, strict=True) if end in letters)
        carried = Counter(sets[name].axes if name else ())
        if lacking := indexed - carried:
            carries = f"node set {name} has ({' '.join(sets[name].axes)})" if name else "it has no source"
            raise SpecError(
                f"{what} has ends {ends!r} for {' '.join(axes)}, but {carries}, without "
                f"{', '.join(lacking)}.\n  State the ends, one letter for each axis: t (target), s (source) "
                "or b (both), or connect other node sets."
            )
