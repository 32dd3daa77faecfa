"""Tables and figure from runs' files, whatever the metric and however many runs there are."""

import csv
import json

import pytest

from wsl.bench import BenchError, Budget, Run, read_tables
from wsl.bench._figure import plot_bench
from wsl.bench._records import records_of
from wsl.bench._table import Row, summarise, write_tables

KEY = {"configuration": "c", "zoo": "z", "code": "1"}


def made(folder, encoder, seed, score=None, failure=None, probe=None, **figures):
    """A run that ended with this error as its score, or with a failure, or did not."""
    config = {"monitor": "val/mse", "mode": "min", **({"probe": probe} if probe else {})}
    run = Run(encoder, seed, folder, folder / "zoo.h5", Budget(2, "minutes"), config, KEY)
    run.save()
    if failure is not None:
        (run.folder / "failure.txt").write_text(failure + "\n")
    if score is not None:
        costs = {"epoch_seconds": 3.0, "epochs": 4.0, "steps": 60, "cpu_seconds": 12.0, "peak_mb": 70.4}
        found = {"parameters": 12345, "networks_per_second": 99.6, **costs}
        found |= {"val/mse": score, "test/mse": 2 * score, **figures}
        (run.folder / "result.json").write_text(json.dumps(found))
        (run.folder / "metrics" / "version_0").mkdir(parents=True)
        rows = "".join(f"0,{step},{score + 1 / step}\n" for step in (29, 59))
        (run.folder / "metrics/version_0/metrics.csv").write_text(f"epoch,step,val/mse\n{rows}")
    return run


def rows_of(runs):
    return summarise(records_of(runs), runs[0].metric, runs[0].mode)


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
    rows = rows_of(runs)
    assert [(row.encoder, len(row.results), row.failed) for row in rows] == [
        ("better", 1, 1),
        ("worse", 2, 0),
        ("broken", 0, 1),
    ]
    for run in runs:
        run.config["mode"] = "max"
    assert [row.encoder for row in rows_of(runs)] == ["worse", "better", "broken"]


def test_the_table_for_people(runs, tmp_path):
    text = write_tables(runs, ["A note."], tmp_path)[0]
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
    write_tables(runs, [], tmp_path)
    with open(tmp_path / "table.csv", newline="") as file:
        worse = next(row for row in csv.DictReader(file) if row["encoder"] == "worse")
    assert (worse["runs"], worse["finished"], worse["failed"]) == ("2", "2", "0")
    assert float(worse["test/mse deviation"]) == pytest.approx(0.2 * 2**0.5)
    with open(tmp_path / "runs.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["state"] for row in table] == ["done", "failed", "done", "done", "open", "failed"]
    assert table[1]["message"] == "out of weights" and table[0]["test/mse"] == "1.0"
    asked = ("metric", "mode", "budget", "configuration", "zoo", "code")
    assert {tuple(row[name] for name in asked) for row in table} == {
        ("val/mse", "min", "2 CPU minutes", "c", "z", "1")
    }


def test_tables_can_be_made_again_from_the_runs(runs, tmp_path):
    text, _ = write_tables(runs, ["A note."], tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs.csv").rename(tmp_path / "elsewhere/runs.csv")
    table, for_programs = read_tables(tmp_path / "elsewhere")
    assert text == f"{table}\nA note.\n"
    with open(tmp_path / "table.csv", newline="") as file:
        assert file.read() == for_programs


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("", "does not read as the runs of a bench"),
        ("encoder,seed,state\na,0,done\n", "does not read as the runs of a bench"),
        ("encoder,seed,state,x,metric,mode\na,0,done,much,val/x,max\n", "does not read"),
        ("encoder,seed,state,x,metric,mode\na,0,done,1\n", "a line is cut off"),
    ],
    ids=["none", "empty", "columns", "numbers", "cut"],
)
def test_runs_that_no_bench_wrote(tmp_path, text, said):
    if text is not None:
        (tmp_path / "runs.csv").write_text(text)
    with pytest.raises(BenchError, match=said):
        read_tables(tmp_path)


def test_a_baseline_is_a_row_and_others_are_compared_with_it(tmp_path):
    copied = {"val/copy_loss": 0.4, "test/copy_loss": 0.5}
    runs = [made(tmp_path, name, seed, 0.1 + seed / 10, **copied) for name in "ab" for seed in (0, 1)]
    runs.append(made(tmp_path, "worst", 0, 0.45, **copied))
    text, rows = write_tables(runs, [], tmp_path)
    assert [row.encoder for row in rows] == ["a", "b", "copying the input", "worst"]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    place = lines[0].index("below copying the input")
    assert [line[place] for line in lines[2:6]] == ["40.0%", "40.0%", "-", "-80.0%"]
    assert lines[4][:place] == ["copying the input", "-", "-", "-", "0.4000", "0.5000"]
    assert read_tables(tmp_path)[0] + "\n" == text
    with open(tmp_path / "table.csv", newline="") as file:
        copy = next(row for row in csv.DictReader(file) if row["encoder"] == "copying the input")
    assert (copy["runs"], copy["finished"], copy["test/mse mean"]) == ("0", "0", "0.5")
    plot_bench(runs, rows, tmp_path / "figure.png")


def test_a_probe_takes_the_place_of_the_metric_that_selects(tmp_path):
    def probed(name, seed, accuracy):
        scores = {"val/probe_accuracy": accuracy, "test/probe_accuracy": accuracy - 0.1}
        return made(
            tmp_path, name, seed, 0.3, **scores, probe={"label": "label"}, **{"test/probe_untrained": 0.2}
        )

    runs = [
        probed(name, seed, score + seed / 10) for name, score in (("a", 0.5), ("b", 0.7)) for seed in (0, 1)
    ]
    text, rows = write_tables(runs, [], tmp_path)
    assert [row.encoder for row in rows] == ["b", "a"], "the higher accuracy first"
    assert "| val/probe_accuracy | test/probe_accuracy | untrained |" in text
    assert "| 0.7500 ± 0.0707 | 0.6500 ± 0.0707 | 0.2000 ± 0.0000 |" in text
    assert read_tables(tmp_path)[0] + "\n" == text


def test_rows_without_results_have_no_figures():
    assert Row("a", 2, [], 1).mean("val/mse") is None and Row("a", 2, [{"x": 1.0}], 0).deviation("x") is None


def test_a_failure_is_forgotten_with_a_result(tmp_path):
    run = made(tmp_path, "again", 0, 0.3, failure="once")
    assert run.failure() is None and rows_of([run])[0].failed == 0


@pytest.mark.parametrize("finished", [True, False])
def test_the_figure(runs, tmp_path, finished):
    shown = runs if finished else [run for run in runs if run.encoder == "broken"]
    path = plot_bench(shown, rows_of(shown), tmp_path / "figure.png")
    assert path.read_bytes().startswith(b"\x89PNG")
