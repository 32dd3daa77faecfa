"""The battery of encoders with a state for every weight: traced networks, autocast, checkpoints, compiler."""

import copy

import pytest
import torch
from described_modules import MODULES
from encoder_suite import EncoderSuite
from small_networks import CNN
from torch import nn

from wsl import trace
from wsl.encoders import NFT, UniversalNeuralFunctional
from wsl.spec import WeightSpec
from wsl.testing import assert_equivariant, random_weights

_TRACED = {
    **{name: (described.build, described.inputs) for name, described in MODULES.items()},
    "lstm": (lambda: nn.Sequential(nn.LSTM(2, 3, batch_first=True)), torch.zeros(2, 4, 2)),
    "transformer": (
        lambda: nn.Sequential(nn.Linear(2, 4), nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)),
        torch.zeros(2, 3, 2),
    ),
}


class StatesSuite(EncoderSuite):
    """Subclass it as ``TestName``, and implement :meth:`make` and :meth:`small`."""

    def small(self, spec: WeightSpec) -> NFT | UniversalNeuralFunctional:
        """A small encoder in float64, always with the same parameters."""
        raise NotImplementedError

    @pytest.mark.parametrize("name", _TRACED)
    def test_traced_architectures(self, name: str) -> None:
        build, inputs = _TRACED[name]
        spec = trace(build(), inputs)
        assert_equivariant(self.small(spec), spec, trials=1)

    def test_checkpointing_saves_memory(self) -> None:
        """The same gradients, from fewer numbers that are kept for the backward pass."""
        plain = self.small(CNN)
        twin = copy.deepcopy(plain)
        twin.checkpoint = True
        kept: list[list[int]] = []
        for encoder in (plain, twin):
            with torch.autograd.graph.saved_tensors_hooks(
                lambda t: kept[-1].append(t.numel()) or t, lambda t: t
            ):
                kept.append([])
                nodes = encoder(random_weights(CNN, 2, torch.Generator().manual_seed(0))).nodes
            sum(value.square().sum() for value in nodes.values()).backward()
        for one, other in zip(plain.parameters(), twin.parameters(), strict=True):
            assert (one.grad is None) == (other.grad is None)
            assert one.grad is None or torch.equal(one.grad, other.grad)
        assert sum(kept[1]) < 0.5 * sum(kept[0])
