"""From the edges of a topology to the parts of the graph: which dimensions of a block lie at which end."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from wsl.graph._block import ROLES, GraphBlock
from wsl.graph._ends import End, Use
from wsl.spec import BlockRef, Edge, NodeSet, WeightSpec, edge_ends

_Cover = dict[int, int]  # a neuron dimension of a block, to the axis of a node set that it indexes


def build_blocks(spec: WeightSpec) -> tuple[GraphBlock, ...]:
    """A part of the graph for every block of ``spec``."""
    edges: dict[str, list[Edge]] = {ref.key: [] for ref in spec.blocks}
    for edge in spec.topology.edges:
        if edge.block is not None:
            edges[edge.block].append(edge)
    sets = {nodes.name: nodes for nodes in spec.topology.nodes}
    seen: Counter[tuple[object, ...]] = Counter()
    blocks = []
    for ref in spec.blocks:
        last = ref.tensor.rsplit(".", 1)[-1]
        role = last if last in ROLES else ROLES[-1]
        places: set[tuple[object, ...]] = {(role, edge.source, edge.target) for edge in edges[ref.key]}
        places = places or {(role,)}
        occurrence = max(seen[place] for place in places)
        seen.update({place: occurrence + 1 - seen[place] for place in places})
        blocks.append(_build_block(spec, ref, edges[ref.key], sets, role, occurrence))
    return tuple(blocks)


def build_identities(spec: WeightSpec) -> tuple[Use, ...]:
    """The edges without weights."""
    sets = {nodes.name: nodes for nodes in spec.topology.nodes}
    return tuple(
        _build_use(spec, sets[edge.target], sets[edge.source], [{}, {}], ())
        for edge in spec.topology.edges
        if edge.block is None and edge.source is not None
    )


def _build_block(
    spec: WeightSpec,
    ref: BlockRef,
    edges: Sequence[Edge],
    sets: Mapping[str, NodeSet],
    role: str,
    occurrence: int,
) -> GraphBlock:
    neurons = ref.block.neuron_dims
    axes = [ref.block.axes[dim] for dim in neurons]
    covers = []
    for edge in edges:
        source = None if edge.source is None else sets[edge.source]
        covers.append(_covers(axes, edge_ends(spec, edge), sets[edge.target], source))
    groups = _group(len(neurons), [cover for pair in covers for cover in pair])
    batched = bool(groups) and all(groups[0][0] in cover for pair in covers for cover in pair)
    uses = []
    for edge, pair in zip(edges, covers, strict=True):
        source = None if edge.source is None else sets[edge.source]
        uses.append(_build_use(spec, sets[edge.target], source, pair, groups, batched))
    rest = tuple(dim for dim in range(len(ref.block.view)) if dim not in neurons)
    return GraphBlock(
        key=ref.key,
        role=role,
        groups=tuple(tuple(ref.block.view[neurons[i]] for i in group) for group in groups),
        batched=batched,
        positions=tuple(ref.block.view[dim] for dim in rest),
        order=(*(neurons[i] for group in groups for i in group), *rest),
        uses=tuple(uses),
        occurrence=occurrence,
    )


def _covers(axes: Sequence[str], letters: str, target: NodeSet, source: NodeSet | None) -> list[_Cover]:
    """For target and source, which axis each dimension of a block indexes there.

    Dimensions take the indices of an axis in order. An axis that both sets carry and that only one of them
    has a dimension for is shared: the dimension indexes both.
    """
    sets = [target] if source is None else [target, source]
    covers: list[_Cover] = [{} for _ in sets]
    for nodes, cover, own in zip(sets, covers, ("tb", "sb"), strict=False):
        for dim, letter in enumerate(letters):
            if letter in own:
                _cover(cover, dim, axes[dim], nodes)
    for cover, other, nodes in zip(covers, [dict(cover) for cover in covers[::-1]], sets, strict=True):
        for dim in sorted(other.keys() - cover.keys()) if source is not None else ():
            _cover(cover, dim, axes[dim], nodes)
    return covers


def _cover(cover: _Cover, dim: int, axis: str, nodes: NodeSet) -> None:
    """Let ``dim`` index the next ``axis`` of ``nodes``, if there is one left."""
    left = (i for i, name in enumerate(nodes.axes) if name == axis and i not in cover.values())
    if (found := next(left, None)) is not None:
        cover[dim] = found


def _group(count: int, covers: Sequence[_Cover]) -> tuple[tuple[int, ...], ...]:
    """Dimensions by the ends that they index; those that index all ends first, then in order."""
    found: dict[tuple[bool, ...], list[int]] = {}
    for dim in range(count):
        found.setdefault(tuple(dim in cover for cover in covers), []).append(dim)
    ordered = sorted(found.items(), key=lambda item: (not all(item[0]), item[1]))
    return tuple(tuple(dims) for _, dims in ordered)


def _build_use(
    spec: WeightSpec,
    target: NodeSet,
    source: NodeSet | None,
    covers: Sequence[_Cover],
    groups: Sequence[Sequence[int]],
    batched: bool = False,
) -> Use:
    sets = [target] if source is None else [target, source]
    free = [
        [i for i in range(len(nodes.axes)) if i not in cover.values()]
        for nodes, cover in zip(sets, covers, strict=True)
    ]
    common: list[list[int]] = [[] for _ in sets]
    for i in free[0] if source is not None else ():
        left = (k for k in free[1] if sets[1].axes[k] == target.axes[i] and k not in common[1])
        if (match := next(left, None)) is not None:
            common[0].append(i)
            common[1].append(match)
    ends = []
    for side, (nodes, cover) in enumerate(zip(sets, covers, strict=True)):
        inner = tuple(g for g in range(int(batched), len(groups)) if groups[g][0] in cover)
        parts = (
            [cover[dim] for dim in groups[0]] if batched else [],
            [cover[dim] for g in inner for dim in groups[g]],
            common[side],
            [i for i in free[side] if i not in common[side]],
        )
        sizes = tuple(spec.axes[axis].size for axis in nodes.axes)
        batch, covered, shared, rest = (math.prod(sizes[i] for i in part) for part in parts)
        order = tuple(itertools.chain.from_iterable(parts))
        ends.append(End(nodes.name, side == 0, sizes, order, inner, (batch, covered, shared, rest)))
    return Use(*ends) if source is not None else Use(ends[0], None)
