"""Learning-rate schedules over the steps of a run."""

import math
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


class WarmupCosine(LRScheduler):
    """Linear warm-up to the optimizer's learning rate, then half a cosine down.

    Args:
        optimizer: has the peak learning rate, for each parameter group.
        total_steps: optimizer steps of the run.
        warmup: share of the steps that warm up.
        floor: final learning rate, as a share of the peak.

    Raises:
        ValueError: shares outside [0, 1], or no steps.
    """

    def __init__(
        self, optimizer: Optimizer, total_steps: int, warmup: float = 0.05, floor: float = 0.01
    ) -> None:
        if total_steps < 1 or not 0 <= warmup <= 1 or not 0 <= floor <= 1:
            raise ValueError(
                f"WarmupCosine: total_steps is {total_steps}, warmup {warmup} and floor {floor}; "
                "expected at least one step, and shares from 0 to 1."
            )
        self.total_steps, self.warmup, self.floor = total_steps, warmup, floor
        super().__init__(optimizer)

    def factor(self, step: int) -> float:
        """Share of the peak learning rate in ``step``, counted from 0."""
        rising = self.warmup * self.total_steps
        if step < rising:
            return (step + 1) / (rising + 1)
        progress = min(1.0, (step - rising) / max(1.0, self.total_steps - rising))
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))

    def get_lr(self) -> list[float | Tensor]:
        return [base * self.factor(self.last_epoch) for base in self.base_lrs]

    def state_dict(self) -> dict[str, Any]:
        """The position only: the shape of the schedule comes from the arguments, also after resuming."""
        return {
            key: value
            for key, value in super().state_dict().items()
            if key not in ("total_steps", "warmup", "floor")
        }
