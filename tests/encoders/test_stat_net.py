"""The statistics baseline: the battery of all encoders, and its numbers against torch's own."""

import pytest
import torch
from encoder_suite import EncoderSuite
from small_networks import CNN, MLP, largest_difference

import wsl
from wsl.encoders import BlockStatNet, StatNet
from wsl.encoders._stat_net import QUANTILES, block_statistics
from wsl.spec import SpecError, WeightSpec
from wsl.testing import random_weights


class TestStatNet(EncoderSuite):
    sees_order = False  # histograms have none

    def make(self, spec: WeightSpec) -> StatNet:
        return StatNet(spec, channels=6, hidden=8)


class TestBlockStatNet(EncoderSuite):
    sees_order = False

    def make(self, spec: WeightSpec) -> BlockStatNet:
        return BlockStatNet(spec, channels=6, hidden=8)


@pytest.mark.parametrize("shape", [(1,), (2,), (3, 7), (4, 2, 5)])
def test_statistics_equal_those_of_torch(shape: tuple[int, ...]) -> None:
    block = torch.randn(3, *shape, dtype=torch.float64)
    flat = block.flatten(1)
    quantiles = flat.quantile(torch.tensor(QUANTILES, dtype=torch.float64), dim=1).T
    expected = torch.cat([flat.mean(1)[:, None], flat.var(1, correction=0)[:, None], quantiles], dim=1)
    assert torch.allclose(block_statistics(block), expected, atol=1e-12)


@pytest.mark.parametrize("kind", [StatNet, BlockStatNet])
def test_sees_histograms_only(kind: type[StatNet | BlockStatNet]) -> None:
    """Any order of the entries of a block gives the same features; any other entry gives others."""
    torch.manual_seed(0)
    encoder = kind(MLP, channels=6, hidden=8).double()
    weights = random_weights(MLP, 2)
    flat = weights["fc2.weight"].flatten(1)
    shuffled = {**weights, "fc2.weight": flat[:, torch.randperm(6)].reshape(2, 2, 3)}
    assert largest_difference(encoder(weights), encoder(shuffled)) < 1e-12
    moved = {**weights, "fc2.weight": weights["fc2.weight"] + weights["fc2.weight"].sign() * 0.01}
    assert largest_difference(encoder(weights), encoder(moved)) > 1e-6


def test_features_are_broadcast() -> None:
    features = StatNet(CNN, channels=6, hidden=8).double()(random_weights(CNN, 2))
    vectors = features.nodes["c1"][:, 0]
    for part in (*features.nodes.values(), *features.tensors.values()):
        assert torch.equal(part.flatten(1, -2), vectors.unsqueeze(1).expand(-1, part[0, ..., 0].numel(), -1))


@pytest.mark.parametrize("kind", [StatNet, BlockStatNet])
def test_networks_without_weights_are_refused(kind: type[StatNet | BlockStatNet]) -> None:
    with pytest.raises(SpecError, match="has no weights"):
        kind(wsl.trace(torch.nn.ReLU(), torch.rand(2, 3)), channels=4)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="layers=-1"):
        StatNet(MLP, channels=4, layers=-1)


def test_reads_other_architectures_with_the_same_parameters() -> None:
    torch.manual_seed(0)
    encoder = BlockStatNet(MLP, channels=6, hidden=8).double()
    other, fresh = encoder.for_spec(CNN), BlockStatNet(CNN, channels=6, hidden=8).double()
    fresh.load_state_dict({**encoder.state_dict(), "mean": fresh.mean, "std": fresh.std})
    weights = random_weights(CNN, 2)
    assert largest_difference(other(weights), fresh(weights)) == 0
    assert [id(p) for p in other.parameters()] == [id(p) for p in encoder.parameters()]


def test_tells_the_blocks_apart() -> None:
    """Two layers of one shape that change places give other features: their depths differ."""
    spec = WeightSpec.parse(
        "axes  a: 3 hidden relu   b: 3 hidden relu   x: 3 input   y: 3 output\n"
        "1.weight  a x\n2.weight  b a\n3.weight  y b\n"
    )
    torch.manual_seed(0)
    encoder = BlockStatNet(spec, channels=6, hidden=8).double()
    weights = random_weights(spec, 2)
    swapped = {**weights, "1.weight": weights["2.weight"], "2.weight": weights["1.weight"]}
    assert largest_difference(encoder(weights), encoder(swapped)) > 1e-6
