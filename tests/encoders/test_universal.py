"""Universal neural functionals: the battery of all encoders, traced architectures, axes in fixed order."""

import copy

import pytest
import torch
from described_modules import MODULES
from encoder_suite import CNN, MLP, TRANSFORMER, EncoderSuite, largest_difference
from torch import nn

from wsl import trace
from wsl.encoders import UniversalNeuralFunctional, WeightFeatures
from wsl.models import Siren
from wsl.spec import SpecError, WeightSpec
from wsl.testing import assert_equivariant, random_weights

TRACED = {
    **{name: (described.build, described.inputs) for name, described in MODULES.items()},
    "lstm": (lambda: nn.Sequential(nn.LSTM(2, 3, batch_first=True)), torch.zeros(2, 4, 2)),
    "transformer": (
        lambda: nn.Sequential(nn.Linear(2, 4), nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)),
        torch.zeros(2, 3, 2),
    ),
}


class TestUniversalNeuralFunctional(EncoderSuite):
    def make(self, spec: WeightSpec) -> UniversalNeuralFunctional:
        return UniversalNeuralFunctional(spec, channels=6, layers=2, frequencies=3, ordered=2)


def small(spec: WeightSpec, *, ordered: int = 4) -> UniversalNeuralFunctional:
    torch.manual_seed(0)
    return UniversalNeuralFunctional(spec, channels=4, layers=2, frequencies=2, ordered=ordered).double()


@pytest.mark.parametrize("name", TRACED)
def test_traced_architectures(name: str) -> None:
    build, inputs = TRACED[name]
    spec = trace(build(), inputs)
    assert_equivariant(small(spec), spec, trials=1)


@pytest.mark.parametrize("ordered", [0, 2])
def test_inputs_are_told_apart(ordered: int) -> None:
    """Folded into channels or not: exchanging two inputs is no symmetry, and is seen."""
    encoder, weights = small(MLP, ordered=ordered), random_weights(MLP, 1)
    exchanged = {**weights, "fc1.weight": weights["fc1.weight"].flip(2)}
    before, after = encoder(weights), encoder(exchanged)
    assert (before.nodes["y"] - after.nodes["y"]).abs().max() > 1e-3
    moved = {**after.tensors, "fc1.weight": after.tensors["fc1.weight"].flip(2)}
    assert largest_difference(before, after._replace(tensors=moved)) > 1e-3


def test_kernel_positions_are_told_apart() -> None:
    encoder, weights = small(CNN), random_weights(CNN, 1)
    turned = {**weights, "conv1.weight": weights["conv1.weight"].flip(3)}
    assert (encoder(weights).nodes["y"] - encoder(turned).nodes["y"]).abs().max() > 1e-3


def test_parameters_stay_few_for_large_inputs() -> None:
    """Maps for every pair of indices would need a thousand times as many."""
    encoder = UniversalNeuralFunctional(trace(Siren(1000, (4,), 1), torch.zeros(1, 1000)), channels=4)
    assert sum(parameter.numel() for parameter in encoder.parameters()) < 10_000


def test_maps_start_near_the_identity() -> None:
    """A weight that differs from its neighbours still does after many layers."""
    spec = trace(Siren(2, (16, 16), 1), torch.zeros(1, 2))
    torch.manual_seed(0)
    encoder = UniversalNeuralFunctional(spec, channels=8, layers=8)
    features = encoder(random_weights(spec, 1, dtype=torch.float32)).tensors["layers.1.weight"][0]
    assert features.isfinite().all() and features.abs().max() < 1e4
    assert (features - features.mean((0, 1))).square().mean() > 0.1 * features.square().mean()


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
    five = "axes  h: 2 hidden\nweight  h h h h h"
    with pytest.raises(SpecError, match="carries axis h 5 times"):
        small(WeightSpec.parse(five))
    with pytest.raises(ValueError, match="layers=-1"):
        UniversalNeuralFunctional(MLP, layers=-1)


@pytest.mark.parametrize("spec", [MLP, CNN, TRANSFORMER], ids=["mlp", "cnn", "transformer"])
def test_autocast(spec: WeightSpec) -> None:
    encoder, weights = small(spec).float(), random_weights(spec, 2, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = encoder(weights)
        half = WeightFeatures(dict(half.tensors), dict(half.nodes))
    assert largest_difference(half, encoder(weights)) < 0.2


@pytest.mark.slow
def test_compiles() -> None:
    encoder, weights = small(MLP), random_weights(MLP, 2)

    def total(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        features = encoder(weights)
        return sum(part.sum() for parts in features for part in parts.values())

    torch.testing.assert_close(torch.compile(total)(weights), total(weights))
