"""ScaleGMN, forward: the battery, scalings, and which way messages go."""

import torch
from scale_gmns import ScaleSuite
from small_networks import MLP

from wsl.encoders import ScaleGMN
from wsl.spec import WeightSpec
from wsl.testing import random_weights


class TestScaleGMN(ScaleSuite):
    def make(self, spec: WeightSpec, channels: int = 6) -> ScaleGMN:
        return ScaleGMN(spec, channels=channels, layers=2, frequencies=3)


def test_messages_go_forward() -> None:
    encoder = ScaleGMN(MLP, channels=6, layers=3, frequencies=3).double()
    weights = random_weights(MLP, 1)
    before, after = encoder(weights), encoder({**weights, "fc3.weight": weights["fc3.weight"] + 1})
    assert all(torch.equal(before.nodes[name], after.nodes[name]) for name in ("x", "h1", "h2"))
    assert (before.nodes["y"] - after.nodes["y"]).abs().max() > 1e-3
