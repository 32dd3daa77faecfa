"""NG-GNN: the battery of all encoders; one layer against loops over edges; what a node's degree does."""

import math

import pytest
import torch
from encoder_suite import EncoderSuite
from known_topologies import TOPOLOGIES, WITH_HYPEREDGES
from neural_graphs import Edge, edge_states, initial_edges, listed_edges
from small_networks import CNN, MLP, largest_difference
from torch import Tensor, nn
from torch.nn.functional import silu

import wsl
from wsl.encoders import NeuralGraphGNN
from wsl.graph import graph_layout
from wsl.models import Siren, coordinate_grid
from wsl.nn import InvariantHead, ProbeFeatures
from wsl.spec import WeightSpec
from wsl.testing import assert_equivariant, assert_invariant, random_weights


class TestNeuralGraphGNN(EncoderSuite):
    def make(self, spec: WeightSpec) -> NeuralGraphGNN:
        return NeuralGraphGNN(spec, channels=6, layers=2, frequencies=3)


def updated(update: nn.Module, edges: list[Edge], states: Tensor, nodes: Tensor) -> Tensor:
    """New states of edges, one at a time."""
    target, source = update.ends.weight.chunk(2)
    new = states.clone()
    for edge in edges:
        hidden = update.edge(states[:, edge.state])
        hidden = hidden + nodes[:, edge.target] @ target.T + nodes[:, edge.source] @ source.T
        new[:, edge.state] = update.out(silu(hidden))
    return new


def aggregated(layer: nn.Module, edges: list[Edge], states: Tensor, nodes: Tensor) -> Tensor:
    """New states of nodes from messages, one at a time."""
    receive, send = layer.messages.ends.weight.chunk(2)
    bias = sum(layer.messages.ends.bias.chunk(2))
    film = layer.messages.film(states).chunk(4, -1)
    new = []
    for i in range(nodes.shape[1]):
        messages = []
        for edge in edges:
            for side, (here, there) in enumerate(((edge.target, edge.source), (edge.source, edge.target))):
                if here == i:
                    pair = nodes[:, i] @ receive.T + nodes[:, there] @ send.T + bias
                    scale, shift = film[2 * side][:, edge.state], film[2 * side + 1][:, edge.state]
                    messages.append(scale * pair + shift)
        m = torch.stack(messages)
        deviation = (m.var(0, unbiased=False) + 1e-5).sqrt()
        pooled = torch.cat([m.mean(0), m.amin(0), m.amax(0), deviation], -1)
        scale = math.log(1 + len(messages)) / math.log(33)
        new.append(layer.own(nodes[:, i]) + layer.plain(pooled) + scale * layer.amplified(pooled))
    out = torch.stack(new, 1)
    return out if layer.norm is None else silu(layer.norm(out))


@pytest.mark.parametrize("name", ["mlp", "cnn", "residual", "lstm"])
def test_layers_equal_loops(name: str) -> None:
    spec = {"mlp": MLP, "cnn": CNN}.get(name) or TOPOLOGIES[name]
    encoder = NeuralGraphGNN(spec, channels=6, layers=2, frequencies=3).double()
    with torch.no_grad():
        encoder.identity.normal_()
    weights = random_weights(spec, 2)
    _, state = encoder.embed(weights)
    layout, nodes = graph_layout(spec), state.nodes + state.network.unsqueeze(1)
    edges, states = listed_edges(layout), initial_edges(layout, state, encoder.identity)
    nodes = aggregated(encoder.layers[0], edges, states, nodes)
    states = updated(encoder.edge_updates[0], edges, states, nodes)
    nodes = aggregated(encoder.layers[1], edges, states, nodes)
    states = updated(encoder.edge_updates[1], edges, states, nodes)
    found = encoder.update(state)
    assert (found.nodes - nodes).abs().max() < 1e-10
    weights_now = edge_states(layout, found)
    assert (weights_now - states[:, : weights_now.shape[1]]).abs().max() < 1e-10


def test_hyperedges() -> None:
    for spec in WITH_HYPEREDGES.values():
        assert_equivariant(NeuralGraphGNN(spec, channels=6, layers=2, frequencies=3).double(), spec)


def test_degrees_count() -> None:
    """Twice the same neurons give equal means and extremes; only the scale by the degree differs."""
    text = "axes h: {} hidden  x: 1 input  y: 1 output\na.weight h x\nb.weight y h"
    small, large = (WeightSpec.parse(text.format(n)) for n in (3, 6))
    encoder = NeuralGraphGNN(small, channels=6, layers=1, frequencies=3).double()
    with torch.no_grad():
        encoder.embedding.neurons.weight[:, 15:17] = 0  # the feature that tells sizes of layers
    weights = random_weights(small, 1)
    double = {
        "a.weight": weights["a.weight"].repeat(1, 2, 1),
        "b.weight": weights["b.weight"].repeat(1, 1, 2),
    }
    nodes = encoder(weights).nodes["y"], encoder.for_spec(large)(double).nodes["y"]
    assert (nodes[0] - nodes[1]).abs().max() > 1e-3
    with torch.no_grad():
        encoder.layers[0].amplified.weight.zero_()
    nodes = encoder(weights).nodes["y"], encoder.for_spec(large)(double).nodes["y"]
    assert (nodes[0] - nodes[1]).abs().max() < 1e-10


def test_reads_other_architectures_with_the_same_parameters() -> None:
    encoder = NeuralGraphGNN(MLP, channels=6, layers=2, frequencies=3).double()
    other, fresh = encoder.for_spec(CNN), NeuralGraphGNN(CNN, channels=6, layers=2, frequencies=3).double()
    fresh.load_state_dict({**encoder.state_dict(), "mean": fresh.mean, "std": fresh.std})
    weights = random_weights(CNN, 2)
    assert largest_difference(other(weights), fresh(weights)) == 0
    assert [id(p) for p in other.parameters()] == [id(p) for p in encoder.parameters()]


def test_probes() -> None:
    grid = coordinate_grid((4, 4))
    module = Siren(2, (5, 4), 1)
    spec = wsl.trace(module, grid)
    probes = ProbeFeatures(module, spec, grid, probes=7)
    encoder = NeuralGraphGNN(spec, channels=6, layers=1, frequencies=2, probes=probes).double()
    head = InvariantHead(spec, 6, 3).double()
    assert_equivariant(encoder, spec)
    assert_invariant(nn.Sequential(encoder, head), spec)
    head(encoder(random_weights(spec, 2))).sum().backward()
    assert probes.inputs[0].grad is not None and probes.inputs[0].grad.abs().max() > 0
