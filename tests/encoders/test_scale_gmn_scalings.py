"""ScaleGMN, forward: scalings."""

from scale_gmns import ScaleSuite

from wsl.encoders import ScaleGMN
from wsl.spec import WeightSpec


class TestScaleGMNScalings(ScaleSuite):
    def make(self, spec: WeightSpec) -> ScaleGMN:
        return ScaleGMN(spec, channels=6, layers=2, frequencies=3)
