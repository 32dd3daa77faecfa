"""What tables need of runs, and ``runs.csv``: a line for each, from which the tables can be made again."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wsl.bench._errors import BenchError
from wsl.bench._run import Run

_FIRST, _TEXTS = ("encoder", "seed", "state"), ("metric", "mode", "budget")


@dataclass(frozen=True)
class Record:
    """A run, finished or not.

    Attributes:
        state: ``done``, ``failed`` or ``open``.
        figures: of a finished one, by name.
    """

    encoder: str
    seed: int
    state: str
    figures: dict[str, float]


def records_of(runs: Sequence[Run]) -> list[Record]:
    """A record for each run."""
    found = []
    for run in runs:
        result = run.result()
        state = "done" if result else "failed" if run.failure() else "open"
        found.append(Record(run.encoder, run.seed, state, result or {}))
    return found


def runs_csv(runs: Sequence[Run]) -> str:
    """``runs.csv``: state and figures of each run, what it was asked for and made from, and why it failed."""
    records = records_of(runs)
    names = list(dict.fromkeys(name for record in records for name in record.figures))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_FIRST, *names, *_TEXTS, *runs[0].key, "message"])
    for run, record in zip(runs, records, strict=True):
        figures = [record.figures.get(name) for name in names]
        asked = [run.metric, run.mode, str(run.budget), *run.key.values()]
        writer.writerow([run.encoder, run.seed, record.state, *figures, *asked, run.failure() or ""])
    return text.getvalue()


def read_runs_csv(path: Path) -> tuple[list[Record], str, str]:
    """The records of a ``runs.csv``, the metric that its tables show, and which way that improves.

    Raises:
        BenchError: there is no such file, or it was not written by a bench.
    """
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            names = list(reader.fieldnames or ())
            figures = names[len(_FIRST) : names.index("metric")]
            lines = list(reader)
        if any(None in line.values() for line in lines):
            raise ValueError("a line is cut off")
        return [_record(line, figures) for line in lines], lines[0]["metric"], lines[0]["mode"]
    except OSError as err:
        raise BenchError(f"{path} cannot be read: {err.strerror}. Give the folder of a bench.") from err
    except (ValueError, KeyError, IndexError, TypeError, csv.Error) as err:
        raise BenchError(f"{path} does not read as the runs of a bench ({err}). Bench anew.") from err


def _record(line: dict[str, Any], figures: Sequence[str]) -> Record:
    found = {name: _number(line[name]) for name in figures if line[name]}
    return Record(line["encoder"], int(line["seed"]), line["state"], found)


def _number(text: str) -> float:
    return int(text) if text.isdecimal() else float(text)
