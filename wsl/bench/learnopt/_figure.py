"""Learning curves of all optimizers on one task."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wsl.bench.learnopt._plan import Trial
from wsl.bench.learnopt._rivals import TunedRival
from wsl.report.canvas import figure, save

_PANELS = (("train", "training loss"), ("test", "test loss"))


def plot_problem(trials: Sequence[Trial], out: Path) -> Path | None:
    """Training and test losses by step: the mean over problems as a line, all of them within the band.

    Args:
        trials: of one task; only finished ones are drawn, tuned ones dashed.
        out: the bench's folder; the picture is ``figures/TASK.png`` in it.
    """
    drawn = [(trial, result) for trial in trials if (result := trial.result) is not None]
    if not drawn:
        return None
    made = figure(12, 4.5)
    panels = made.subplots(1, 2)
    for axes, (name, title) in zip(panels, _PANELS, strict=True):
        lowest = np.inf
        for number, (trial, result) in enumerate(drawn):
            curves = np.array(result[name])
            style = "--" if isinstance(trial.rival, TunedRival) else "-"
            color = f"C{number % 10}"
            mean = curves.mean(0)
            axes.plot(result["steps"], mean, style, color=color, label=trial.rival.name, linewidth=1.5)
            axes.fill_between(
                result["steps"], curves.min(0), curves.max(0), color=color, alpha=0.15, linewidth=0
            )
            lowest = min(lowest, curves.min())
        if lowest > 0:
            axes.set_yscale("log")
        axes.set_xlabel("step")
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    count = trials[0].settings.seeds
    made.suptitle(f"{trials[0].problem.name}: mean and range of {count} problems", fontsize="medium")
    return save(made, out / "figures" / f"{trials[0].problem.name}.png")
