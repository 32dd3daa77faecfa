"""The Set Transformer on neurons: the battery of all encoders, attention against its formula."""

import math

import pytest
import torch
from encoder_suite import EncoderSuite
from hypothesis import given, settings
from random_topologies import random_topologies
from small_networks import CNN, MLP, largest_difference

from wsl.encoders import SetTransformer
from wsl.nn import AttentionPooling, InducedAttention, MultiheadAttentionBlock
from wsl.spec import WeightSpec
from wsl.testing import assert_equivariant, random_weights


class TestSetTransformer(EncoderSuite):
    def make(self, spec: WeightSpec) -> SetTransformer:
        return SetTransformer(spec, channels=6, layers=1, heads=2, points=3, frequencies=3)


@settings(max_examples=25)
@given(spec=random_topologies())
def test_any_topology(spec: WeightSpec) -> None:
    torch.manual_seed(0)
    encoder = SetTransformer(spec, channels=4, layers=1, heads=1, points=2, frequencies=1)
    assert_equivariant(encoder.double(), spec, trials=1)


def test_attention_equals_loops() -> None:
    block = MultiheadAttentionBlock(6, 2).double()
    x, y = torch.randn(2, 4, 6).double(), torch.randn(2, 5, 6).double()
    query = block.query(block.query_norm(x))
    key, value = block.key_value(block.key_norm(y)).chunk(2, dim=-1)
    heads = []
    for part in (slice(0, 3), slice(3, 6)):
        scores = query[..., part] @ key[..., part].mT / math.sqrt(3)
        heads.append(scores.softmax(-1) @ value[..., part])
    hidden = x + block.out(torch.cat(heads, dim=-1))
    assert torch.allclose(block(x, y), hidden + block.layers(hidden), atol=1e-12)


def test_sets_have_no_order() -> None:
    torch.manual_seed(0)
    induced, pooling = InducedAttention(6, 2, 3).double(), AttentionPooling(6, 2).double()
    x, order = torch.randn(2, 7, 6).double(), torch.randperm(7)
    assert torch.allclose(induced(x[:, order]), induced(x)[:, order], atol=1e-12)
    assert torch.allclose(pooling(x[:, order]), pooling(x), atol=1e-12)
    changed = torch.cat([x[:, :-1], x[:, -1:] + 0.1 * torch.randn(2, 1, 6)], dim=1)
    assert (pooling(changed) - pooling(x)).abs().min() > 1e-6
    assert (induced(changed) - induced(x))[:, :-1].abs().min() > 1e-9, "elements do not attend to each other"


def test_neurons_of_all_layers_attend_to_each_other() -> None:
    encoder, weights = _seeded(MLP), random_weights(MLP, 1)
    changed = {**weights, "fc3.bias": weights["fc3.bias"] + 0.1}
    assert (encoder(weights).nodes["x"] - encoder(changed).nodes["x"]).abs().min() > 1e-9


def test_reads_other_architectures_with_the_same_parameters() -> None:
    encoder, fresh = _seeded(MLP), _seeded(CNN)
    other = encoder.for_spec(CNN)
    fresh.load_state_dict({**encoder.state_dict(), "mean": fresh.mean, "std": fresh.std})
    weights = random_weights(CNN, 2)
    assert largest_difference(other(weights), fresh(weights)) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"layers": -1}, "layers=-1"), ({"heads": 4}, "channels=6, heads=4"), ({"points": 0}, "points=0")],
)
def test_bad_arguments(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SetTransformer(MLP, **{"channels": 6, "heads": 2, **arguments})


def _seeded(spec: WeightSpec) -> SetTransformer:
    torch.manual_seed(0)
    return SetTransformer(spec, channels=6, layers=1, heads=2, points=3, frequencies=3).double()
