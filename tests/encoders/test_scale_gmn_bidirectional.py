"""ScaleGMN, bidirectional: the battery of all encoders, and which way messages go."""

from encoder_suite import EncoderSuite
from small_networks import MLP

from wsl.encoders import ScaleGMNBidirectional
from wsl.spec import WeightSpec
from wsl.testing import random_weights


class TestScaleGMNBidirectional(EncoderSuite):
    reach = 1e3

    def make(self, spec: WeightSpec) -> ScaleGMNBidirectional:
        return ScaleGMNBidirectional(spec, channels=6, layers=2, frequencies=3)


def test_messages_go_both_ways() -> None:
    encoder = ScaleGMNBidirectional(MLP, channels=6, layers=3, frequencies=3).double()
    weights = random_weights(MLP, 1)
    for key, name in (("fc3.weight", "x"), ("fc1.weight", "y")):
        before, after = encoder(weights), encoder({**weights, key: weights[key] + 1})
        assert (before.nodes[name] - after.nodes[name]).abs().max() > 1e-5, (key, name)
