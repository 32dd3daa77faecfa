"""ScaleGMN, bidirectional: scalings."""

from scale_gmns import ScaleSuite

from wsl.encoders import ScaleGMNBidirectional
from wsl.spec import WeightSpec


class TestScaleGMNBidirectionalScalings(ScaleSuite):
    def make(self, spec: WeightSpec) -> ScaleGMNBidirectional:
        return ScaleGMNBidirectional(spec, channels=6, layers=2, frequencies=3)
