"""`WeightBatch`: what a data module hands to a task."""

from typing import NamedTuple

from torch import Tensor


class WeightBatch(NamedTuple):
    """Networks of one architecture with what is known about them.

    Attributes:
        weights: raw weights, a tensor ``(B, *shape)`` for every entry of the spec.
        labels: ``(B,)``, long for classes, float otherwise.
        rows: ``(B,)`` long, the rows of the zoo that the networks come from.
    """

    weights: dict[str, Tensor]
    labels: Tensor
    rows: Tensor
