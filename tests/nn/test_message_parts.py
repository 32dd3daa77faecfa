"""Linear messages, Fourier features, kernel gains, heads: each against what it is said to be."""

import math

import pytest
import torch

from wsl.encoders import WeightFeatures
from wsl.graph import graph_layout
from wsl.nn import EquivariantHead, GaussianFourierFeatures, InvariantHead
from wsl.nn._embedding import BlockEmbedding, PositionGains
from wsl.nn._linear_messages import matrix_messages, tensor_messages
from wsl.nn._positions import neuron_features, operator_features, position_features
from wsl.spec import WeightSpec

SPEC = WeightSpec.parse(
    "axes h: 3 hidden sin  k: 2 hidden softsign  x: 2 input  y: 2 output\n"
    "a.weight h x _ _   _=3x3\na.bias h\nb.weight k h\nc.weight y k\nd.bias h"
)


def test_messages_of_matrices_are_products() -> None:
    weights, gains = torch.randn(2, 3, 4, 6), torch.randn(6, 5)
    below, above = torch.randn(2, 4, 5), torch.randn(2, 3, 5)
    plain = matrix_messages(weights[..., :1], below, None, 0)
    assert torch.allclose(plain, weights[..., 0] @ below / 2)
    plain = matrix_messages(weights[..., :1], above, None, 1)
    assert torch.allclose(plain, weights[..., 0].mT @ above / math.sqrt(3))
    expected = torch.einsum("bijp,pc,bjc->bic", weights, gains, below) / math.sqrt(24)
    assert torch.allclose(matrix_messages(weights, below, gains, 0), expected, atol=1e-6)


@pytest.mark.parametrize("gained", [True, False])
def test_messages_of_tensors_equal_those_of_matrices(gained: bool) -> None:
    weights = torch.randn(2, 3, 4, 6 if gained else 1)
    gains = torch.randn(6, 5) if gained else None
    for states, side in ((torch.randn(2, 4, 5), 0), (torch.randn(2, 3, 5), 1)):
        found = tensor_messages(weights, states, gains, [side], [1 - side])
        assert torch.allclose(found, matrix_messages(weights, states, gains, side), atol=1e-6)


def test_messages_of_tensors_between_any_dimensions() -> None:
    weights, states = torch.randn(2, 3, 4, 2, 1), torch.randn(2, 6, 5)
    matrices = weights[..., 0].permute(0, 2, 1, 3).reshape(2, 4, 6)
    found = tensor_messages(weights, states, None, [1], [0, 2])
    assert torch.allclose(found, matrices @ states / math.sqrt(6), atol=1e-6)
    diagonal = tensor_messages(weights, states, None, [2], [0, 2])  # equal indices of dimension 2
    expected = torch.einsum("zak,zakx->zkx", weights.mean(2)[..., 0], states.reshape(2, 3, 2, 5))
    assert torch.allclose(diagonal, expected / math.sqrt(3), atol=1e-6)


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


def test_activations_tell_nodes_apart() -> None:
    text = (
        "axes h: 2 hidden  k: 3 hidden  x: 2 input\na.weight h x\nb.weight k h\nnodes x: x  h: h {}  k: k {}"
    )
    text += "\nedge: x h a.weight\nedge: h k b.weight"
    plain, rare = (
        graph_layout(WeightSpec.parse(text.format(*words)))
        for words in (("relu", "tanh"), ("exp", "product"))
    )
    like = (torch.float32, torch.device("cpu"))
    assert operator_features(plain, *like) is None
    rows = operator_features(rare, *like)
    assert rows is not None and rows.sum(1).tolist() == [0] * 2 + [1] * 5
    assert rows[2:].unique(dim=0).shape[0] == 2
    common = neuron_features(plain, *like)
    assert (common[2] != common[4]).any() and common.shape == neuron_features(rare, *like).shape
