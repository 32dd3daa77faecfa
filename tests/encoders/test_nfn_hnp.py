"""Neural functional networks under permutations of hidden neurons: the battery of all encoders."""

from encoder_suite import CNN, MLP, EncoderSuite
from known_topologies import TOPOLOGIES

from wsl.encoders import NFNHNP
from wsl.spec import WeightSpec


class TestNFNHNP(EncoderSuite):
    kinds = ("mlp", "cnn", "depthwise", "fixed", "low_rank")
    takes = (MLP, CNN, TOPOLOGIES["tied"])

    def make(self, spec: WeightSpec) -> NFNHNP:
        return NFNHNP(spec, channels=6, layers=2, frequencies=3)
