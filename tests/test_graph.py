"""Computational graphs: what each block becomes, and the exchange with torch_geometric."""

import pytest
import torch
from hypothesis import given, settings
from known_topologies import TOPOLOGIES, WITH_HYPEREDGES
from random_topologies import random_topologies

from wsl.graph import (
    ACTIVATIONS,
    EDGE_KINDS,
    ComputationalGraph,
    GraphError,
    GraphLayout,
    graph_layout,
    graph_tables,
)
from wsl.spec import SpecError, WeightSpec
from wsl.testing import random_specs, random_weights

CNN = WeightSpec.parse(
    """
    axes   c1: 3 hidden relu   h1: 2 hidden   x: 1 input   y: 2 output
    conv.weight         c1 x _ _   _=3x2
    conv.bias           c1
    bn.weight           c1
    bn.bias             c1
    bn.running_var      c1
    fc.weight           h1 (c1 4)
    fc.bias             h1
    head.weight         y h1
    temperature
    """
)


def test_blocks_by_their_neuron_axes() -> None:
    layout = graph_layout(CNN)
    assert [block.key for block in layout.edges] == ["conv.weight", "fc.weight", "head.weight"]
    assert [(block.key, block.role, block.occurrence) for block in layout.nodes] == [
        ("conv.bias", "bias", 0),
        ("bn.weight", "weight", 0),
        ("bn.bias", "bias", 1),
        ("bn.running_var", "running_var", 0),
        ("fc.bias", "bias", 0),
    ]
    assert [(block.key, block.role) for block in layout.globals] == [("temperature", "other")]
    fc = layout.edges[1]
    assert (fc.groups, fc.positions, layout.identities) == (((2,), (3,)), (4,), ())
    assert [(use.target.nodes, use.source and use.source.nodes) for use in fc.uses] == [("h1", "c1")]
    assert graph_layout(WeightSpec.parse(str(CNN))) is layout


def test_depths_are_graph_distances() -> None:
    assert graph_layout(CNN).depths == {"x": (0, 3), "c1": (1, 2), "h1": (2, 1), "y": (3, 0)}
    lonely = WeightSpec.parse("axes a: 2 hidden  b: 2 hidden\nw a b")
    assert graph_layout(lonely).depths == {"a": (None, None), "b": (None, None)}
    tied = graph_layout(TOPOLOGIES["tied"])  # one axis, which is the input and the output
    assert tied.depths == {"x": (0, 2), "h": (1, 1), "y": (2, 0)}


def test_dimensions_fold_into_pairs_of_node_sets() -> None:
    """Heads and inner neurons are one group of nodes; groups of a convolution are a batch of matrices."""
    attention = {block.key: block for block in graph_layout(TOPOLOGIES["attention"]).edges}
    assert attention["q.weight"].groups == ((2, 2), (3,)) and not attention["q.weight"].batched
    for name in ("grouped", "groups in rows"):
        conv = next(block for block in graph_layout(TOPOLOGIES[name]).edges if block.key == "conv.weight")
        assert (conv.batched, conv.batch, len(conv.inner)) == (True, 2, 2)
    kinds = {
        name: (len(layout.edges), len(layout.nodes), len(layout.globals), len(layout.identities))
        for name, layout in ((name, graph_layout(spec)) for name, spec in TOPOLOGIES.items())
    }
    assert kinds["attention"] == (6, 3, 0, 5)
    assert kinds["lstm"] == (9, 4, 0, 6)
    assert kinds["mixer"] == (6, 3, 0, 3)
    assert kinds["tied"] == (1, 2, 0, 0)


def test_a_product_is_connected_with_its_factors() -> None:
    layout = graph_layout(TOPOLOGIES["bilinear"])
    assert layout.sizes == {"a": 3, "b": 2, "x": 2, "y": 2, "a.b": 6}
    first, second = layout.identities
    states = torch.arange(6.0).reshape(1, 6, 1)
    assert first.target.nodes == second.target.nodes == "a.b"
    assert first.target.fold(states)[0, 0].flatten().tolist() == [0.5, 2.5, 4.5]  # of each a, over b
    assert second.target.fold(states)[0, 0].flatten().tolist() == [2.0, 3.0]
    source = torch.tensor([10.0, 20.0]).reshape(1, 1, 2)
    assert second.target.unfold(source).flatten().tolist() == [10.0, 20.0] * 3


def assert_round_trips(spec: WeightSpec) -> None:
    weights = random_weights(spec, 2)
    graph = ComputationalGraph.from_weights(spec, weights)
    batch = graph.to_pyg()
    assert batch.validate() and batch.num_graphs == 2
    second = batch.to_data_list()[1]
    for rows, back in (
        (slice(None), graph.to_weights()),
        (slice(None), ComputationalGraph.from_pyg(batch).to_weights()),
        (slice(None), ComputationalGraph.from_pyg(batch, spec).to_weights()),
        (slice(1, 2), ComputationalGraph.from_pyg(second).to_weights()),
    ):
        assert list(back) == list(weights)
        assert all(torch.equal(back[name], weights[name][rows]) for name in weights)


