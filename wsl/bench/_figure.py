"""A bench's figure: what each encoder learns with the time, and what it is worth in the end."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wsl.bench._run import Run
from wsl.bench._table import Row, tested_as
from wsl.report import learning_curves
from wsl.report.canvas import figure, save


def plot_bench(runs: Sequence[Run], rows: Sequence[Row], path: Path) -> Path:
    """Validation over processor time (mean of the runs), and test metrics with their deviation.

    Args:
        runs: all of them; only finished ones are drawn.
        rows: their summary, in the order to draw.
        path: the picture to write.
    """
    monitor, tested = runs[0].config["monitor"], tested_as(runs[0].metric)
    drawn = [row for row in rows if row.results]
    made = figure(13, 1.5 + 0.32 * max(8, len(drawn)))
    curves, bars = made.subplots(1, 2)
    for i, row in enumerate(drawn):
        color, style = f"C{i % 10}", ("-", "--", ":")[i // 10 % 3]
        if not row.is_baseline:
            seconds, values = _curve([run for run in runs if run.encoder == row.encoder], monitor)
            curves.plot(seconds, values, style, color=color, label=row.encoder, linewidth=1.5)
        value, deviation = row.mean(tested), row.deviation(tested)
        if value is not None:
            bars.barh(i, value, xerr=deviation or 0.0, color=color, alpha=0.8, height=0.7)
    curves.set_xlabel("seconds of processor time in training")
    curves.set_ylabel(monitor)
    curves.grid(alpha=0.3)
    if drawn:
        curves.legend(fontsize="x-small", ncols=2)
    bars.set_yticks(range(len(drawn)), [row.encoder for row in drawn], fontsize="small")
    bars.invert_yaxis()
    bars.set_xlabel(f"{tested}, mean and standard deviation of the runs")
    bars.grid(axis="x", alpha=0.3)
    return save(made, path)


def _curve(runs: Sequence[Run], monitor: str) -> tuple[np.ndarray, np.ndarray]:
    """Means over finished runs, validation by validation: processor time up to it, and the metric."""
    found = []
    for run in runs:
        if (result := run.result()) is not None:
            steps, values = learning_curves(run.folder, by="step")[monitor]
            found.append((steps * result["cpu_seconds"] / result["steps"], values))
    shortest = min(len(values) for _, values in found)
    seconds, values = (np.mean([part[i][:shortest] for part in found], axis=0) for i in (0, 1))
    return seconds, values
