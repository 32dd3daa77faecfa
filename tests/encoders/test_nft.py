"""Neural functional transformers: the battery of all encoders, traced architectures, axes in fixed order."""

import pytest
import torch
from small_networks import MLP
from states_suite import StatesSuite

from wsl.encoders import NFT
from wsl.spec import WeightSpec


class TestNFT(StatesSuite):
    def small(self, spec: WeightSpec) -> NFT:
        return small(spec)

    def make(self, spec: WeightSpec) -> NFT:
        return NFT(spec, channels=6, layers=2, heads=2, frequencies=3)


def small(spec: WeightSpec) -> NFT:
    torch.manual_seed(0)
    return NFT(spec, channels=4, layers=2, heads=2, frequencies=2).double()


def test_refused() -> None:
    with pytest.raises(ValueError, match="layers=-1"):
        NFT(MLP, layers=-1)
    with pytest.raises(ValueError, match="heads=5"):
        NFT(MLP, heads=5)
