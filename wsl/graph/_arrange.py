"""Where to draw node sets: in layers along the edges, in an order within layers that crosses few of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wsl.spec import Topology, WeightSpec

_SWEEPS = 8


@dataclass(frozen=True)
class Arrow:
    """All edges from one node set to another.

    Args:
        source, target: names of the node sets.
        blocks: keys of the blocks on the edges; an identity has none.
        backward: whether the arrow closes a cycle.
    """

    source: str
    target: str
    blocks: tuple[str, ...]
    backward: bool


@dataclass(frozen=True)
class Arrangement:
    """Node sets in layers.

    Args:
        layers: names of node sets, from inputs to outputs.
        arrows: the connections between different node sets, and of sets with themselves.
        held: for each node set the blocks that belong to it.
    """

    layers: tuple[tuple[str, ...], ...]
    arrows: tuple[Arrow, ...]
    held: Mapping[str, tuple[str, ...]]

    def layer_of(self) -> dict[str, int]:
        """The layer of each node set."""
        return {name: i for i, layer in enumerate(self.layers) for name in layer}


def arrange(spec: WeightSpec) -> Arrangement:
    """Arrange the node sets of ``spec.topology``.

    Forward arrows go to later layers, each set as late as its longest way from a source demands; what no
    arrow reaches stands right before what it feeds.
    """
    topology = spec.topology
    linked: dict[tuple[str, str], list[str]] = {}
    held: dict[str, list[str]] = {node.name: [] for node in topology.nodes}
    for edge in topology.edges:
        blocks = [edge.block] if edge.block else []
        if edge.source is None:
            held[edge.target] += blocks
        else:
            linked.setdefault((edge.source, edge.target), []).extend(blocks)
    backward = _backward(spec, topology, list(linked))
    forward = [pair for pair in linked if pair not in backward]
    layers = _order(_layers(topology, forward), forward)
    return Arrangement(
        tuple(map(tuple, layers)),
        tuple(Arrow(*pair, tuple(blocks), pair in backward) for pair, blocks in linked.items()),
        {name: tuple(blocks) for name, blocks in held.items()},
    )


def lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """For each span the lowest lane in which it meets no other; short spans choose first."""
    taken: list[list[tuple[float, float]]] = []
    chosen = [0] * len(spans)
    ordered = [(min(span), max(span), i) for i, span in enumerate(spans)]
    for low, high, i in sorted(ordered, key=lambda span: span[1] - span[0]):
        lane = next(
            (n for n, used in enumerate(taken) if all(high < a or b < low for a, b in used)), len(taken)
        )
        taken += [[]] * (lane == len(taken))
        taken[lane] = [*taken[lane], (low, high)]
        chosen[i] = lane
    return chosen


def _backward(spec: WeightSpec, topology: Topology, pairs: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """Arrows on a cycle that lead back in the order of the node sets, inputs first and outputs last."""
    ends = {"input": -1, "output": 1}
    last = {node.name: spec.axes[node.axes[-1]].kind if node.axes else "" for node in topology.nodes}
    ordered = sorted(last, key=lambda name: ends.get(last[name], 0))
    place = {name: i for i, name in enumerate(ordered)}
    following: dict[str, list[str]] = {name: [] for name in ordered}
    for source, target in pairs:
        following[source].append(target)
    reachable = {name: _reachable(name, following) for name in ordered}
    return {
        (source, target)
        for source, target in pairs
        if place[target] <= place[source] and source in reachable[target]
    }


def _reachable(start: str, following: Mapping[str, Sequence[str]]) -> set[str]:
    found, queue = {start}, [start]
    while queue:
        new = [name for name in following[queue.pop()] if name not in found]
        found.update(new)
        queue += new
    return found


def _layers(topology: Topology, forward: list[tuple[str, str]]) -> list[list[str]]:
    depth = {node.name: 0 for node in topology.nodes}
    moved = True
    while moved:
        moved = False
        for source, target in forward:
            if depth[target] <= depth[source]:
                depth[target] = depth[source] + 1
                moved = True
    reached = {target for _, target in forward}
    for name in depth:
        fed = [depth[target] for source, target in forward if source == name]
        if name not in reached and fed:
            depth[name] = min(fed) - 1
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, layer in depth.items():
        layers[layer].append(name)
    return [layer for layer in layers if layer]


def _order(layers: list[list[str]], forward: list[tuple[str, str]]) -> list[list[str]]:
    """Sort each layer by where its neighbours stand, sweeping down and up."""
    neighbours: dict[str, list[str]] = {name: [] for layer in layers for name in layer}
    for source, target in forward:
        neighbours[source].append(target)
        neighbours[target].append(source)
    layer_of = {name: i for i, layer in enumerate(layers) for name in layer}
    place = {name: (i + 0.5) / len(layer) for layer in layers for i, name in enumerate(layer)}
    for sweep in range(_SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        for layer in layers[::step]:
            mean = {}
            for name in layer:
                seen = [
                    place[other]
                    for other in neighbours[name]
                    if (layer_of[other] < layer_of[name]) == (step == 1) and layer_of[other] != layer_of[name]
                ]
                mean[name] = sum(seen) / len(seen) if seen else place[name]
            layer.sort(key=mean.__getitem__)
            place |= {name: (i + 0.5) / len(layer) for i, name in enumerate(layer)}
    return layers
