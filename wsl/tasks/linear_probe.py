"""How much of a label a linear model finds in embeddings."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from wsl._scores import scores
from wsl.tasks.embeddings import Embeddings
from wsl.tasks.factories import TaskError

Scores = dict[str, float]
# regularisation, from strong to weak: inverse for logistic regression
_INVERSE_STRENGTHS = tuple(10.0**k for k in range(-3, 2))
_STRENGTHS = tuple(10.0**k for k in range(4, -4, -1))


def probe_classes(found: Embeddings, labels: np.ndarray) -> Scores:
    """Logistic regression of classes on standardised embeddings, fitted to the train split.

    Args:
        labels: ``(n,)`` classes, in the order of ``found``.

    Returns:
        ``val/accuracy``, by which the regularisation is chosen, ``test/accuracy``, ``test/chance`` (that of
        the commonest class of the train split), and ``inverse_strength``, as scikit-learn's ``C``.

    Raises:
        TaskError: labels are no whole numbers, or all the same in the train split; embeddings are not finite.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression  # slow to import

    if not np.isfinite(labels).all() or (labels != labels.round()).any():
        raise TaskError("the label has values that are no whole numbers.\n  Predict it with --kind numbers.")
    train = labels[found.splits == "train"]
    kinds, counts = np.unique(train, return_counts=True)
    if len(kinds) < 2:
        raise TaskError(
            f"all {len(train)} networks of the train split have the label {kinds[0]}, and a probe needs two "
            "classes.\n  Name another column with --label."
        )

    def fitted(vectors: np.ndarray, targets: np.ndarray, strength: float) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what came of it is judged on the val split
            return LogisticRegression(C=strength, max_iter=500).fit(vectors, targets)

    def judge(predicted: np.ndarray, targets: np.ndarray) -> Scores:
        return {"accuracy": float((predicted == targets).mean())}

    strength, val, test = _chosen(found, labels, fitted, judge, "accuracy", _INVERSE_STRENGTHS)
    chance = float((labels[found.splits == "test"] == kinds[counts.argmax()]).mean())
    return {**_named("val", val), **_named("test", test), "test/chance": chance, "inverse_strength": strength}


def probe_numbers(found: Embeddings, labels: np.ndarray) -> Scores:
    """Ridge regression of numbers on standardised embeddings, fitted to the train split.

    Args:
        labels: ``(n,)`` numbers, in the order of ``found``.

    Returns:
        :func:`wsl._scores.scores` of ``val``, by whose ``r2`` the regularisation is chosen, and of ``test``,
        and ``strength``, as scikit-learn's ``alpha``.

    Raises:
        TaskError: labels or embeddings that are not finite.
    """
    from sklearn.linear_model import Ridge  # slow to import

    if not np.isfinite(labels).all():
        raise TaskError(
            f"the label is not finite for {int((~np.isfinite(labels)).sum())} of {len(labels)} networks.\n"
            "  Name another column with --label, or train the run with data.where."
        )

    def fitted(vectors: np.ndarray, targets: np.ndarray, strength: float) -> Any:
        return Ridge(alpha=strength).fit(vectors, targets)

    strength, val, test = _chosen(found, labels.astype(np.float64), fitted, scores, "r2", _STRENGTHS)
    return {**_named("val", val), **_named("test", test), "strength": strength}


def _chosen(
    found: Embeddings,
    labels: np.ndarray,
    fitted: Callable[[np.ndarray, np.ndarray, float], Any],
    judge: Callable[[np.ndarray, np.ndarray], Scores],
    metric: str,
    strengths: tuple[float, ...],
) -> tuple[float, Scores, Scores]:
    """The strength that is best on the val split, the strongest of equals, and the scores of both splits."""
    vectors = found.standardised()
    train, val, test = (found.splits == split for split in ("train", "val", "test"))
    models = {strength: fitted(vectors[train], labels[train], strength) for strength in strengths}
    judged = {s: judge(model.predict(vectors[val]), labels[val]) for s, model in models.items()}
    best = max(judged, key=lambda strength: judged[strength][metric])
    return best, judged[best], judge(models[best].predict(vectors[test]), labels[test])


def _named(split: str, found: Scores) -> Scores:
    return {f"{split}/{name}": value for name, value in found.items()}
