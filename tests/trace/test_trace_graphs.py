"""From a module to its computational graph: traced specifications make graphs, and encoders read them."""

from functools import cache

import pytest
import torch
from architectures import KNOWN

from wsl import WeightSpec, trace
from wsl.encoders import GraphMetanetwork
from wsl.graph import ComputationalGraph, graph_layout
from wsl.testing import assert_equivariant, random_weights

ENCODED = [
    "resnet_bottleneck",
    "densenet",
    "unet",
    "grouped",
    "squeeze_excitation",
    "multihead_attention",
    "transformer_encoder",
    "llama",
    "lstm_stacked",
    "gru_bidirectional",
    "mixture_of_experts",
    "mixer",
    "tied_language_model",
    "autoencoder",
]


@cache
def traced(name: str) -> WeightSpec:
    row = KNOWN[name]
    return trace(row.build(), row.inputs(), output=row.output)


@pytest.mark.parametrize("name", KNOWN)
def test_graphs_of_architectures_round_trip(name: str) -> None:
    spec = traced(name)
    weights = random_weights(spec, 1)
    data = ComputationalGraph.from_weights(spec, weights).to_pyg()
    back = ComputationalGraph.from_pyg(data).to_weights()
    assert list(back) == list(weights)
    assert all(torch.equal(back[key], weights[key]) for key in weights)


@pytest.mark.parametrize("name", ENCODED)
def test_encoders_read_architectures(name: str) -> None:
    spec = traced(name)
    torch.manual_seed(0)
    encoder = GraphMetanetwork(spec, channels=4, layers=2, frequencies=1).double()
    assert_equivariant(encoder, spec, atol=1e-9, trials=1)
    weights = random_weights(spec, 2)
    dense, sparse = encoder(weights), encoder.sparse()(weights)
    assert all((dense.nodes[key] - sparse.nodes[key]).abs().max() < 1e-10 for key in dense.nodes)
    assert all((dense.tensors[key] - sparse.tensors[key]).abs().max() < 1e-10 for key in dense.tensors)


@pytest.mark.parametrize("name", ["resnet_bottleneck", "transformer_encoder", "lstm_stacked", "unet"])
def test_every_node_is_reached_from_the_inputs(name: str) -> None:
    depths = graph_layout(traced(name)).depths
    assert all(None not in depth for depth in depths.values()), depths
