"""What a run predicts: accuracy, confusion matrix, and its embeddings in the plane."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wsl.report.canvas import figure, save
from wsl.report.errors import ReportError

MOST_CLASSES = 1000


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of a run for some rows of a zoo.

    Attributes:
        rows, labels, predicted: ``(n,)`` int64.
        embeddings: ``(n, features)``, or ``None``.
    """

    rows: np.ndarray
    labels: np.ndarray
    predicted: np.ndarray
    embeddings: np.ndarray | None

    @property
    def accuracy(self) -> float:
        """Share of the rows whose label was predicted."""
        return float((self.labels == self.predicted).mean())


def read_predictions(run: Path) -> Predictions:
    """Read ``predictions.csv`` and, if there, ``embeddings.npy``.

    Raises:
        ReportError: there are no predictions, or the files do not read as such.
    """
    path = run / "predictions.csv"
    if not path.is_file():
        raise ReportError(f"{run} has no predictions.csv. Write it with `python -m wsl predict --name NAME`.")
    try:
        with open(path, newline="") as file:
            table = [(row["row"], row["label"], row["prediction"]) for row in csv.DictReader(file)]
        rows, labels, predicted = np.array(table, dtype=np.int64).T
        stored = run / "embeddings.npy"
        embeddings = np.load(stored, allow_pickle=False) if stored.is_file() else None
    except (KeyError, ValueError, TypeError) as err:
        raise ReportError(f"the predictions in {run} do not read as such ({err}). Predict anew.") from err
    if embeddings is not None and (embeddings.ndim != 2 or len(embeddings) != len(rows)):
        raise ReportError(
            f"{run} has {len(rows)} predictions, but embeddings of shape {embeddings.shape}. Predict anew."
        )
    if embeddings is not None and not np.isfinite(embeddings).all():
        raise ReportError(
            f"the embeddings in {run} are not all finite: training diverged. Train with a lower rate."
        )
    if labels.min() < 0 or max(labels.max(), predicted.max()) >= MOST_CLASSES:
        raise ReportError(
            f"the predictions in {run} have classes from {labels.min()} to {labels.max()}; figures take "
            f"classes from 0 to {MOST_CLASSES - 1}."
        )
    return Predictions(rows, labels, predicted, embeddings)


def plot_confusion(runs: Mapping[str, Predictions], names: Sequence[str], path: Path) -> Path:
    """Confusion matrices side by side, in counts; rows are the true classes.

    Args:
        runs: title -> predictions.
        names: of the classes.
        path: the picture to write.
    """
    size = len(names)
    made = figure(4.2 * len(runs), 4.6)
    for axes, (title, found) in zip(np.atleast_1d(made.subplots(1, len(runs))), runs.items(), strict=True):
        counts = np.zeros((size, size), dtype=np.int64)
        np.add.at(counts, (found.labels, found.predicted), 1)
        shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        for i, j in np.ndindex(size, size):
            if counts[i, j]:
                color = "white" if shares[i, j] > 0.5 else "black"
                axes.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=7, color=color)
        axes.set_xticks(range(size), names)
        axes.set_yticks(range(size), names)
        axes.set_xlabel("predicted")
        axes.set_ylabel("true")
        axes.set_title(f"{title}: {found.accuracy:.1%}", fontsize="medium")
    return save(made, path)


def plot_embeddings(runs: Mapping[str, Predictions], names: Sequence[str], path: Path) -> Path:
    """Embeddings in the plane: principal components above, t-SNE of the first 30 of them below.

    Args:
        runs: title -> predictions with embeddings.
        names: of the classes, for the legend.
        path: the picture to write.
    """
    made = figure(4.2 * len(runs), 8)
    panels = made.subplots(2, len(runs), squeeze=False)
    for column, (title, found) in enumerate(runs.items()):
        if found.embeddings is None:
            raise ReportError(f"the predictions of {title} have no embeddings. Predict anew.")
        components = _principal_components(found.embeddings, 30)
        for row, (method, points) in enumerate(
            (("principal components", components[:, :2]), ("t-SNE", _tsne(components)))
        ):
            axes = panels[row, column]
            for c, name in enumerate(names):
                chosen = points[found.labels == c]
                axes.scatter(*chosen.T, s=6, color=f"C{c % 10}", label=name, linewidths=0)
            axes.set_title(f"{title}, {method}", fontsize="medium")
            axes.set_xticks([])
            axes.set_yticks([])
    panels[0, -1].legend(fontsize="x-small", markerscale=2)
    return save(made, path)


def _principal_components(embeddings: np.ndarray, count: int) -> np.ndarray:
    """Scores of standardised features, ``(n, count)`` or as many as there are, but two; signs fixed."""
    values = embeddings.astype(np.float64)
    spread = values.std(axis=0)
    values = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1)
    left, scales, right = np.linalg.svd(values, full_matrices=False)
    signs = np.sign(right[np.arange(len(right)), np.abs(right).argmax(axis=1)])
    scores = (left * scales * signs)[:, :count]
    return np.pad(scores, ((0, 0), (0, max(0, 2 - scores.shape[1]))))


def _tsne(components: np.ndarray, most: int = 2000) -> np.ndarray:
    """t-SNE ``(n, 2)``; NaN for rows beyond ``most``, which take too long, and for fewer than 4 points."""
    from sklearn.manifold import TSNE  # slow to import

    chosen = components[:most]
    points = np.full((len(components), 2), np.nan)
    if len(np.unique(chosen, axis=0)) < 4:  # scikit-learn's own code crashes when all are the same
        return points
    perplexity = min(30.0, (len(chosen) - 1) / 3)
    model = TSNE(perplexity=perplexity, init="pca", random_state=0, max_iter=500)
    points[:most] = model.fit_transform(chosen)
    return points
