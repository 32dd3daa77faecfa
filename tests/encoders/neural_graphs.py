"""Edges of neural graphs one by one, for the slow twins of their layers."""

from typing import NamedTuple

import torch
from torch import Tensor

from wsl.graph import EDGE_KINDS, GraphLayout, graph_tables
from wsl.nn import GraphState


class Edge(NamedTuple):
    """An edge between two nodes, and which state lies on it."""

    source: int
    target: int
    state: int


def listed_edges(layout: GraphLayout) -> list[Edge]:
    """All edges; those without weights have states of their own, after those of weights."""
    tables = graph_tables(layout)
    weights = int(tables.weight_id.max()) + 1
    edges = []
    for source, target, weight, kind in zip(
        *tables.edge_index.tolist(), tables.weight_id.tolist(), tables.edge_kind.tolist(), strict=True
    ):
        if EDGE_KINDS[kind] == "identity":
            weight, weights = weights, weights + 1
        edges.append(Edge(source, target, weight))
    return edges


def edge_states(layout: GraphLayout, state: GraphState) -> Tensor:
    """States of all weights in the order of the tables, ``(B, weights, C)``."""
    parts = [state.edges[block.key].flatten(1, -2) for block in layout.edges]
    return torch.cat(parts, dim=1)


def initial_edges(layout: GraphLayout, state: GraphState, identity: Tensor) -> Tensor:
    """States of all edges before the first layer, ``(B, states, C)``."""
    states = edge_states(layout, state)
    extra = 1 + max(edge.state for edge in listed_edges(layout)) - states.shape[1]
    return torch.cat([states, identity.expand(len(states), extra, -1)], dim=1)
