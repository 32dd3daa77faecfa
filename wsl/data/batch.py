"""What a data module hands to a task: networks of one architecture, or of several."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from wsl.spec import WeightSpec


class WeightBatch(NamedTuple):
    """Networks of one architecture with what is known about them.

    Attributes:
        weights: raw weights, a tensor ``(B, *shape)`` for every entry of the spec.
        labels: ``(B,)``, long for classes, float otherwise; ``(B, classes)`` probabilities where
            augmentations mixed networks (:class:`wsl.augment.MixUp`).
        rows: ``(B,)`` long, the rows of the zoo that the networks come from.
    """

    weights: dict[str, Tensor]
    labels: Tensor
    rows: Tensor


@dataclass(frozen=True, eq=False)
class MixedBatch:
    """Networks of several architectures, in groups of one: the networks of a batch stand group after group.

    Labels and rows are in this order, as are the outputs of :class:`wsl.encoders.MixedEncoder` and of
    :class:`wsl.nn.PooledHead`, which read ``weights``.

    Attributes:
        weights: for each architecture its specification, and weights ``(B_i, *shape)``.
        labels: ``(sum B_i,)``, long for classes, float otherwise; ``(sum B_i, classes)`` probabilities where
            augmentations mixed networks, each with another one of its group.
        rows: ``(sum B_i,)`` long, the rows of the data that the networks come from.
    """

    weights: tuple[tuple[WeightSpec, dict[str, Tensor]], ...]
    labels: Tensor
    rows: Tensor

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "MixedBatch":
        """The same on another device."""
        weights = tuple(
            (spec, {name: tensor.to(device, non_blocking=non_blocking) for name, tensor in own.items()})
            for spec, own in self.weights
        )
        labels, rows = (x.to(device, non_blocking=non_blocking) for x in (self.labels, self.rows))
        return MixedBatch(weights, labels, rows)
