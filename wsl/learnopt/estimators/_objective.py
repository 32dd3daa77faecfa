"""What an inner loss counts for in the meta-loss."""

from dataclasses import dataclass

import torch
from torch import Tensor

_SMALLEST = 1e-8  # magnitude that a first loss counts as at least


@dataclass(frozen=True)
class Objective:
    """The meta-loss is the mean, over lanes and inner steps, of what their losses count for.

    Args:
        bound: a loss beyond this multiple of the magnitude of its lane's first loss, or one that is not
            finite, counts as that multiple: the lane has diverged. So a meta-gradient is always finite.
        normalise: losses count in units of the magnitude of their lane's first loss, so that problems of
            other scales weigh the same.
        late: step ``t`` of a horizon ``T`` counts ``(late + 1) ((t + 1) / T)^late``, which is 1 on average: 0
            is the mean of the losses, large values are the last ones.

    Raises:
        ValueError: ``bound`` is not above 1, or ``late`` is negative.
    """

    bound: float = 10.0
    normalise: bool = False
    late: float = 0.0

    def __post_init__(self) -> None:
        if not self.bound > 1 or not self.late >= 0:
            raise ValueError(
                f"Objective: bound is {self.bound} and late {self.late}; expected a bound above 1, "
                "and late at least 0."
            )

    def limits(self, first: Tensor) -> Tensor:
        """Losses ``(L,)`` beyond which lanes have diverged, by their first losses ``(L,)``."""
        return self.bound * self._scale(first)

    def count(self, losses: Tensor, lost: Tensor, first: Tensor, step: Tensor, horizon: Tensor) -> Tensor:
        """What losses ``(L,)`` count for.

        Args:
            lost: lanes ``(L,)`` bool that have diverged.
            first: the lanes' first losses ``(L,)``.
            step: inner steps ``(L,)`` before these losses.
        """
        counted = torch.where(lost, self.limits(first), losses)
        if self.normalise:
            counted = counted / self._scale(first)
        if self.late:
            counted = counted * (self.late + 1) * ((step + 1) / horizon).to(losses.dtype) ** self.late
        return counted

    def _scale(self, first: Tensor) -> Tensor:
        return first.abs().clamp(min=_SMALLEST)
