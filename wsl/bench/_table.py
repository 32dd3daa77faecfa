"""A bench's tables: one row an encoder for people and for programs, and one row a run."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from wsl._files import write_text
from wsl.bench._records import Record, read_runs_csv, records_of, runs_csv
from wsl.bench._run import Run

BASELINES = {"copy_loss": "copying the input", "mean_loss": "the mean signal"}
"""Metrics of what needs no encoder, which tasks log beside their own, and how tables call them."""
UNTRAINED = "test/probe_untrained"
_COSTS = (
    "parameters",
    "epoch_seconds",
    "epochs",
    "steps",
    "cpu_seconds",
    "networks_per_second",
    "peak_mb",
)


@dataclass(frozen=True)
class Row:
    """What the runs of one encoder came to, or what a baseline gets on the same networks.

    Attributes:
        runs: how many were asked for; of a baseline none.
        results: figures of the finished ones.
        failed: how many failed.
    """

    encoder: str
    runs: int
    results: Sequence[dict[str, float]]
    failed: int

    @property
    def is_baseline(self) -> bool:
        """Whether nothing was trained for it."""
        return self.runs == 0

    def mean(self, name: str) -> float | None:
        """Mean over finished runs, of those that have the figure."""
        values = [result[name] for result in self.results if name in result]
        return mean(values) if values else None

    def deviation(self, name: str) -> float | None:
        """Standard deviation over finished runs (with n - 1); ``None`` for fewer than two."""
        values = [result[name] for result in self.results if name in result]
        return stdev(values) if len(values) > 1 else None


def summarise(records: Sequence[Record], metric: str, mode: str) -> list[Row]:
    """A row for each encoder and baseline, best validation first and those without results last."""
    rows = []
    for encoder in dict.fromkeys(record.encoder for record in records):
        own = [record for record in records if record.encoder == encoder]
        results = [record.figures for record in own if record.state == "done"]
        rows.append(Row(encoder, len(own), results, sum(record.state == "failed" for record in own)))
    rows += _baselines(rows, metric)
    sign = -1 if mode == "max" else 1

    def place(row: Row) -> tuple[bool, float]:
        value = row.mean(metric)
        return (value is None, 0.0 if value is None else sign * value)

    return sorted(rows, key=place)


def tested_as(metric: str) -> str:
    """The test metric that belongs to a validation metric."""
    return metric.replace("val/", "test/", 1)


def write_tables(runs: Sequence[Run], notes: Sequence[str], out: Path) -> tuple[str, list[Row]]:
    """Write ``table.md``, ``table.csv`` and ``runs.csv``; returns the first one's text, and its rows."""
    metric = runs[0].metric
    rows = summarise(records_of(runs), metric, runs[0].mode)
    text = "\n".join([_markdown(rows, metric), *notes, ""])
    write_text(out / "table.md", text)
    write_text(out / "table.csv", _csv(rows, metric))
    write_text(out / "runs.csv", runs_csv(runs))
    return text, rows


def read_tables(folder: Path) -> tuple[str, str]:
    """The Markdown table, without notes, and ``table.csv``, both made anew from a folder's ``runs.csv``.

    Raises:
        BenchError: there is no such file, or it was not written by a bench.
    """
    records, metric, mode = read_runs_csv(folder / "runs.csv")
    rows = summarise(records, metric, mode)
    return _markdown(rows, metric), _csv(rows, metric)


def _baselines(rows: Sequence[Row], metric: str) -> list[Row]:
    """One row for each baseline that runs logged: the mean of what they logged."""
    found = []
    every = Row("", 0, [result for row in rows for result in row.results], 0)
    for logged, name in BASELINES.items():
        values = {
            shown: every.mean(f"{shown.partition('/')[0]}/{logged}") for shown in (metric, tested_as(metric))
        }
        known = {shown: value for shown, value in values.items() if value is not None}
        if known:
            found.append(Row(name, 0, [known], 0))
    return found


def _markdown(rows: Sequence[Row], metric: str) -> str:
    """The table's lines, and an empty one."""
    tested = tested_as(metric)
    columns: dict[str, Callable[[Row], str]] = {
        "encoder": lambda row: row.encoder,
        "parameters": lambda row: _number(row.mean("parameters"), ",.0f"),
        "CPU s an epoch": lambda row: _number(row.mean("epoch_seconds"), ".1f"),
        "epochs": lambda row: _number(row.mean("epochs"), ".1f"),
        metric: lambda row: _spread(row, metric),
        tested: lambda row: _spread(row, tested) + _missing(row),
        **_comparisons(rows, tested),
        "networks / CPU-s": lambda row: _number(row.mean("networks_per_second"), ".0f"),
        "peak MB": lambda row: _number(row.mean("peak_mb"), ".0f"),
    }
    lines = [_line(list(columns)), _line(["---"] + ["---:"] * (len(columns) - 1))]
    lines += [_line([cell(row) for cell in columns.values()]) for row in rows]
    return "\n".join([*lines, ""])


def _comparisons(rows: Sequence[Row], tested: str) -> dict[str, Callable[[Row], str]]:
    """Columns that compare: with each baseline, and with what the encoder is worth before training."""

    def below(base: float) -> Callable[[Row], str]:
        return lambda row: _percent(None if row.is_baseline else row.mean(tested), base)

    found = {
        f"below {row.encoder}": below(base)
        for row in rows
        if row.is_baseline and (base := row.mean(tested)) is not None
    }
    if any(row.mean(UNTRAINED) is not None for row in rows):
        found["untrained"] = lambda row: _spread(row, UNTRAINED)
    return found


def _missing(row: Row) -> str:
    """Says so where not all runs count."""
    finished = len(row.results)
    if row.is_baseline or finished == row.runs:
        return ""
    failed = f"; {row.failed} failed, see runs.csv" if row.failed else ""
    return f" ({finished} of {row.runs} runs{failed})"


def _spread(row: Row, name: str) -> str:
    deviation = row.deviation(name)
    return _number(row.mean(name), ".4f") + ("" if deviation is None else f" ± {deviation:.4f}")


def _percent(value: float | None, base: float) -> str:
    return "-" if value is None or not base else f"{1 - value / base:.1%}"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _csv(rows: Sequence[Row], metric: str) -> str:
    spread = [metric, tested_as(metric)]
    if any(row.mean(UNTRAINED) is not None for row in rows):
        spread.append(UNTRAINED)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["encoder", "runs", "finished", "failed", *_COSTS]
        + [f"{name} {what}" for name in spread for what in ("mean", "deviation")]
    )
    for row in rows:
        figures = [row.mean(name) for name in _COSTS]
        figures += [value for name in spread for value in (row.mean(name), row.deviation(name))]
        finished = 0 if row.is_baseline else len(row.results)
        writer.writerow([row.encoder, row.runs, finished, row.failed, *figures])
    return text.getvalue()
