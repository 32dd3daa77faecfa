"""Phases of learning, from measures of the loss around networks that differ in their seeds alone."""

from dataclasses import dataclass
from math import inf

import numpy as np

PHASES = ("I", "II", "III", "IV-A", "IV-B")


@dataclass(frozen=True)
class PhaseThresholds:
    """Where the phases part.

    Args:
        fitted: a training loss above this is not fitted.
        sharp: a top eigenvalue of the Hessian above this is locally sharp.
        barrier: a curve whose loss rises by more than this above its ends connects them poorly.
        similar: representations with at least this CKA are similar.

    Raises:
        ValueError: a threshold that is no finite number, or below 0.
    """

    fitted: float = 0.1
    sharp: float = 10.0
    barrier: float = 0.05
    similar: float = 0.8

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (isinstance(value, int | float) and 0 <= value < inf):
                raise ValueError(f"thresholds.{name} is {value}, expected a finite number, at least 0.")


def phase_labels(
    train_loss: np.ndarray | float,
    hessian_top: np.ndarray | float,
    mode_connectivity: np.ndarray | float,
    cka: np.ndarray | float,
    thresholds: PhaseThresholds,
) -> np.ndarray:
    """The phase of groups of seeds, from the means of their measures: text, of the shape of the arguments.

    ====== ==================== ==========================================
    phase  local                global
    ====== ==================== ==========================================
    I      sharp, or not fitted poorly connected
    II     sharp, or not fitted well connected
    III    flat                 poorly connected
    IV-A   flat                 well connected, networks less similar
    IV-B   flat                 well connected, networks similar
    ====== ==================== ==========================================

    ``undefined`` where a measure is not a number, as of groups with networks that diverged.

    Source: Yang et al. 2021 (arXiv:2107.11228), Figure 1, whose phases the zoos of Schürholt et al. 2025
    (arXiv:2504.18072) cover. There, I and II are sharp; they are also where the training loss stays above 0,
    and the loss around networks that are far from a minimum can be flat. The thresholds are of this package:
    what is sharp or a barrier depends on the task and the loss.
    """
    loss, top, connectivity, similarity = measures = [
        np.asarray(values, dtype=np.float64) for values in (train_loss, hessian_top, mode_connectivity, cka)
    ]
    known = ~np.isnan(np.stack(measures)).any(0)
    sharp = (top > thresholds.sharp) | (loss > thresholds.fitted)
    poor, similar = connectivity < -thresholds.barrier, similarity >= thresholds.similar
    labels: np.ndarray = np.select(
        [~known, sharp & poor, sharp, poor, ~similar], ["undefined", *PHASES[:4]], PHASES[4]
    )
    return labels
