"""Scores of a whole split: not means over batches, nor over processes."""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from wsl._scores import scores


class PredictionScores(Metric):
    """Keeps predictions and targets ``(B,)`` of every batch and process, and computes :func:`scores`."""

    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        self.predicted: Any
        self.targets: Any
        self.add_state("predicted", default=[], dist_reduce_fx="cat")
        self.add_state("targets", default=[], dist_reduce_fx="cat")

    def update(self, predicted: Tensor, targets: Tensor) -> None:
        self.predicted.append(predicted.detach().double())
        self.targets.append(targets.detach().double())

    def compute(self) -> dict[str, Tensor]:
        pair = (dim_zero_cat(values).cpu().numpy() for values in (self.predicted, self.targets))
        return {name: torch.tensor(value, dtype=torch.float64) for name, value in scores(*pair).items()}
