"""What a run predicts for numbers such as accuracies: scatter, calibration, and scores by hyperparameter."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wsl._files import write_text
from wsl._scores import SCORES, scores
from wsl.report.canvas import figure, save
from wsl.report.errors import ReportError

_GROUPS = 4  # of a column with many values
_MOST_VALUES = 8  # that are told apart one by one
_LEAST = 10  # rows that scores are worth computing for
_BINS = 10


@dataclass(frozen=True, eq=False)
class NumberPredictions:
    """Predicted numbers for some rows of a zoo: ``(n,)`` rows, and float64 labels and predictions."""

    rows: np.ndarray
    labels: np.ndarray
    predicted: np.ndarray


def read_number_predictions(run: Path) -> NumberPredictions | None:
    """Read ``predictions.csv``; None if it is not there, or tells of classes.

    Raises:
        ReportError: the file does not read as such, or holds values that are not finite.
    """
    path = run / "predictions.csv"
    if not path.is_file():
        return None
    try:
        with open(path, newline="") as file:
            reader = csv.DictReader(file)
            if "p0" in (reader.fieldnames or ()):
                return None
            table = [(row["row"], row["label"], row["prediction"]) for row in reader]
        rows, labels, predicted = np.array(table, dtype=np.float64).T
    except (KeyError, ValueError, TypeError) as err:
        raise ReportError(f"the predictions in {run} do not read as such ({err}). Predict anew.") from err
    if not np.isfinite([labels, predicted]).all():
        raise ReportError(
            f"the predictions in {run} are not all finite. Leave such networks out, or train anew."
        )
    return NumberPredictions(rows.astype(np.int64), labels, predicted)


def plot_numbers(runs: Mapping[str, NumberPredictions], path: Path) -> Path:
    """Above, predicted against true values with their scores; below, calibration: the mean truth of tenths
    of the networks, by their predictions, against their mean prediction.

    Args:
        runs: title -> predictions.
        path: the picture to write.
    """
    made = figure(4.2 * len(runs), 8)
    panels = made.subplots(2, len(runs), squeeze=False)
    for column, (title, found) in enumerate(runs.items()):
        both = np.concatenate([found.labels, found.predicted])
        span = [both.min(), both.max()]
        above, below = panels[:, column]
        above.scatter(found.labels, found.predicted, s=6, alpha=0.6, linewidths=0)
        shown = scores(found.predicted, found.labels)
        text = "  ".join(f"{name} {shown[name]:.3f}" for name in SCORES)
        above.set_title(f"{title}\n{text}", fontsize="small")
        above.set_xlabel("true")
        above.set_ylabel("predicted")
        points = calibration(found)
        below.plot(points[:, 0], points[:, 1], "o-", markersize=4)
        below.set_xlabel("mean prediction of a tenth")
        below.set_ylabel("mean truth")
        for axes in (above, below):
            axes.plot(span, span, color="gray", linewidth=1, linestyle=":")
            axes.grid(alpha=0.3)
    return save(made, path)


def calibration(found: NumberPredictions) -> np.ndarray:
    """``(bins, 2)``: mean prediction and mean truth of (about) tenths of the rows, by their prediction."""
    order = np.argsort(found.predicted, kind="stable")
    parts = np.array_split(order, min(_BINS, len(order)))
    return np.array([(found.predicted[part].mean(), found.labels[part].mean()) for part in parts])


def breakdown(found: NumberPredictions, columns: Mapping[str, np.ndarray]) -> list[dict[str, str | float]]:
    """Scores within groups of the rows that share a hyperparameter.

    Args:
        columns: name -> ``(n,)``, of the predicted rows. Columns of up to 8 values are grouped by value,
            other numbers in quarters, other texts not at all. Groups of fewer than 10 rows are left out.

    Returns:
        Entries ``column``, ``group``, ``networks`` and the scores.
    """
    return [
        {
            "column": name,
            "group": group,
            "networks": len(chosen),
            **scores(found.predicted[chosen], found.labels[chosen]),
        }
        for name, column in columns.items()
        for group, chosen in _groups(column)
        if _LEAST <= len(chosen) < len(found.rows)
    ]


def write_breakdown(entries: list[dict[str, str | float]], path: Path) -> Path:
    """Write :func:`breakdown` as CSV; returns ``path``."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, ["column", "group", "networks", *SCORES])
    writer.writeheader()
    writer.writerows({name: _shown(value) for name, value in entry.items()} for entry in entries)
    write_text(path, text.getvalue())
    return path


def _groups(column: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    values = np.unique(column)
    if len(values) <= _MOST_VALUES:
        for value in values:
            yield _shown(value), np.flatnonzero(column == value)
    elif column.dtype.kind in "iuf":
        numbers = column.astype(np.float64)
        finite = np.flatnonzero(np.isfinite(numbers))
        order = finite[np.argsort(numbers[finite], kind="stable")]
        for part in np.array_split(order, _GROUPS):
            yield f"{numbers[part[0]]:.3g} to {numbers[part[-1]]:.3g}", part


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
