"""Computational graphs: what each block becomes, and the exchange with torch_geometric."""

import pytest
import torch
from hypothesis import given, settings

from wsl.graph import ComputationalGraph, GraphError, graph_layout, graph_tables
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
    assert (fc.axes, fc.targets, fc.positions) == (("h1", "c1"), (True, False), (4,))
    assert graph_layout(WeightSpec.parse(str(CNN))) is layout


def test_depths_are_graph_distances() -> None:
    assert graph_layout(CNN).depths == {"x": (0, 3), "c1": (1, 2), "h1": (2, 1), "y": (3, 0)}
    lonely = WeightSpec.parse("axes a: 2 hidden  b: 2 hidden\nw a b")
    assert graph_layout(lonely).depths == {"a": (None, None), "b": (None, None)}


def test_targets_of_sums_and_products() -> None:
    spec = WeightSpec.parse(
        "axes a: 2 hidden  b: 3 hidden  x: 4 input\nw (a + b) x\nv (a b) x _   _=2\nu a a"
    )
    found = {block.key: (block.axes, block.targets) for block in graph_layout(spec).blocks}
    assert found == {
        "w[0]": (("a", "x"), (True, False)),
        "w[1]": (("b", "x"), (True, False)),
        "v": (("a", "b", "x"), (True, True, False)),
        "u": (("a", "a"), (True, False)),
    }


@settings(max_examples=60)
@given(spec=random_specs(max_size=4))
def test_round_trips_are_exact(spec: WeightSpec) -> None:
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


def test_a_hyperedge_is_a_star() -> None:
    spec = WeightSpec.parse("axes g: 2 hidden  i: 3 hidden  o: 2 hidden\nw (g o) i")
    weights = random_weights(spec, 1)
    data = ComputationalGraph.from_weights(spec, weights).to_pyg()[0]
    entries = (data.node_type == 3).nonzero().flatten()
    assert len(entries) == 12
    entry = entries[1 * 6 + 0 * 3 + 2].item()  # w[g=1, o=0, i=2]
    assert data.x[entry].item() == weights["w"][0, 2, 2].item()
    touching = [tuple(edge) for edge in data.edge_index.T.tolist() if entry in edge]
    assert sorted(touching) == sorted([(2 + 2, entry), (entry, 1), (entry, 5)])


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
