"""Linear messages, Fourier features, kernel gains, heads: each against what it is said to be."""

import math

import pytest
import torch

from wsl.encoders import WeightFeatures
from wsl.graph import graph_layout
from wsl.nn import EquivariantHead, GaussianFourierFeatures, InvariantHead
from wsl.nn._embedding import BlockEmbedding, PositionGains
from wsl.nn._linear_messages import linear_messages
from wsl.nn._positions import neuron_features, position_features
from wsl.spec import WeightSpec

SPEC = WeightSpec.parse(
    "axes h: 3 hidden sin  k: 2 hidden softsign  x: 2 input  y: 2 output\n"
    "a.weight h x _ _   _=3x3\na.bias h\nb.weight k h\nc.weight y k\nd.bias h"
)


def test_linear_messages_of_a_matrix_are_products() -> None:
    weights = torch.randn(2, 3, 4, 1)
    states = [torch.randn(2, 3, 5), torch.randn(2, 4, 5)]
    to_first, to_second = linear_messages(weights, states, None)
    assert torch.allclose(to_first, weights[..., 0] @ states[1] / 2)
    assert torch.allclose(to_second, weights[..., 0].mT @ states[0] / math.sqrt(3))


def test_linear_messages_of_kernels_and_hyperedges_equal_einsum() -> None:
    weights, gains = torch.randn(2, 3, 4, 2, 6), torch.randn(6, 5)
    states = [torch.randn(2, n, 5) for n in (3, 4, 2)]
    first, _, third = linear_messages(weights, states, gains)
    expected = torch.einsum("bijkp,pc,bjc->bic", weights, gains, states[1]) / 2 / math.sqrt(24)
    expected += torch.einsum("bijkp,pc,bkc->bic", weights, gains, states[2]) / 4 / math.sqrt(12)
    assert torch.allclose(first, expected, atol=1e-6)
    expected = torch.einsum("bijkp,pc,bic->bkc", weights, gains, states[0]) / 4 / math.sqrt(18)
    expected += torch.einsum("bijkp,pc,bjc->bkc", weights, gains, states[1]) / 3 / math.sqrt(24)
    assert torch.allclose(third, expected, atol=1e-6)


def test_fourier_features() -> None:
    features = GaussianFourierFeatures(5)
    values = torch.randn(3, 2)
    out = features(values)
    assert out.shape == (3, 2, features.channels) == (3, 2, 11)
    assert torch.equal(out[..., 0], values)
    phase = 2 * math.pi * features.frequency * values[..., None]
    assert torch.allclose(out[..., 1:6], phase.sin()) and torch.allclose(out[..., 6:], phase.cos())
    assert torch.equal(features.frequency, GaussianFourierFeatures(5).frequency)
    assert not torch.equal(
        features.frequency, GaussianFourierFeatures(5, generator=torch.Generator().manual_seed(1)).frequency
    )
    assert GaussianFourierFeatures(0)(values).shape == (3, 2, 1)
    with pytest.raises(ValueError, match="frequencies"):
        GaussianFourierFeatures(-1)
    with pytest.raises(ValueError, match="scales"):
        GaussianFourierFeatures(2, scales=(2.0, 1.0))


def test_gains_are_one_where_nothing_is_to_tell_apart() -> None:
    blocks = {block.key: block for block in graph_layout(SPEC).blocks}
    gains = PositionGains(4)
    like = torch.zeros(1)
    assert gains(blocks["b.weight"], like) is None and gains(blocks["a.bias"], like) is None
    assert gains(blocks["d.bias"], like).shape == (1, 4)  # the second bias of its axis
    kernel = gains(blocks["a.weight"], like)
    assert kernel.shape == (9, 4)
    assert torch.pdist(kernel).min() > 1e-4


def test_positions_are_distinct_and_centred() -> None:
    block = graph_layout(SPEC).edges[0]
    features = position_features(block, torch.float32, torch.device("cpu"))
    assert features is not None and torch.pdist(features).min() > 0.1
    assert features[4, 0] == features[4, 10] == 0  # the centre of the kernel


def test_neuron_features_tell_apart_what_may_not_be_permuted() -> None:
    layout = graph_layout(SPEC)
    rows = neuron_features(layout, torch.float32, torch.device("cpu"))
    for axis in SPEC.axes.values():
        own = rows[layout.slices[axis.name]]
        assert (torch.pdist(own).max() == 0) == (axis.kind == "hidden"), axis


def test_embedding_of_kernels_equals_a_sum() -> None:
    block = graph_layout(SPEC).edges[0]
    embedding = BlockEmbedding(3, 4)
    features = torch.randn(2, 3, 2, 9, 3)
    gains = embedding.gains(block, features)
    parts = [gains[p] * (features[..., p, :] @ embedding.weight[0]) for p in range(9)]
    assert torch.allclose(embedding(block, features), sum(parts) / 3 + embedding.bias[0], atol=1e-5)


def _features(channels: int) -> WeightFeatures:
    return WeightFeatures(
        {ref.key: torch.randn(2, *ref.block.view, channels) for ref in SPEC.blocks},
        {axis.name: torch.randn(2, axis.size, channels) for axis in SPEC.axes.values()},
    )


def test_invariant_head_pools() -> None:
    features = _features(4)
    head = InvariantHead(SPEC, 4, 3, ordered=2)
    pooled = head.pool(features).reshape(2, -1, 4)
    assert head(features).shape == (2, 3)
    expected = [features.nodes["h"].mean(1), features.nodes["k"].mean(1)]
    expected += [*features.nodes["x"].unbind(1), *features.nodes["y"].unbind(1)]
    expected += [features.tensors[ref.key].flatten(1, -2).mean(1) for ref in SPEC.blocks]
    assert torch.allclose(pooled, torch.stack(expected, 1))


def test_equivariant_head_starts_small_and_fits_the_weights() -> None:
    features = _features(4)
    update = EquivariantHead(SPEC, 4)(features)
    assert SPEC.check_weights(update) == 2
    assert all(0 < tensor.abs().max() < 0.1 for tensor in update.values())
