"""Tables and curves of a bench of optimizers."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from wsl._files import write_text
from wsl.bench.learnopt._complete import AIMS
from wsl.bench.learnopt._plan import Trial

REFERENCE = "Adam"
FIGURES = ("final_train", "final_test", "mean_train", "mean_test")


@dataclass(frozen=True)
class Row:
    """One optimizer on one task.

    Args:
        result: of the finished trial.
        reached: for each seed the steps to the lowest training loss that the tuned reference has on the same
            problem, or ``None`` where it is never reached; ``None`` without a reference.
    """

    trial: Trial
    result: dict[str, Any] | None
    reached: list[int | None] | None

    def values(self, name: str) -> list[float]:
        return [] if self.result is None else list(self.result[name])


def rows_of(trials: Sequence[Trial]) -> list[Row]:
    """The rows of one task, best training loss after the horizon first, those without a result last."""
    results = {trial.rival.name: trial.result for trial in trials}
    reference = results.get(REFERENCE)
    rows = [Row(trial, result := trial.result, _reached(result, reference)) for trial in trials]
    return sorted(rows, key=lambda row: (row.result is None, mean(row.values("final_train") or [0.0])))


def write_tables(trials: Sequence[Trial], out: Path, smoke: bool) -> str:
    """Write ``table.md``, ``table.csv`` and ``curves.csv``; returns the first one's text."""
    by_task: dict[str, list[Trial]] = {}
    for trial in trials:
        by_task.setdefault(trial.problem.name, []).append(trial)
    rows = {name: rows_of(own) for name, own in by_task.items()}
    text = "\n".join([_markdown(name, own) for name, own in rows.items()] + [_notes(trials[0], smoke)])
    write_text(out / "table.md", text)
    write_text(out / "table.csv", _csv(rows))
    write_text(out / "curves.csv", _curves(trials))
    return text


def _reached(result: dict[str, Any] | None, reference: dict[str, Any] | None) -> list[int | None] | None:
    if result is None or reference is None:
        return None
    best = [min(curve) for curve in reference["train"]]
    return [
        next((step for step, loss in zip(result["steps"], curve, strict=True) if loss <= goal), None)
        for curve, goal in zip(result["train"], best, strict=True)
    ]


def _markdown(name: str, rows: Sequence[Row]) -> str:
    columns: dict[str, Callable[[Row], str]] = {
        "optimizer": lambda row: row.trial.rival.name,
        "rate and schedule": _setting,
        "training loss": lambda row: _spread(row, "final_train"),
        "test loss": lambda row: _spread(row, "final_test"),
        "mean training loss": lambda row: _spread(row, "mean_train"),
        "mean test loss": lambda row: _spread(row, "mean_test"),
        f"steps to {REFERENCE}'s best": _steps,
        "diverged": lambda row: "-" if row.result is None else str(row.result["diverged"]),
    }
    lines = [f"## {name}: {rows[0].trial.problem.horizon:,} steps", ""]
    lines += [_line(list(columns)), _line(["---", "---"] + ["---:"] * (len(columns) - 2))]
    lines += [_line([cell(row) for cell in columns.values()]) for row in rows]
    told = [f"{row.trial.rival.name}: {_reason(row)}" for row in rows if row.trial.failure]
    return "\n".join([*lines, "", *told, *([""] if told else [])])


def _notes(trial: Trial, smoke: bool) -> str:
    settings = trial.settings
    limits = " Smoke test: few steps and a coarse grid, which compare nothing." if smoke else ""
    tuning = f"{settings.tuning_seeds} other problem{'s' if settings.tuning_seeds > 1 else ''}"
    return (
        f"{settings.seeds} problems a task, mean ± standard deviation. Losses after the horizon are on "
        "batches that no step trained on. Mean ones are over all steps: in training on the step's own batch, "
        "in the test on test batches. Hand-designed optimizers are tuned on a grid of rates and schedules by "
        f"{tuning}, once for the training loss after the horizon and once for "
        "the mean one, and each column has the setting that was tuned for it; the first is named, with an "
        "asterisk at the edge of the grid. Learned ones are not tuned. Steps to the lowest training loss of "
        f"the tuned {REFERENCE} on the same problem are the median over problems, and how many reach it. A "
        "training that diverges counts as ten times its first loss from there on. "
        f"Code {trial.code}.{limits}\n"
    )


def _setting(row: Row) -> str:
    if row.result is None or "chosen" not in row.result:
        return "-"
    rate, schedule = row.result["chosen"]["final"]
    return f"{rate:g}, {schedule}{'*' if row.result['edge']['final'] else ''}"


def _steps(row: Row) -> str:
    if row.reached is None:
        return "-"
    found = sorted(step for step in row.reached if step is not None)
    share = f"({len(found)} of {len(row.reached)})"
    # Those that never reach it are above all others.
    middle = (len(row.reached) - 1) // 2
    return f"{found[middle]:,} {share}" if middle < len(found) else f"never {share}"


def _spread(row: Row, name: str) -> str:
    values = row.values(name)
    if not values:
        return "-"
    return f"{mean(values):.4g}" + (f" ± {stdev(values):.2g}" if len(values) > 1 else "")


def _reason(row: Row) -> str:
    words = " ".join((row.trial.failure or "").split())
    return words if len(words) < 300 else f"{words[:300]}…"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _csv(rows: dict[str, list[Row]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    chosen = [f"{what} for {aim}" for aim in AIMS for what in ("rate", "schedule")]
    spreads = [f"{name} {what}" for name in FIGURES for what in ("mean", "deviation")]
    last = ("reached", "diverged", "lane_step_seconds", "message")
    writer.writerow(["task", "horizon", "optimizer", "problems", *chosen, *spreads, *last])
    for name, own in rows.items():
        for row in own:
            result = row.result or {}
            cells: list[Any] = [name, row.trial.problem.horizon, row.trial.rival.name]
            cells.append(len(row.values("final_train")))
            for aim in AIMS:
                cells += result.get("chosen", {}).get(aim, [None, None])
            for figure in FIGURES:
                values = row.values(figure)
                cells += [mean(values) if values else None, stdev(values) if len(values) > 1 else None]
            cells.append(None if row.reached is None else sum(step is not None for step in row.reached))
            cells += [result.get("diverged"), result.get("lane_step_seconds"), row.trial.failure]
            writer.writerow(cells)
    return text.getvalue()


def _curves(trials: Sequence[Trial]) -> str:
    """A line for each evaluation of each training, with the settings tuned for the loss after the horizon."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["task", "optimizer", "seed", "step", "train", "test"])
    for trial in trials:
        result = trial.result or {"train": [], "test": []}
        for seed, curves in enumerate(zip(result["train"], result["test"], strict=True)):
            for step, train, test in zip(result["steps"], *curves, strict=True):
                writer.writerow([trial.problem.name, trial.rival.name, seed, step, train, test])
    return text.getvalue()
