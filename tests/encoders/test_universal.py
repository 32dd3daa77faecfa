"""Universal neural functionals: the battery of all encoders, traced architectures, axes in fixed order."""

import pytest
import torch
from small_networks import CNN, MLP, largest_difference
from states_suite import StatesSuite

from wsl import trace
from wsl.encoders import UniversalNeuralFunctional
from wsl.models import Siren
from wsl.spec import SpecError, WeightSpec
from wsl.testing import random_weights


class TestUniversalNeuralFunctional(StatesSuite):
    def small(self, spec: WeightSpec) -> UniversalNeuralFunctional:
        return small(spec)

    def make(self, spec: WeightSpec) -> UniversalNeuralFunctional:
        return UniversalNeuralFunctional(spec, channels=6, layers=2, frequencies=3, ordered=2)


def small(spec: WeightSpec, *, ordered: int = 4) -> UniversalNeuralFunctional:
    torch.manual_seed(0)
    return UniversalNeuralFunctional(spec, channels=4, layers=2, frequencies=2, ordered=ordered).double()


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


def test_refused() -> None:
    five = "axes  h: 2 hidden\nweight  h h h h h"
    with pytest.raises(SpecError, match="carries axis h 5 times"):
        small(WeightSpec.parse(five))
    with pytest.raises(ValueError, match="layers=-1"):
        UniversalNeuralFunctional(MLP, layers=-1)
