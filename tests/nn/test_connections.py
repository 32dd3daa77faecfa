"""Connections: where states of nodes go, and how many edges a node has."""

import pytest
import torch
from known_topologies import TOPOLOGIES, WITH_HYPEREDGES

from wsl.graph import graph_layout, graph_tables
from wsl.nn import connections, fold_edges
from wsl.nn._principal_aggregation import degree_scales
from wsl.nn._relational_attention import join_heads
from wsl.nn._relational_step import attend


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_degrees_are_those_of_the_sparse_graph(name: str) -> None:
    layout = graph_layout(TOPOLOGIES[name])
    tables = graph_tables(layout)
    degrees = torch.bincount(tables.edge_index.flatten(), minlength=len(tables.node_type))
    found = degree_scales(layout, torch.float64, torch.device("cpu")).squeeze(1)
    assert torch.allclose(
        found, torch.log1p(degrees.double()) / torch.log(torch.tensor(33.0)).double(), atol=1e-6
    )


@pytest.mark.parametrize("name", [*TOPOLOGIES, *WITH_HYPEREDGES])
def test_what_is_gathered_is_scattered_back(name: str) -> None:
    layout = graph_layout((TOPOLOGIES | WITH_HYPEREDGES)[name])
    for connection in connections(layout):
        for terminal in connection.terminals:
            states = torch.randn(2, layout.sizes[terminal.end.nodes], 3)
            gathered = terminal.gather(states)
            assert gathered.shape == (2 * connection.batch, *terminal.shape, 3)
            back = terminal.scatter(gathered.squeeze(terminal.others) if terminal.others else gathered)
            shared = terminal.end.parts[3] * (terminal.end.parts[2] if terminal.weighted else 1)
            assert back.shape == states.shape
            assert torch.equal(back, states) == (shared == 1)
            assert torch.allclose(terminal.gather(back), gathered, atol=1e-6), "means of means"


def test_identity_edges_start_alike() -> None:
    layout = graph_layout(TOPOLOGIES["residual"])
    edges = {block.key: torch.randn(2, *block.sizes, 3) for block in layout.edges}
    folded = fold_edges(layout, edges, torch.arange(3.0), 2)
    assert torch.equal(folded[0], torch.arange(3.0).expand(2, 3, 3))
    assert all(torch.equal(folded[key], states) for key, states in edges.items())


def test_attention_over_parts_is_attention_over_all() -> None:
    layout = graph_layout(TOPOLOGIES["residual"])
    terminal = connections(layout)[0].terminals[0]
    assert terminal.dims == (0,)
    parts = []
    for n in (2, 5, 7):
        shape = (4, 3, n)
        parts.append(tuple(torch.randn(*shape, *rest, dtype=torch.float64) for rest in ((6,), (2,), (2, 3))))
    readout = torch.randn(2, 6, 3, dtype=torch.float64)
    found = join_heads([(1, attend(*part, readout, terminal)) for part in parts], heads=2)
    whole = attend(*(torch.cat(part, 2) for part in zip(*parts, strict=True)), readout, terminal)
    assert (found - whole[..., :-2]).abs().max() < 1e-12
    twice = join_heads(
        [(2, attend(*parts[0], readout, terminal)), (1, attend(*parts[1], readout, terminal))], 2
    )
    listed = [torch.cat([a, a, b], 2) for a, b in zip(parts[0], parts[1], strict=True)]
    assert (twice - attend(*listed, readout, terminal)[..., :-2]).abs().max() < 1e-12
