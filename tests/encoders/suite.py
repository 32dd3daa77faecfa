"""What the parts of the battery of encoders share."""

from collections.abc import Collection, Sequence

import pytest
import torch
from known_topologies import TOPOLOGIES
from small_networks import SPECS, traced

from wsl.encoders import Encoder
from wsl.spec import SpecError, WeightSpec


class Suite:
    """Makes encoders, and expects those of families that do not accept an architecture to refuse it."""

    kinds: Sequence[str] | None = None
    takes: Collection[WeightSpec] | None = None
    takes_traced: Collection[str] | None = None

    def make(self, spec: WeightSpec) -> Encoder:
        """A small encoder, in float32."""
        raise NotImplementedError

    def seeded(self, spec: WeightSpec) -> Encoder:
        """The encoder that :meth:`make` makes, always with the same parameters."""
        torch.manual_seed(0)
        if self.takes is not None and spec in (*SPECS, *TOPOLOGIES.values()) and spec not in self.takes:
            self._refuses(spec)
        return self.make(spec)

    def seeded_traced(self, name: str) -> Encoder:
        """The same for a traced network."""
        if self.takes_traced is not None and name not in self.takes_traced:
            self._refuses(traced(name))
        return self.seeded(traced(name))

    def _refuses(self, spec: WeightSpec) -> None:
        with pytest.raises(SpecError):
            self.make(spec)
        pytest.skip("refused, as it should be")
