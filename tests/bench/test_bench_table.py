"""Tables and figure from runs' files, whatever the metric and however many runs there are."""

import csv
import json

import pytest

from wsl.bench import Budget, Run
from wsl.bench._figure import plot_bench
from wsl.bench._table import summarise, write_tables

KEY = {"configuration": "c", "zoo": "z", "code": "1"}


def made(folder, encoder, seed, score=None, failure=None, mode="min"):
    """A run that ended with this error as its score, or with a failure, or did not."""
    config = {"monitor": "val/mse", "mode": mode}
    run = Run(encoder, seed, folder, folder / "zoo.h5", Budget(2, "minutes"), config, KEY)
    run.save()
    if failure is not None:
        (run.folder / "failure.txt").write_text(failure + "\n")
    if score is not None:
        costs = {"epoch_seconds": 3.0, "epochs": 4.0, "steps": 60, "cpu_seconds": 12.0, "peak_mb": 70.4}
        found = {"parameters": 12345, "networks_per_second": 99.6, **costs}
        found |= {"val/mse": score, "test/mse": 2 * score}
        (run.folder / "result.json").write_text(json.dumps(found))
        (run.folder / "metrics" / "version_0").mkdir(parents=True)
        rows = "".join(f"0,{step},{score + 1 / step}\n" for step in (29, 59))
        (run.folder / "metrics/version_0/metrics.csv").write_text(f"epoch,step,val/mse\n{rows}")
    return run


@pytest.fixture
def runs(tmp_path):
    return [
        made(tmp_path, "worse", 0, 0.5),
        made(tmp_path, "broken", 0, failure="out of weights"),
        made(tmp_path, "better", 0, 0.1),
        made(tmp_path, "worse", 1, 0.7),
        made(tmp_path, "broken", 1),
        made(tmp_path, "better", 1, failure="lost"),
    ]


def test_rows_are_ordered_by_validation_and_count_what_there_is(runs):
    rows = summarise(runs)
    assert [(row.encoder, len(row.results), row.failed) for row in rows] == [
        ("better", 1, 1),
        ("worse", 2, 0),
        ("broken", 0, 1),
    ]
    for run in runs:
        run.config["mode"] = "max"
    assert [row.encoder for row in summarise(runs)] == ["worse", "better", "broken"]


def test_the_table_for_people(runs, tmp_path):
    text = write_tables(runs, summarise(runs), ["A note."], tmp_path)
    assert text == (tmp_path / "table.md").read_text()
    assert text.splitlines() == [
        "| encoder | parameters | CPU s an epoch | epochs | val/mse | test/mse | networks / CPU-s | "
        "peak MB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| better | 12,345 | 3.0 | 4.0 | 0.1000 | 0.2000 (1 of 2 runs; 1 failed, see runs.csv) | 100 | 70 |",
        "| worse | 12,345 | 3.0 | 4.0 | 0.6000 ± 0.1414 | 1.2000 ± 0.2828 | 100 | 70 |",
        "| broken | - | - | - | - | - (0 of 2 runs; 1 failed, see runs.csv) | - | - |",
        "",
        "A note.",
    ]


def test_the_tables_for_programs(runs, tmp_path):
    write_tables(runs, summarise(runs), [], tmp_path)
    with open(tmp_path / "table.csv", newline="") as file:
        worse = next(row for row in csv.DictReader(file) if row["encoder"] == "worse")
    assert (worse["runs"], worse["finished"], worse["failed"]) == ("2", "2", "0")
    assert float(worse["test/mse deviation"]) == pytest.approx(0.2 * 2**0.5)
    with open(tmp_path / "runs.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["state"] for row in table] == ["done", "failed", "done", "done", "open", "failed"]
    assert table[1]["message"] == "out of weights" and table[0]["test/mse"] == "1.0"
    assert {(row["budget"], row["configuration"], row["zoo"], row["code"]) for row in table} == {
        ("2 CPU minutes", "c", "z", "1")
    }


def test_a_failure_is_forgotten_with_a_result(tmp_path):
    run = made(tmp_path, "again", 0, 0.3, failure="once")
    assert run.failure() is None and summarise([run])[0].failed == 0


@pytest.mark.parametrize("finished", [True, False])
def test_the_figure(runs, tmp_path, finished):
    shown = runs if finished else [run for run in runs if run.encoder == "broken"]
    path = plot_bench(shown, summarise(shown), tmp_path / "figure.png")
    assert path.read_bytes().startswith(b"\x89PNG")
