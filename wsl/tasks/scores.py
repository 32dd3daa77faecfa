"""How well numbers were predicted, over a whole split: not a mean over batches, nor over processes."""

from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

SCORES = ("tau", "spearman", "r2", "mae")


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


def scores(predicted: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Kendall's tau-b, Spearman's rho, the coefficient of determination and the mean absolute error.

    Args:
        predicted, targets: ``(n,)`` numbers.

    Returns:
        The four by the names in :data:`SCORES`. Where nothing varies there is no order to be right about:
        both correlations are 0 then, and so is the coefficient if all targets are the same.
    """
    if len(targets) < 2 or np.ptp(predicted) == 0 or np.ptp(targets) == 0:
        tau = spearman = 0.0
    elif not np.isfinite(predicted).all():
        tau = spearman = float("nan")
    else:
        tau = float(stats.kendalltau(predicted, targets).statistic)
        spearman = float(stats.spearmanr(predicted, targets).statistic)
    errors, spread = predicted - targets, targets - targets.mean()
    total = float(np.square(spread).sum())
    return {
        "tau": tau,
        "spearman": spearman,
        "r2": 1 - float(np.square(errors).sum()) / total if total else 0.0,
        "mae": float(np.abs(errors).mean()),
    }
