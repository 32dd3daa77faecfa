"""States of networks of any architectures as lists: from weights, and to features of each architecture."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from wsl.encoders._base import DeferredTensors, WeightFeatures
from wsl.encoders._mixed_graphs import SparseGraphs
from wsl.graph import GraphBlock
from wsl.nn import GraphState

if TYPE_CHECKING:
    from wsl.encoders._graph_metanetwork import GraphMetanetwork

Group = tuple["GraphMetanetwork", Mapping[str, Tensor]]
"""An encoder's twin for an architecture, and weights ``(B, *shape)`` of it."""


class SparseState(NamedTuple):
    """What message passing on lists reads and updates.

    Args:
        entries: ``(W, C)``, states of the weights on edges.
        nodes: ``(N, C)``.
        networks: ``(B, C)``.
        contents: ``(W, C)``, or ``(W, 1)``: the weights, summed over positions with gains; constant.
    """

    entries: Tensor
    nodes: Tensor
    networks: Tensor
    contents: Tensor


def embed_groups(graphs: SparseGraphs, groups: Sequence[Group], counts: Sequence[int]) -> SparseState:
    """The state before all layers, with the parameters that all twins share.

    Args:
        graphs: of all networks, group after group.
        groups: the twins and their weights.
        counts: number of networks of each group.
    """
    encoder = groups[0][0]
    embedding = encoder.embedding
    values = _standardised(graphs, groups, counts)
    nodes = embedding.neurons(graphs.neurons) + graphs.operators @ embedding.operators
    networks = embedding.network.expand(sum(counts), -1)
    rows, states, contents = [], [nodes[:0]], [nodes[:0, :1]]
    for place in graphs.placements:
        own = values.index_select(0, place.values.flatten()).reshape(place.values.shape)
        features = embedding.fourier(own)
        if place.owner == "edges":
            gains = encoder.gains(place.block, networks)
            rows.append(place.rows)
            states.append(embedding.edges(place.block, features).relu_())
            contents.append(own if gains is None else own @ gains)
        elif place.owner == "nodes":
            own = embedding.nodes(place.block, features).to(nodes.dtype)
            nodes = nodes.index_add(0, place.rows, own)
        else:
            own = embedding.networks(place.block, features).to(networks.dtype)
            networks = networks.index_add(0, place.rows, own)
    nodes = embedding.norm(nodes + _given(graphs, groups, counts, nodes))
    width = max(part.shape[1] for part in contents)
    entries, content = torch.cat(states), torch.cat([part.expand(-1, width) for part in contents])
    if len(rows) > 1:
        order = torch.cat(rows).argsort()
        entries, content = entries.index_select(0, order), content.index_select(0, order)
    return SparseState(entries, nodes, networks, content)


def cut_features(
    graphs: SparseGraphs, groups: Sequence[Group], counts: Sequence[int], state: SparseState
) -> list[WeightFeatures]:
    """The state after all layers to features of each group; those of weights are computed when read."""
    parts = zip(
        groups,
        _by_group(graphs.sizes["entries"], counts, state.entries),
        _by_group(graphs.sizes["nodes"], counts, state.nodes),
        state.networks.split(list(counts)),
        strict=True,
    )
    return [_features(twin, weights, *own) for (twin, weights), *own in parts]


def _features(
    twin: "GraphMetanetwork", weights: Mapping[str, Tensor], entries: Tensor, nodes: Tensor, networks: Tensor
) -> WeightFeatures:
    sizes = [math.prod(block.sizes) for block in twin.layout.edges]
    parts = zip(twin.layout.edges, entries.split(sizes, dim=1), strict=True)
    edges = {block.key: part.reshape(len(part), *block.sizes, part.shape[-1]) for block, part in parts}
    values: dict[str, Tensor] = {}

    def read(block: GraphBlock) -> Tensor:
        if not values:
            values.update(twin.read(weights))
        return block.to_graph(values[block.key])

    blocks = DeferredTensors({block.key: partial(read, block) for block in twin.layout.blocks})
    return twin.features(blocks, GraphState(edges, nodes, networks, {}, {}))


def _standardised(graphs: SparseGraphs, groups: Sequence[Group], counts: Sequence[int]) -> Tensor:
    """All weights as one list, ``(values,)``."""
    stored, means, stds = [], [], []
    for (twin, weights), count in zip(groups, counts, strict=True):
        stored.append(
            torch.cat([weights[name].reshape(count, -1) for name in twin.spec.tensors], dim=1).flatten()
        )
        means.append(twin.mean.repeat(count))
        stds.append(twin.std.repeat(count))
    mean, std = (torch.cat(parts).index_select(0, graphs.value_block) for parts in (means, stds))
    return (torch.cat(stored) - mean) / std


def _given(graphs: SparseGraphs, groups: Sequence[Group], counts: Sequence[int], like: Tensor) -> Tensor:
    """What probe features add to nodes, ``(N, C)``; zeros where there are none."""
    added = torch.zeros_like(like)
    embedding = groups[0][0].embedding
    if embedding.given is None:
        return added
    numbers = torch.arange(len(like), device=like.device).unsqueeze(1)
    rows = _by_group(graphs.sizes["nodes"], counts, numbers)
    for (twin, weights), own in zip(groups, rows, strict=True):
        for name, features in (twin.probes(weights) if twin.probes is not None else {}).items():
            at = own[:, twin.layout.slices[name]].flatten()
            added = added.index_add(0, at, embedding.given(features).flatten(0, 1).to(added.dtype))
    return added


def _by_group(sizes: Tensor, counts: Sequence[int], rows: Tensor) -> list[Tensor]:
    """Cut ``(sum of sizes, C)`` into ``(B_i, size_i, C)``, where all networks of a group have one size."""
    starts = torch.tensor([0, *counts]).cumsum(0).tolist()
    own = [int(sizes[start]) for start in starts[:-1]]
    parts = rows.split([count * size for count, size in zip(counts, own, strict=True)])
    return [
        part.reshape(count, size, part.shape[-1])
        for part, count, size in zip(parts, counts, own, strict=True)
    ]
