"""ScaleGMN, forward: the battery of all encoders, and which way messages go."""

import torch
from encoder_suite import EncoderSuite
from small_networks import MLP

from wsl.encoders import ScaleGMN
from wsl.spec import WeightSpec
from wsl.testing import random_weights


class TestScaleGMN(EncoderSuite):
    reach = 1e3

    def make(self, spec: WeightSpec) -> ScaleGMN:
        return ScaleGMN(spec, channels=6, layers=2, frequencies=3)


def test_messages_go_forward() -> None:
    encoder = ScaleGMN(MLP, channels=6, layers=3, frequencies=3).double()
    weights = random_weights(MLP, 1)
    before, after = encoder(weights), encoder({**weights, "fc3.weight": weights["fc3.weight"] + 1})
    assert all(torch.equal(before.nodes[name], after.nodes[name]) for name in ("x", "h1", "h2"))
    assert (before.nodes["y"] - after.nodes["y"]).abs().max() > 1e-3
