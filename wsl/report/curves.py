"""Learning curves of runs, from the metrics that they log as CSV."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.ticker import MaxNLocator

from wsl.report.canvas import figure, save
from wsl.report.errors import ReportError

Curve = tuple[np.ndarray, np.ndarray]


def learning_curves(run: Path, by: Literal["epoch", "step"] = "epoch") -> dict[str, Curve]:
    """Every metric of a run by epoch or step, over all the processes that trained it.

    A resumed run logs into a further file; where it repeats epochs, the later file counts.

    Args:
        run: the run's folder, with ``metrics/version_*/metrics.csv``.
        by: steps tell several validations of one epoch apart.

    Returns:
        Metric name -> ``(epochs, values)``; epochs and steps count from 1.

    Raises:
        ReportError: there are no metrics, or a file does not read as such.
    """
    files = sorted(
        (run / "metrics").glob("version_*/metrics.csv"), key=lambda path: int(path.parent.name[8:])
    )
    if not files:
        raise ReportError(
            f"{run} has no metrics/version_*/metrics.csv. Train it with `python -m wsl fit` first."
        )
    series: dict[str, dict[int, float]] = {}
    for path in files:
        try:
            with open(path, newline="") as file:
                for row in csv.DictReader(file):
                    place = int(row[by]) + 1
                    for name, value in row.items():
                        if value and name not in ("epoch", "step"):
                            series.setdefault(name, {})[place] = float(value)
        except (KeyError, ValueError, TypeError) as err:
            raise ReportError(f"{path} does not read as a table of metrics ({err}). Was it cut off?") from err
    return {
        name: (np.array(sorted(values)), np.array([values[place] for place in sorted(values)]))
        for name, values in series.items()
    }


def plot_curves(runs: Mapping[str, Mapping[str, Curve]], path: Path, *, chance: float | None = None) -> Path:
    """Loss and accuracy (or tau, of runs without it) by epoch; training dashed, validation solid.

    Each run has a colour.

    Args:
        runs: title of each run -> its :func:`learning_curves`.
        path: the picture to write.
        chance: accuracy of always naming the largest class, drawn as a line.
    """
    made = figure(11, 4)
    logged = {name.partition("/")[2] for curves in runs.values() for name in curves}
    score = "tau" if "tau" in logged and "accuracy" not in logged else "accuracy"
    for axes, quantity in zip(made.subplots(1, 2), ("loss", score), strict=True):
        for i, (title, curves) in enumerate(runs.items()):
            label: str | None = title
            for stage, style in (("val", "-"), ("train", "--")):
                if (curve := curves.get(f"{stage}/{quantity}")) is not None:
                    axes.plot(*curve, style, color=f"C{i}", label=label, linewidth=1.5, alpha=0.9)
                    label = None
        if quantity == score:
            axes.set_ylim(0, 1.02)
            if chance is not None:
                axes.axhline(chance, color="gray", linewidth=1, linestyle=":", label="largest class")
        else:
            axes.set_yscale("log")
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel(quantity)
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize="small")
    made.suptitle("validation (solid) and training (dashed)", fontsize="medium")
    return save(made, path)
