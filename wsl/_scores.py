"""How well numbers were predicted."""

import numpy as np

SCORES = ("tau", "spearman", "r2", "mae")


def scores(predicted: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Kendall's tau-b, Spearman's rho, the coefficient of determination and the mean absolute error.

    Args:
        predicted, targets: ``(n,)`` numbers.

    Returns:
        The four by the names in :data:`SCORES`. Where nothing varies there is no order to be right about:
        both correlations are 0 then, and so is the coefficient if all targets are the same.
    """
    from scipy import stats  # slow to import

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
