"""Neural functional networks under permutations of hidden neurons: the battery of all encoders."""

from encoder_suite import EncoderSuite
from known_topologies import TOPOLOGIES
from small_networks import CNN, MLP

from wsl.encoders import NFNHNP
from wsl.spec import WeightSpec


class TestNFNHNP(EncoderSuite):
    kinds = ("mlp", "cnn", "depthwise", "fixed", "low_rank")
    takes = (MLP, CNN, TOPOLOGIES["tied"])
    takes_traced = ("mlp", "siren", "cnn")

    def make(self, spec: WeightSpec) -> NFNHNP:
        return NFNHNP(spec, channels=6, layers=2, frequencies=3)