@settings(max_examples=30)
@given(spec=random_specs(max_size=4))
def test_round_trips_are_exact(spec: WeightSpec) -> None:
    assert_round_trips(spec)


@settings(max_examples=30)
@given(spec=random_topologies())
def test_round_trips_of_any_topology_are_exact(spec: WeightSpec) -> None:
    assert_round_trips(spec)


@pytest.mark.parametrize("name", [*TOPOLOGIES, *WITH_HYPEREDGES])
def test_round_trips_of_architectures_are_exact(name: str) -> None:
    assert_round_trips({**TOPOLOGIES, **WITH_HYPEREDGES}[name])


def test_edges_hold_the_weights_between_their_ends() -> None:
    weights = random_weights(CNN, 2)
    data = ComputationalGraph.from_weights(CNN, weights).to_pyg()[1]
    axes = list(CNN.axes)
    starts = {axis: (data.node_type == i).nonzero()[0].item() for i, axis in enumerate(axes)}
    for (source, target), attr, kind in zip(
        data.edge_index.T.tolist(), data.edge_attr, data.edge_type, strict=True
    ):
        i, j = (end - starts[axes[data.node_type[end]]] for end in (target, source))
        if kind == 0:
            assert torch.equal(attr, weights["conv.weight"][1, i, j].flatten())
        elif kind == 1:
            assert attr.tolist() == [*weights["fc.weight"][1, i].reshape(3, 4)[j].tolist(), 0, 0]
        else:
            assert attr.tolist() == [weights["head.weight"][1, i, j].item(), 0, 0, 0, 0, 0]
    assert data.edge_index.shape[1] == 3 + 6 + 4
    for i, axis in enumerate(CNN.axes.values()):
        mine = data.node_type == i
        expected = [-1] * axis.size if axis.kind == "hidden" else list(range(axis.size))
        assert data.node_position[mine].tolist() == expected
        assert data.node_layer[mine].tolist() == [graph_layout(CNN).depths[axis.name][0]] * axis.size
    neuron = starts["c1"] + 2
    expected = ["conv.bias", "bn.weight", "bn.bias", "bn.running_var"]
    assert data.x[neuron].tolist() == [weights[name][1, 2].item() for name in expected]
    assert data.u.tolist() == [[weights["temperature"][1].item()]]


def _pairs(data: object, layout: GraphLayout, source: str, target: str, kind: str) -> list[list[int]]:
    """Edges of a kind from one node set to another, as indices within both."""
    names = list(layout.sizes)
    s, t = data.edge_index
    chosen = (data.node_type[s] == names.index(source)) & (data.node_type[t] == names.index(target))
    chosen &= data.edge_kind == EDGE_KINDS.index(kind)
    starts = torch.tensor([[layout.slices[source].start], [layout.slices[target].start]])
    return (data.edge_index[:, chosen] - starts).T.tolist()


def test_residual_connections_are_edges_without_weights() -> None:
    spec = TOPOLOGIES["residual"]
    layout = graph_layout(spec)
    data = ComputationalGraph.from_weights(spec, random_weights(spec, 1)).to_pyg()[0]
    assert _pairs(data, layout, "h1", "h1.2", "identity") == [[i, i] for i in range(3)]
    rest = data.edge_kind == EDGE_KINDS.index("identity")
    assert rest.sum() == 3 and not data.edge_attr[rest].any() and (data.weight_id[rest] == -1).all()
    assert set(data.edge_type[rest].tolist()).isdisjoint(data.edge_type[~rest].tolist())
    assert [ACTIVATIONS[i] for i in data.node_activation.tolist()] == (
        [None] * 2 + ["relu"] * 3 + ["relu"] * 4 + ["relu"] * 3 + [None] * 2
    )
    heads = TOPOLOGIES["attention"]
    data = ComputationalGraph.from_weights(heads, random_weights(heads, 1)).to_pyg()[0]
    found = _pairs(data, graph_layout(heads), "q", "p", "identity")
    assert sorted(found) == [[0, 0], [1, 0], [2, 1], [3, 1]]  # q: (h d), p: h


