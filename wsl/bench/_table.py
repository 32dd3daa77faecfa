"""A bench's tables: one row an encoder for people and for programs, and one row a run."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from wsl._files import write_text
from wsl.bench._run import Run

Results = list[dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """What the runs of one encoder came to.

    Attributes:
        runs: how many were asked for.
        results: figures of the finished ones.
        failed: how many failed.
    """

    encoder: str
    runs: int
    results: Results
    failed: int

    def mean(self, name: str) -> float | None:
        """Mean over finished runs, of those that have the figure."""
        values = [result[name] for result in self.results if name in result]
        return mean(values) if values else None

    def deviation(self, name: str) -> float | None:
        """Standard deviation over finished runs (with n - 1); ``None`` for fewer than two."""
        values = [result[name] for result in self.results if name in result]
        return stdev(values) if len(values) > 1 else None


def summarise(runs: Sequence[Run]) -> list[Row]:
    """A row for each encoder, best validation first and those without results last."""
    config = runs[0].config
    rows = []
    for encoder in dict.fromkeys(run.encoder for run in runs):
        own = [run for run in runs if run.encoder == encoder]
        results = [found for run in own if (found := run.result()) is not None]
        failed = sum(run.failure() is not None for run in own)
        rows.append(Row(encoder, len(own), results, failed))
    sign = -1 if config["mode"] == "max" else 1

    def place(row: Row) -> tuple[bool, float]:
        value = row.mean(config["monitor"])
        return (value is None, 0.0 if value is None else sign * value)

    return sorted(rows, key=place)


def tested_as(monitor: str) -> str:
    """The test metric that belongs to a validation metric."""
    return monitor.replace("val/", "test/", 1)


def write_tables(runs: Sequence[Run], rows: Sequence[Row], notes: Sequence[str], out: Path) -> str:
    """Write ``table.md``, ``table.csv`` and ``runs.csv``; returns the first one's text."""
    text = _markdown(rows, runs[0].config["monitor"], notes)
    write_text(out / "table.md", text)
    write_text(out / "table.csv", _table_csv(rows, runs[0].config["monitor"]))
    write_text(out / "runs.csv", _runs_csv(runs))
    return text


def _markdown(rows: Sequence[Row], monitor: str, notes: Sequence[str]) -> str:
    tested = tested_as(monitor)
    head = [
        "encoder",
        "parameters",
        "CPU s an epoch",
        "epochs",
        monitor,
        tested,
        "networks / CPU-s",
        "peak MB",
    ]
    lines = [_line(head), _line(["---"] + ["---:"] * (len(head) - 1))]
    for row in rows:
        lines.append(
            _line(
                [
                    row.encoder,
                    _number(row.mean("parameters"), ",.0f"),
                    _number(row.mean("epoch_seconds"), ".1f"),
                    _number(row.mean("epochs"), ".1f"),
                    _spread(row, monitor),
                    _spread(row, tested) + _missing(row),
                    _number(row.mean("networks_per_second"), ".0f"),
                    _number(row.mean("peak_mb"), ".0f"),
                ]
            )
        )
    return "\n".join([*lines, "", *notes, ""])


def _missing(row: Row) -> str:
    """Says so where not all runs count."""
    finished = len(row.results)
    if finished == row.runs:
        return ""
    failed = f"; {row.failed} failed, see runs.csv" if row.failed else ""
    return f" ({finished} of {row.runs} runs{failed})"


def _spread(row: Row, name: str) -> str:
    deviation = row.deviation(name)
    return _number(row.mean(name), ".4f") + ("" if deviation is None else f" ± {deviation:.4f}")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _table_csv(rows: Sequence[Row], monitor: str) -> str:
    names = [
        "parameters",
        "epoch_seconds",
        "epochs",
        "steps",
        "cpu_seconds",
        "networks_per_second",
        "peak_mb",
    ]
    spread = [monitor, tested_as(monitor)]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(
        ["encoder", "runs", "finished", "failed", *names]
        + [f"{name} {what}" for name in spread for what in ("mean", "deviation")]
    )
    for row in rows:
        figures = [row.mean(name) for name in names]
        figures += [value for name in spread for value in (row.mean(name), row.deviation(name))]
        writer.writerow([row.encoder, row.runs, len(row.results), row.failed, *figures])
    return text.getvalue()


def _runs_csv(runs: Sequence[Run]) -> str:
    found = [(run, run.result() or {}) for run in runs]
    names = list(dict.fromkeys(name for _, result in found for name in result))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["encoder", "seed", "state", *names, "budget", *runs[0].key, "message"])
    for run, result in found:
        failure = run.failure()
        state = "done" if result else "failed" if failure else "open"
        figures = [result.get(name) for name in names]
        writer.writerow(
            [run.encoder, run.seed, state, *figures, str(run.budget), *run.key.values(), failure or ""]
        )
    return text.getvalue()
