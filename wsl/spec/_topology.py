"""The topology of a network: sets of nodes, and which tensors or identities connect them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wsl.spec._dims import products
from wsl.spec._values import Block, BlockRef, SpecError, TensorSpec, check_activation, is_name

if TYPE_CHECKING:
    from wsl.spec._weight_spec import WeightSpec


@dataclass(frozen=True)
class NodeSet:
    """Nodes that are computed together: one for each combination of the indices of some axes.

    Args:
        name: identifier, unique within a specification; may equal the name of an axis.
        axes: names of the axes, outermost first; nodes are numbered row-major, and ``()`` is one node. An
            axis that occurs twice has two indices.
        activation: the non-linearity after which, or ``None`` without which, the nodes are read. Also names
            another operator that makes them, as ``layer_norm``, or ``product`` of all that enters.

    Raises:
        SpecError: a name that is no identifier, or an activation that is not one word.
    """

    name: str
    axes: tuple[str, ...]
    activation: str | None = None

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise SpecError(
                f"{self.name!r} is no name of a node set: use letters, digits, dots and underscores."
            )
        check_activation(f"node set {self.name}", self.activation)


@dataclass(frozen=True)
class Edge:
    """All connections of one kind between two node sets, or what belongs to the nodes of one.

    Two nodes are connected if they agree on every axis that both sets carry, except for those that one
    dimension of ``block`` indexes at the target and another one at the source.

    Args:
        source: name of a node set; ``None`` if the block is added at, or belongs to, the target's nodes
            (biases, parameters and statistics of norms).
        target: name of a node set.
        block: key of the block with the weights; ``None`` for an identity, as in a residual connection.
        ends: one letter for each neuron dimension of the block: ``t`` if it indexes the target, ``s`` the
            source, ``b`` both. Where a set carries an axis twice, dimensions take its indices in order.
            ``None`` stands for the ends that :func:`edge_ends` says.
    """

    source: str | None
    target: str
    block: str | None = None
    ends: str | None = None


@dataclass(frozen=True)
class Topology:
    """The computational graph of an architecture, by node sets.

    Args:
        nodes: the node sets, in the order of the forward pass.
        edges: what connects them.
    """

    nodes: tuple[NodeSet, ...]
    edges: tuple[Edge, ...]


def stored_dims(tensor: TensorSpec, block: Block) -> tuple[int, ...]:
    """The stored dimension of ``tensor`` that each view dimension of its ``block`` comes from."""
    index = tensor.blocks.index(block)
    found = [products(dim) for dim in tensor.dims]
    terms = np.unravel_index(index, tuple(map(len, found))) if found else ()
    return tuple(d for d, (terms_of_d, i) in enumerate(zip(found, terms, strict=True)) for _ in terms_of_d[i])


def edge_ends(spec: "WeightSpec", edge: Edge) -> str:
    """The ends of an edge with a block: those that it states, or the default.

    By default the dimensions on stored dimension 0 index the target and others the source, as ``Linear`` and
    ``Conv`` store them; a single one indexes both ends. One that families of the block are over goes with
    these. All index the target where there is no source.
    """
    if edge.ends is not None or edge.block is None:
        return edge.ends or ""
    return default_ends(spec, edge.block, attached=edge.source is None)


def default_ends(spec: "WeightSpec", key: str, *, attached: bool) -> str:
    """What :func:`edge_ends` says of the block ``key``, ``attached`` to a node set or between two."""
    ref = spec.block(key)
    dims, names = ref.block.neuron_dims, ref.block.axes
    own = _own_dims(spec, ref)
    if attached or len(own) == 1:
        return ("t" if attached else "b") * len(dims)
    stored = stored_dims(spec.tensors[ref.tensor], ref.block)
    ends = ""
    for dim in dims:
        sides = {
            "t" if stored[inner] == 0 else "s"
            for inner in own
            if inner == dim or names[dim] in spec.axes[names[inner]].family
        }
        ends += "b" if len(sides) > 1 else sides.pop()
    return ends


def default_topology(spec: "WeightSpec") -> Topology:
    """A node set for each axis, and an edge for each block that carries axes.

    An axis of a family is crossed with those that the family is over; an axis that only serves so makes no
    set of its own. A block that has several other axes at one end, such as a product of two, connects a node
    set of their combinations, which in turn is connected to the sets of its axes.
    """
    sides = {ref.key: _sides(spec, ref) for ref in spec.blocks if ref.block.neuron_dims}
    seen = {axis for side in sides.values() for axes in side for axis in axes}
    sets: dict[tuple[str, ...], NodeSet] = {
        (axis.name,): NodeSet(axis.name, (*axis.family, axis.name), axis.activation)
        for axis in spec.axes.values()
        if axis.name in seen
    }
    for axes in dict.fromkeys(axes for side in sides.values() for axes in side if len(axes) > 1):
        outer = dict.fromkeys(name for axis in axes for name in spec.axes[axis].family)
        sets[axes] = NodeSet(_unused_name(".".join(axes), sets.values()), (*outer, *axes))
    edges = []
    for key, (targets, sources) in sides.items():
        connected = bool(targets and sources)
        edges.append(
            Edge(sets[sources].name if connected else None, sets[targets or sources].name, block=key)
        )
    for axes, product in sets.items():
        edges += [Edge(axis, product.name) for axis in dict.fromkeys(axes) if len(axes) > 1]
    return Topology(tuple(sets.values()), group_edges(edges))


def group_edges(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """The edges in order, with those between the same two node sets side by side: identities, then blocks."""
    groups: dict[tuple[str | None, str], list[Edge]] = {}
    for edge in edges:
        groups.setdefault((edge.source, edge.target), []).append(edge)
    return tuple(
        edge for group in groups.values() for edge in sorted(group, key=lambda e: e.block is not None)
    )


def _sides(spec: "WeightSpec", ref: BlockRef) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The axes of a block on stored dimension 0 and on others, without those that families are over."""
    names = ref.block.axes
    stored = stored_dims(spec.tensors[ref.tensor], ref.block)
    own = _own_dims(spec, ref)
    return (
        tuple(names[dim] for dim in own if stored[dim] == 0),
        tuple(names[dim] for dim in own if stored[dim] > 0),
    )


def _own_dims(spec: "WeightSpec", ref: BlockRef) -> tuple[int, ...]:
    """The neuron dimensions of a block that no family of the block is over."""
    names = ref.block.axes
    outer = {name for dim in ref.block.neuron_dims for name in spec.axes[names[dim]].family}
    return tuple(dim for dim in ref.block.neuron_dims if names[dim] not in outer)


def _unused_name(name: str, sets: Iterable[NodeSet]) -> str:
    taken = {node.name for node in sets}
    while name in taken:
        name += "_"
    return name