def test_shared_weights_lie_on_every_edge_that_uses_them() -> None:
    spec = TOPOLOGIES["tied"]
    weights = random_weights(spec, 1)
    data = ComputationalGraph.from_weights(spec, weights).to_pyg()[0]
    assert data.edge_index.shape[1] == 2 * 12 and data.weight_id.tolist() == 2 * list(range(12))
    assert torch.equal(data.edge_attr[:12], data.edge_attr[12:])
    layout, names = graph_layout(spec), ["x", "h", "y"]
    for (s, t), value, kind in zip(data.edge_index.T.tolist(), data.edge_attr, data.edge_type, strict=True):
        source, target = names[data.node_type[s]], names[data.node_type[t]]
        assert (source, target) == (("x", "h"), ("h", "y"))[kind]
        i, j = s - layout.slices[source].start, t - layout.slices[target].start
        assert value.item() == weights["weight"][0][(j, i) if kind == 0 else (i, j)]


def test_edges_of_groups_stay_within_them() -> None:
    spec = TOPOLOGIES["groups in rows"]
    weights, layout = random_weights(spec, 1), graph_layout(TOPOLOGIES["groups in rows"])
    data = ComputationalGraph.from_weights(spec, weights).to_pyg()[0]
    found = _pairs(data, layout, "in", "out", "weight")
    assert len(found) == 12 and all(i // 2 == o // 3 for i, o in found)
    t = data.edge_index[1]
    for (i, o), value in zip(found, data.edge_attr[data.node_type[t] == 2], strict=True):
        assert value.item() == weights["conv.weight"][0, o % 3, i // 2, i % 2]
    out = data.x[data.node_type == 2].flatten().tolist()
    assert out == weights["scale"][0].repeat_interleave(3).tolist()


def test_a_hyperedge_is_a_star() -> None:
    spec = WITH_HYPEREDGES["bias and gain"]
    weights = random_weights(spec, 1)
    data = ComputationalGraph.from_weights(spec, weights).to_pyg()[0]
    entries = (data.node_type == 4).nonzero().flatten().tolist()
    assert torch.equal(data.x[entries], weights["slope"][0])
    links = data.edge_index[:, data.edge_kind == EDGE_KINDS.index("hyperedge")].T.tolist()
    h, after = (graph_layout(spec).slices[name].start for name in ("h", "h.2"))
    expected = [[e, n + i] for i, e in enumerate(entries) for n in (h, after)]
    assert sorted(links) == sorted(expected + [[h + i, e] for i, e in enumerate(entries)])
    loose = WITH_HYPEREDGES["unused"]
    data = ComputationalGraph.from_weights(loose, random_weights(loose, 1)).to_pyg()[0]
    unused = (data.node_type == 3).nonzero().flatten()
    assert len(unused) == 6 and not torch.isin(data.edge_index, unused).any()


def test_tables_are_cached() -> None:
    assert graph_tables(graph_layout(CNN)) is graph_tables(graph_layout(CNN))


def test_gradients_pass_through() -> None:
    weights = {name: tensor.requires_grad_() for name, tensor in random_weights(CNN, 2).items()}
    data = ComputationalGraph.from_weights(CNN, weights).to_pyg()
    (data.x.sum() + data.edge_attr.sum() + data.u.sum()).backward()
    assert all(torch.equal(tensor.grad, torch.ones_like(tensor)) for tensor in weights.values())


def test_foreign_graphs_are_refused() -> None:
    from torch_geometric.data import Batch

    other = WeightSpec.parse("axes x: 2 input  y: 3 output\nfc.weight y x\nfc.bias y")
    mine = ComputationalGraph.from_weights(CNN, random_weights(CNN, 2)).to_pyg()
    with pytest.raises(GraphError, match="another architecture"):
        ComputationalGraph.from_pyg(mine, other)
    foreign = ComputationalGraph.from_weights(other, random_weights(other, 1)).to_pyg()
    graphs = [*mine.to_data_list(), *foreign.to_data_list()]
    for graph in graphs:
        graph.x = graph.x[:, :1]
        graph.edge_attr = graph.edge_attr[:, :1]
        graph.u = torch.zeros(1, 1)
    with pytest.raises(GraphError, match="2 architectures"):
        ComputationalGraph.from_pyg(Batch.from_data_list(graphs))
    with pytest.raises(SpecError, match=r"fc\.weight has size 3 on dim 1"):
        ComputationalGraph.from_weights(
            other, {"fc.weight": torch.zeros(1, 3, 3), "fc.bias": torch.zeros(1, 3)}
        )


def test_graphs_that_cannot_be_read_back() -> None:
    from torch_geometric.data import Data

    graph = ComputationalGraph.from_weights(CNN, random_weights(CNN, 2))
    with pytest.raises(GraphError, match=r"no u, spec; only graphs that to_pyg\(\) made"):
        ComputationalGraph.from_pyg(Data(x=torch.zeros(1, 1), edge_attr=torch.zeros(1, 1)))
    empty = ComputationalGraph(graph.layout, {key: value[:0] for key, value in graph.values.items()})
    with pytest.raises(GraphError, match="0 networks"):
        empty.to_pyg()
