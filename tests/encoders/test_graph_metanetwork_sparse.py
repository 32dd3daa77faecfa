"""The graph metanetwork against its sparse twin, on topologies of every kind."""

import pytest
import torch
from hypothesis import given, settings
from known_topologies import TOPOLOGIES, WITH_HYPEREDGES
from random_topologies import random_topologies
from small_networks import largest_difference, traced

from wsl.encoders import GraphMetanetwork
from wsl.graph import GraphError, graph_layout
from wsl.spec import WeightSpec
from wsl.testing import assert_equivariant, random_specs, random_weights


def assert_equals_sparse(spec: WeightSpec) -> None:
    torch.manual_seed(0)
    encoder = GraphMetanetwork(spec, channels=6, layers=2, frequencies=3).double()
    with torch.no_grad():
        for layer in encoder.layers:
            layer.identity.copy_(torch.randn_like(layer.identity))  # else both directions have one map
    weights = random_weights(spec, 3)
    assert largest_difference(encoder(weights), encoder.sparse()(weights)) < 1e-10


@settings(max_examples=20)
@given(spec=random_specs(max_size=4))
def test_equals_its_sparse_twin(spec: WeightSpec) -> None:
    assert_equals_sparse(spec)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_equals_its_sparse_twin_on_every_topology(name: str) -> None:
    assert_equals_sparse(TOPOLOGIES[name])


def test_equals_its_sparse_twin_in_single_precision() -> None:
    spec = traced("siren")
    weights = random_weights(spec, 4, dtype=torch.float32)
    encoder = GraphMetanetwork(spec)
    twin = encoder.sparse()
    assert largest_difference(encoder(weights), twin(weights)) < 1e-5
    assert {id(p) for p in twin.parameters()} == {id(p) for p in encoder.parameters()}


@settings(max_examples=20)
@given(spec=random_topologies())
def test_any_topology(spec: WeightSpec) -> None:
    torch.manual_seed(0)
    assert_equivariant(GraphMetanetwork(spec, channels=4, layers=2, frequencies=1).double(), spec, trials=1)
    if not any(block.is_hyperedge for block in graph_layout(spec).edges):
        assert_equals_sparse(spec)


@pytest.mark.parametrize(("name", "key"), [("bias and gain", "slope"), ("unused", r"fc\.unused")])
def test_hyperedges_are_dense_only(name: str, key: str) -> None:
    encoder = GraphMetanetwork(WITH_HYPEREDGES[name], channels=6, layers=2, frequencies=3).double()
    assert_equivariant(encoder, encoder.spec, atol=1e-9)
    with pytest.raises(GraphError, match=f"{key} lies on hyperedges"):
        encoder.sparse()
