"""NG-T: the battery of all encoders; layers against loops over edges; what it refuses."""

import pytest
import torch
from encoder_suite import EncoderSuite
from known_topologies import TOPOLOGIES, WITH_HYPEREDGES
from neural_graphs import Edge, edge_states, initial_edges, listed_edges
from small_networks import CNN, MLP, largest_difference
from torch import Tensor, nn
from torch.nn.functional import gelu

import wsl
from wsl.encoders import NeuralGraphTransformer
from wsl.graph import graph_layout
from wsl.models import Siren, coordinate_grid
from wsl.nn import EquivariantHead, InvariantHead, ProbeFeatures
from wsl.spec import WeightSpec
from wsl.testing import assert_equivariant, assert_invariant, random_weights


def small(spec: WeightSpec, **options: object) -> NeuralGraphTransformer:
    return NeuralGraphTransformer(spec, 6, 2, edge_channels=4, heads=3, frequencies=3, **options)


class TestNeuralGraphTransformer(EncoderSuite):
    def make(self, spec: WeightSpec) -> NeuralGraphTransformer:
        return small(spec)


def updated(update: nn.Module, edges: list[Edge], states: Tensor, nodes: Tensor) -> Tensor:
    """New states of edges, one at a time."""
    target, source = update.ends.weight.chunk(2)
    new = states.clone()
    for edge in edges:
        e = states[:, edge.state]
        hidden = update.edge(e) + nodes[:, edge.target] @ target.T + nodes[:, edge.source] @ source.T
        e = update.norm(e + update.out(gelu(hidden)))
        new[:, edge.state] = update.norm2(e + update.out2(gelu(update.edge2(e))))
    return new


def attended(layer: nn.Module, edges: list[Edge], states: Tensor, nodes: Tensor) -> Tensor:
    """New states of nodes from one softmax over all of their edges, one node and one head at a time."""
    own, heads = layer.messages, layer.messages.heads
    query, key, value = own.ends(nodes).chunk(3, -1)
    width = query.shape[-1] // heads
    rows = []
    for i in range(nodes.shape[1]):
        found = []
        for h in range(heads):
            at = slice(h * width, (h + 1) * width)
            scores, values = [], []
            for edge in edges:
                e = states[:, edge.state]
                for side, (here, there) in enumerate(
                    ((edge.target, edge.source), (edge.source, edge.target))
                ):
                    if here != i:
                        continue
                    q, k = own.edges(e).chunk(2, -1)
                    q = q + query[:, i] + own.directions[side, 0]
                    k, gain = k + key[:, there] + own.directions[side, 1], e @ own.gains[side].T
                    scores.append((q * k)[:, at].sum(-1) / width**0.5)
                    values.append((gain * value[:, there])[:, at] + e @ own.values[side, h])
            weights = torch.stack(scores).softmax(0)
            found.append((weights.unsqueeze(-1) * torch.stack(values)).sum(0))
        rows.append(layer.out(torch.cat(found, -1)))
    nodes = layer.norm(nodes + torch.stack(rows, 1))
    return layer.norm2(nodes + layer.mlp(nodes))


@pytest.mark.parametrize("name", ["mlp", "residual", "lstm"])
def test_layers_equal_loops(name: str) -> None:
    spec = MLP if name == "mlp" else TOPOLOGIES[name]
    encoder = small(spec).double()
    with torch.no_grad():
        encoder.identity.normal_()
        for layer in encoder.layers:
            layer.messages.directions.normal_()
    _, state = encoder.embed(random_weights(spec, 2))
    layout, nodes = graph_layout(spec), state.nodes + state.network.unsqueeze(1)
    edges, states = listed_edges(layout), initial_edges(layout, state, encoder.identity)
    for layer, update in zip(encoder.layers, encoder.edge_updates, strict=True):
        nodes = attended(layer, edges, states, nodes)
        states = updated(update, edges, states, nodes)
    found = encoder.update(state)
    assert (found.nodes - nodes).abs().max() < 1e-10
    weights_now = edge_states(layout, found)
    assert (weights_now - encoder.edges_out(states[:, : weights_now.shape[1]])).abs().max() < 1e-10


def test_hyperedges() -> None:
    for spec in WITH_HYPEREDGES.values():
        assert_equivariant(small(spec).double(), spec)


def test_reads_other_architectures_with_the_same_parameters() -> None:
    encoder = small(MLP).double()
    other, fresh = encoder.for_spec(CNN), small(CNN).double()
    fresh.load_state_dict({**encoder.state_dict(), "mean": fresh.mean, "std": fresh.std})
    weights = random_weights(CNN, 2)
    assert largest_difference(other(weights), fresh(weights)) == 0
    assert [id(p) for p in other.parameters()] == [id(p) for p in encoder.parameters()]


def test_checkpoints_change_nothing() -> None:
    spec, weights = TOPOLOGIES["residual"], random_weights(TOPOLOGIES["residual"], 3)
    found = []
    for checkpoint in (False, True):
        torch.manual_seed(0)
        encoder = small(spec, checkpoint=checkpoint).double()
        features = encoder(weights)
        sum((value * value.cos()).sum() for part in features for value in part.values()).backward()
        found.append((features, [parameter.grad for parameter in encoder.parameters()]))
    assert largest_difference(found[0][0], found[1][0]) < 1e-12
    for a, b in zip(found[0][1], found[1][1], strict=True):
        assert a is b is None or (a - b).abs().max() < 1e-10


def test_probes() -> None:
    module, grid = Siren(2, (5, 4), 1), coordinate_grid((4, 4))
    spec = wsl.trace(module, grid)
    probes = ProbeFeatures(module, spec, grid, probes=7)
    encoder, head = small(spec, probes=probes).double(), InvariantHead(spec, 6, 3).double()
    assert_invariant(nn.Sequential(encoder, head), spec)
    head(encoder(random_weights(spec, 2))).sum().backward()
    assert probes.inputs[0].grad is not None and probes.inputs[0].grad.abs().max() > 0


def test_autocast() -> None:
    encoder, head = small(MLP), EquivariantHead(MLP, 6, scale=1.0)
    weights = random_weights(MLP, 3, dtype=torch.float32)
    exact = head(encoder(weights))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = encoder(weights)
        rounded = head(features)
        sum(update.float().sum() for update in rounded.values()).backward()
    assert all((exact[name] - rounded[name]).abs().max() < 0.1 for name in exact)
    assert all(torch.isfinite(p.grad).all() for p in encoder.parameters() if p.grad is not None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        deferred = encoder(weights)
    assert (deferred.tensors["fc1.weight"] - features.tensors["fc1.weight"]).abs().max() < 0.1


@pytest.mark.parametrize("options", [{"heads": 5}, {"heads": 0}, {"edge_channels": 0}])
def test_widths_that_do_not_fit(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="heads that divide"):
        NeuralGraphTransformer(MLP, channels=6, **options)
