"""Neural functional transformers: the battery of all encoders, traced architectures, axes in fixed order."""

import copy

import pytest
import torch
from described_modules import MODULES
from encoder_suite import CNN, MLP, TRANSFORMER, EncoderSuite, largest_difference
from torch import nn

from wsl import trace
from wsl.encoders import NFT, WeightFeatures
from wsl.spec import WeightSpec
from wsl.testing import assert_equivariant, random_weights

TRACED = {
    **{name: (described.build, described.inputs) for name, described in MODULES.items()},
    "lstm": (lambda: nn.Sequential(nn.LSTM(2, 3, batch_first=True)), torch.zeros(2, 4, 2)),
    "transformer": (
        lambda: nn.Sequential(nn.Linear(2, 4), nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)),
        torch.zeros(2, 3, 2),
    ),
}


class TestNFT(EncoderSuite):
    def make(self, spec: WeightSpec) -> NFT:
        return NFT(spec, channels=6, layers=2, heads=2, frequencies=3)


def small(spec: WeightSpec) -> NFT:
    torch.manual_seed(0)
    return NFT(spec, channels=4, layers=2, heads=2, frequencies=2).double()


@pytest.mark.parametrize("name", TRACED)
def test_traced_architectures(name: str) -> None:
    build, inputs = TRACED[name]
    spec = trace(build(), inputs)
    assert_equivariant(small(spec), spec, trials=1)


def test_inputs_are_told_apart() -> None:
    """Exchanging two inputs is no symmetry, and is seen."""
    encoder, weights = small(MLP), random_weights(MLP, 1)
    exchanged = {**weights, "fc1.weight": weights["fc1.weight"].flip(2)}
    assert (encoder(weights).nodes["y"] - encoder(exchanged).nodes["y"]).abs().max() > 1e-3


@pytest.mark.parametrize("spec", [MLP, CNN, TRANSFORMER], ids=["mlp", "cnn", "transformer"])
def test_autocast(spec: WeightSpec) -> None:
    encoder, weights = small(spec).float(), random_weights(spec, 2, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = encoder(weights)
        half = WeightFeatures(dict(half.tensors), dict(half.nodes))
    assert largest_difference(half, encoder(weights)) < 0.2


def test_checkpointing_saves_memory() -> None:
    """The same gradients, from fewer numbers that are kept for the backward pass."""
    plain = small(CNN)
    twin = copy.deepcopy(plain)
    twin.checkpoint = True
    kept = []
    for encoder in (plain, twin):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept[-1].append(t.numel()) or t, lambda t: t):
            kept.append([])
            nodes = encoder(random_weights(CNN, 2, torch.Generator().manual_seed(0))).nodes
        sum(value.square().sum() for value in nodes.values()).backward()
    for one, other in zip(plain.parameters(), twin.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        assert one.grad is None or torch.equal(one.grad, other.grad)
    assert sum(kept[1]) < 0.5 * sum(kept[0])


def test_refused() -> None:
    with pytest.raises(ValueError, match="layers=-1"):
        NFT(MLP, layers=-1)
    with pytest.raises(ValueError, match="heads=5"):
        NFT(MLP, heads=5)


@pytest.mark.slow
def test_compiles() -> None:
    encoder, weights = small(MLP), random_weights(MLP, 2)

    def total(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        features = encoder(weights)
        return sum(part.sum() for parts in features for part in parts.values())

    torch.testing.assert_close(torch.compile(total)(weights), total(weights))
