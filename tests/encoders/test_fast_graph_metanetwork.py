"""The fast graph metanetwork: the battery of all encoders, means of features, other architectures."""

import pytest
import torch
from encoder_suite import EncoderSuite
from hypothesis import given, settings
from known_topologies import TOPOLOGIES, WITH_HYPEREDGES
from random_topologies import random_topologies
from small_networks import CNN, MLP, TRANSFORMER, largest_difference
from torch import nn

import wsl
from wsl.encoders import FastGraphMetanetwork
from wsl.models import Siren, coordinate_grid
from wsl.nn import InvariantHead, ProbeFeatures
from wsl.spec import SpecError, WeightSpec
from wsl.testing import assert_equivariant, assert_invariant, random_weights


def made(spec: WeightSpec, **options: int) -> FastGraphMetanetwork:
    small = {"channels": 8, "layers": 2, "runs": 3, "heads": 2, "width": 6, "frequencies": 2}
    return FastGraphMetanetwork(spec, **{**small, **options})


class TestFastGraphMetanetwork(EncoderSuite):
    def make(self, spec: WeightSpec) -> FastGraphMetanetwork:
        return made(spec)

    def test_no_channels(self) -> None:
        for channels in (0, -8):
            with pytest.raises(ValueError, match=f"channels={channels}"):
                FastGraphMetanetwork(MLP, channels=channels)
        for channels, heads in ((8, 3), (8, 0), (4, 4)):
            with pytest.raises(ValueError, match=f"channels={channels}, heads={heads}"):
                FastGraphMetanetwork(MLP, channels=channels, heads=heads)
        for options in ({"runs": -1}, {"network_layers": -1}, {"layers": -1}, {"width": 0}):
            with pytest.raises(ValueError, match="at least 0|>= 0"):
                made(MLP, **options)

    def test_statistics_standardise(self) -> None:
        """Without runs only standardised weights are read; runs have the raw ones."""
        weights = random_weights(MLP, 2)
        keys = [ref.key for ref in MLP.blocks]
        for runs in (0, 3):
            torch.manual_seed(0)
            encoder = made(MLP, runs=runs).double()
            plain = encoder(weights)
            encoder.set_statistics(dict.fromkeys(keys, 0.5), {**dict.fromkeys(keys, 2.0), "fc3.bias": 0.0})
            moved = {k: v * (1 if k == "fc3.bias" else 2.0) + 0.5 for k, v in weights.items()}
            assert (largest_difference(encoder(moved), plain) < 1e-9) == (runs == 0)


@settings(max_examples=10)
@given(spec=random_topologies())
def test_any_topology(spec: WeightSpec) -> None:
    torch.manual_seed(0)
    encoder = made(spec, layers=1).double()
    assert_equivariant(encoder, spec, trials=1)
    assert_means(encoder)


def assert_means(encoder: FastGraphMetanetwork) -> None:
    """The means that heads read are those of the features."""
    tensors = encoder(random_weights(encoder.spec, 2)).tensors
    for key in tensors:
        mean = tensors[key].reshape(2, -1, encoder.channels).mean(1)
        assert (tensors.mean(key) - mean).abs().max() < 1e-12, key  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [*TOPOLOGIES, *WITH_HYPEREDGES])
def test_means_are_those_of_the_features(name: str) -> None:
    torch.manual_seed(0)
    assert_means(made({**TOPOLOGIES, **WITH_HYPEREDGES}[name]).double())


@pytest.mark.parametrize("spec", [MLP, CNN, TRANSFORMER], ids=["mlp", "cnn", "transformer"])
def test_heads_read_means_without_features(spec: WeightSpec) -> None:
    encoder = made(spec)
    features = encoder(random_weights(spec, 2, dtype=torch.float32))
    InvariantHead(spec, 8, 3)(features)
    assert not {block.key for block in encoder.layout.edges if block.sides} & set(features.tensors._made)  # type: ignore[attr-defined]


@pytest.mark.parametrize("options", [{"runs": 0}, {"layers": 0}, {"network_layers": 0, "layers": 1}])
def test_parts_may_be_left_out(options: dict[str, int]) -> None:
    torch.manual_seed(0)
    assert_equivariant(made(TRANSFORMER, **options).double(), TRANSFORMER, trials=1)


def test_reads_other_architectures_with_the_same_parameters() -> None:
    encoder = made(MLP).double()
    other = encoder.for_spec(CNN)
    fresh = made(CNN).double()
    fresh.load_state_dict({**encoder.state_dict(), "mean": fresh.mean, "std": fresh.std})
    weights = random_weights(CNN, 2)
    assert largest_difference(other(weights), fresh(weights)) == 0
    assert [id(p) for p in other.parameters()] == [id(p) for p in encoder.parameters()]
    assert_equivariant(other, CNN)


def test_residual_connections_carry_states() -> None:
    """Without the identity edge another function of the same weights is encoded, and features differ."""
    spec = TOPOLOGIES["residual"]
    plain = WeightSpec(spec.axes, spec.tensors, nodes=spec.nodes, edges=[e for e in spec.edges if e.block])
    weights = random_weights(spec, 1)
    for options in ({"runs": 0}, {"layers": 0}):
        encoder = made(spec, **options).double()
        nodes = encoder(weights).nodes["h1.2"], encoder.for_spec(plain)(weights).nodes["h1.2"]
        assert (nodes[0] - nodes[1]).abs().max() > 1e-3


def test_positions_and_ends_are_not_exchangeable() -> None:
    encoder, weights = made(CNN).double(), random_weights(CNN, 1)
    for dim in (3, 4):
        flipped = {**weights, "conv2.weight": weights["conv2.weight"].flip(dim)}
        assert (encoder(weights).nodes["y"] - encoder(flipped).nodes["y"]).abs().max() > 1e-6
    encoder, head = made(MLP).double(), InvariantHead(MLP, 8, 3, ordered=0).double()
    weights = random_weights(MLP, 1)
    for name, dim in (("fc1.weight", 2), ("fc3.weight", 1)):
        flipped = {**weights, name: weights[name].flip(dim)}
        assert (head(encoder(weights)) - head(encoder(flipped))).abs().max() > 1e-6


def test_probes_are_equivariant_and_learned() -> None:
    spec, grid = _siren()
    probes = ProbeFeatures(Siren(2, (5, 4), 1), spec, grid, probes=7)
    for runs in (0, 3):
        encoder = FastGraphMetanetwork(spec, channels=8, layers=1, runs=runs, heads=2, probes=probes).double()
        head = InvariantHead(spec, 8, 3).double()
        assert_equivariant(encoder, spec)
        assert_invariant(nn.Sequential(encoder, head), spec)
        probes.zero_grad()
        head(encoder(random_weights(spec, 2))).sum().backward()
        assert probes.inputs[0].grad is not None and probes.inputs[0].grad.abs().max() > 0
    with pytest.raises(SpecError, match="of another architecture than the encoder"):
        FastGraphMetanetwork(MLP, channels=8, heads=2, probes=probes)


def _siren() -> tuple[WeightSpec, torch.Tensor]:
    grid = coordinate_grid((4, 4))
    return wsl.trace(Siren(2, (5, 4), 1), grid), grid
