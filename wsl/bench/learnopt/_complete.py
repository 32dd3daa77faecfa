"""One trial from wherever it stands to its result: tune on some problems, train on others."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from wsl.bench.learnopt._plan import Trial
from wsl.bench.learnopt._rivals import TunedRival
from wsl.bench.learnopt._training import Measured, measure
from wsl.learnopt import Optimizer, Task, in_type

# Where seeds begin; first seeds of meta-training are below, and its own held-out ones at 2^62 + (0 or 2^61).
_TUNING, _REPORTED = 2**62 + 2**60, 2**62 + 2**61 + 2**60
AIMS = ("final", "mean")
"""What a setting is chosen by: the training loss after the horizon, or its mean over all steps."""


def complete_trial(trial: Trial, task: Task, lanes: int) -> None:
    """Do what the trial lacks.

    Args:
        lanes: trained at once.

    Raises:
        SpecError: a learned optimizer does not fit the task.
    """
    rival, problem, settings = trial.rival, trial.problem, trial.settings
    seeds = _REPORTED + torch.arange(settings.seeds)
    if not isinstance(rival, TunedRival):
        optimizer = in_type(rival.optimizer.on(task.spec), task.dtype)
        found = measure(task, lambda _: optimizer, seeds, problem.horizon, settings.points, lanes)
        rows = torch.arange(settings.seeds)
        trial.save_result(_result(found, rows, rows, {}))
        return
    if (tuned := trial.tuning) is None:
        tuned = _tune(trial, rival, task, lanes)
        trial.save_tuning(tuned)
    chosen = [tuple(tuned["chosen"][aim]) for aim in AIMS]
    kinds = list(dict.fromkeys(chosen))
    found = _run(rival, kinds, task, seeds, problem.horizon, settings.points, lanes)
    final, mean = (kinds.index(one) * settings.seeds + torch.arange(settings.seeds) for one in chosen)
    trial.save_result(_result(found, final, mean, {name: tuned[name] for name in ("chosen", "edge")}))


def _tune(trial: Trial, rival: TunedRival, task: Task, lanes: int) -> dict[str, Any]:
    """The best settings of the grid for each aim, means over problems, and whether they are at its edge."""
    count, grid = trial.settings.tuning_seeds, rival.grid
    seeds = _TUNING + torch.arange(count)
    found = _run(rival, grid, task, seeds, trial.problem.horizon, 1, lanes)
    scores = {"final": found.train[-1], "mean": found.mean}
    means = {aim: score.view(len(grid), count).mean(1) for aim, score in scores.items()}
    chosen = {aim: grid[int(means[aim].argmin())] for aim in AIMS}
    ends = {rival.rates[0], rival.rates[-1]}
    table = [
        {"rate": rate, "schedule": schedule, **{aim: float(means[aim][row]) for aim in AIMS}}
        for row, (rate, schedule) in enumerate(grid)
    ]
    return {"chosen": chosen, "edge": {aim: chosen[aim][0] in ends for aim in AIMS}, "grid": table}


def _run(
    rival: TunedRival,
    grid: Sequence[tuple[float, str]],
    task: Task,
    seeds: Tensor,
    horizon: int,
    points: int,
    lanes: int,
) -> Measured:
    """Every setting on every problem, settings one after the other."""
    settings = [setting for setting in grid for _ in range(len(seeds))]

    def optimizer(rows: Sequence[int]) -> Optimizer:
        return rival.at([settings[row] for row in rows], horizon)

    return measure(task, optimizer, seeds.repeat(len(grid)), horizon, points, lanes)


def _result(found: Measured, final: Tensor, mean: Tensor, tuned: dict[str, Any]) -> dict[str, Any]:
    """Figures by seed: of lanes ``final`` what a training ends with, of ``mean`` what it is on the way."""
    steps = torch.tensor(found.steps, dtype=found.test.dtype)
    return {
        **tuned,
        "final_train": found.train[-1, final].tolist(),
        "final_test": found.test[-1, final].tolist(),
        "mean_train": found.mean[mean].tolist(),
        "mean_test": (torch.trapezoid(found.test[:, mean], steps, dim=0) / steps[-1]).tolist(),
        "diverged": int(found.diverged[final].sum()),
        "lane_step_seconds": found.seconds,
        "steps": list(found.steps),
        "train": found.train[:, final].T.tolist(),
        "test": found.test[:, final].T.tolist(),
    }
