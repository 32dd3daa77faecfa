"""The flat baseline passes every test of encoders but equivariance, which it must fail."""

import pytest
from encoder_suite import EncoderSuite
from small_networks import MLP

from wsl.encoders import FlatMLP
from wsl.spec import WeightSpec
from wsl.testing import assert_equivariant


class TestFlatMLP(EncoderSuite):
    equivariant = False

    def make(self, spec: WeightSpec) -> FlatMLP:
        return FlatMLP(spec, channels=6, hidden=8)

    def test_is_not_equivariant(self) -> None:
        with pytest.raises(AssertionError):
            assert_equivariant(self.seeded(MLP).double(), MLP)
