"""A whole bench in small: equal steps, nothing done twice, resumption, failures, settings that changed."""

import csv
import json
from pathlib import Path

import pytest
import torch
from small_benches import FLAT, in_process, request, small_bench, write_encoder

from wsl.bench import BenchError, Budget, bench
from wsl.cli import training
from wsl.report import learning_curves
from wsl.tasks import INRClassification

pytestmark = [
    pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory"),
    pytest.mark.filterwarnings("ignore:Experiment logs directory"),
]


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_tables_and_figure_and_nothing_is_done_twice(zoo_path, tmp_path, monkeypatch):
    text, failed = small_bench(zoo_path, tmp_path, seeds=2)
    out = tmp_path / "out"
    assert failed == 0 and (out / "table.md").read_text() == text
    assert text.splitlines()[0].split(" | ")[4:6] == ["val/accuracy", "test/accuracy"]
    assert " ± " in text and "12 steps of training" in text and "2 seeds" in text
    assert (out / "figure.png").stat().st_size > 5000
    runs = table(out / "runs.csv")
    assert [(run["encoder"], run["seed"]) for run in runs] == [
        ("flat", "0"), ("stat", "0"), ("flat", "1"), ("stat", "1"),
    ]  # fmt: skip
    assert {(run["state"], run["steps"], run["message"]) for run in runs} == {("done", "12", "")}
    rows = {row["encoder"]: row for row in table(out / "table.csv")}
    own = [float(run["test/accuracy"]) for run in runs if run["encoder"] == "flat"]
    assert float(rows["flat"]["test/accuracy mean"]) == pytest.approx(sum(own) / 2)
    assert float(rows["flat"]["test/accuracy deviation"]) == pytest.approx(abs(own[0] - own[1]) / 2**0.5)
    assert rows["flat"]["finished"] == "2" and float(rows["stat"]["networks_per_second"]) > 0
    assert len(learning_curves(out / "flat" / "seed0", by="step")["val/accuracy"][0]) == 12

    before = files(out)
    monkeypatch.setattr(training, "run", lambda options: pytest.fail(f"done again: {options}"))
    assert small_bench(zoo_path, tmp_path, seeds=2) == (text, 0)
    assert files(out).keys() == before.keys()
    assert {p for p, content in files(out).items() if content != before[p]} <= {out / "figure.png"}


def test_an_interrupted_run_goes_on_from_its_checkpoint(zoo_path, tmp_path, monkeypatch):
    """In the middle of an epoch, which here has two steps: as the unbroken run, nothing counted twice."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
    asked = {"encoders": [write_encoder(tmp_path, "flat", FLAT)], "budget": Budget(32, "steps")}
    small_bench(zoo_path, whole, **asked)
    begin, train, commands = INRClassification.on_train_batch_start, training.run, []

    def stop(task, *args):
        if task.global_step == 17:
            raise KeyboardInterrupt
        begin(task, *args)

    def record(options):
        commands.append((options[0], "last" in options, "timed" in options))
        return train(options)

    monkeypatch.setattr(training, "run", record)
    with monkeypatch.context() as patch:
        patch.setattr(INRClassification, "on_train_batch_start", stop)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            small_bench(zoo_path, broken, **asked)
    assert commands == [("fit", False, True), ("fit", False, False)]
    commands.clear()
    assert small_bench(zoo_path, broken, **asked)[1] == 0
    assert commands == [("fit", True, False), ("test", False, False)]

    ours, theirs = (folder / "out/flat/seed0" for folder in (broken, whole))
    for name in ("last", "best"):
        kept, wanted = (torch.load(f / f"checkpoints/{name}.ckpt", weights_only=True) for f in (ours, theirs))
        assert kept["global_step"] == wanted["global_step"]
        assert all(
            torch.equal(kept["state_dict"][key], wanted["state_dict"][key]) for key in wanted["state_dict"]
        )
    curves = [learning_curves(folder, by="step")["val/loss"] for folder in (ours, theirs)]
    assert curves[0][0].tolist() == curves[1][0].tolist() == list(range(3, 31, 3))
    assert curves[0][1].tolist() == curves[1][1].tolist()
    kept, wanted = (json.loads((folder / "result.json").read_text()) for folder in (ours, theirs))
    same = {"steps", "networks", "epochs", "parameters", "val/accuracy", "test/accuracy", "test/loss"}
    assert {name: kept[name] for name in same} == {name: wanted[name] for name in same}
    assert kept["steps"] == 30 and kept["cpu_seconds"] > 0


def test_a_failed_run_is_reported_and_tried_again(zoo_path, tmp_path, caplog):
    encoders = [
        write_encoder(tmp_path, "flat", FLAT),
        write_encoder(tmp_path, "probing", FLAT, probes=4),
    ]
    with caplog.at_level("INFO", logger="wsl"):
        text, failed = small_bench(zoo_path, tmp_path, encoders=encoders)
    assert failed == 1 and "probing/seed0: failed: probes is 4, but FlatMLP has no" in caplog.text
    assert "| probing | - | - | - | - | - (0 of 1 runs; 1 failed, see runs.csv) |" in text
    (run,) = (run for run in table(tmp_path / "out/runs.csv") if run["encoder"] == "probing")
    assert run["state"] == "failed" and run["message"].startswith("probes is 4, but FlatMLP")
    assert "earlier" not in run["message"]
    write_encoder(tmp_path, "probing", FLAT)
    with pytest.raises(BenchError, match="configuration was"):
        small_bench(zoo_path, tmp_path, encoders=encoders)
    assert small_bench(zoo_path, tmp_path, encoders=encoders, redo=True)[1] == 0


def test_other_settings_are_refused_or_made_anew(zoo_path, tmp_path, monkeypatch):
    asked = request(zoo_path, tmp_path, encoders=[write_encoder(tmp_path, "flat", FLAT)])
    bench(asked, in_process)
    before = files(tmp_path / "out")
    for changes, said in (
        ({"budget": Budget(13, "steps")}, "budget was 12 steps, is 13 steps"),
        ({"smoke": True}, "configuration was"),
    ):
        with pytest.raises(BenchError, match=said) as refused:
            small_bench(zoo_path, tmp_path, **{"encoders": asked.encoders, **changes})
        assert "out/flat/seed0" in str(refused.value) and "--redo" in str(refused.value)
    with monkeypatch.context() as patch:
        patch.setattr("wsl.bench._plan.code_version", lambda: "other")
        with pytest.raises(BenchError, match="code was this, is other"):
            bench(asked, in_process)
    assert files(tmp_path / "out") == before
    changed = small_bench(zoo_path, tmp_path, encoders=asked.encoders, budget=Budget(4, "steps"), redo=True)
    assert "4 steps of training" in changed[0]
    assert [run["steps"] for run in table(tmp_path / "out/runs.csv")] == ["4"]


def test_code_that_changes_under_a_bench_is_noticed(zoo_path, tmp_path, monkeypatch):
    monkeypatch.setattr("wsl.bench._complete.code_version", lambda: "newer")
    assert small_bench(zoo_path, tmp_path, encoders=[write_encoder(tmp_path, "flat", FLAT)])[1] == 1
    assert "the code is newer, but the bench began with" in (tmp_path / "out/runs.csv").read_text()


def test_what_is_no_bench_is_left_alone(zoo_path, tmp_path):
    mine = tmp_path / "out" / "flat" / "seed0"
    mine.mkdir(parents=True)
    (mine / "notes.txt").write_text("mine")
    for redo in (False, True):
        with pytest.raises(BenchError, match="was not made by a bench"):
            small_bench(zoo_path, tmp_path, redo=redo)
    assert files(mine) == {mine / "notes.txt": b"mine"}


def test_minutes_are_turned_into_steps_by_timing(zoo_path, tmp_path):
    encoder = [write_encoder(tmp_path, "flat", FLAT)]
    assert small_bench(zoo_path, tmp_path, encoders=encoder, budget=Budget(0.002, "minutes"))[1] == 0
    folder = Path(tmp_path / "out/flat/seed0")
    length = json.loads((folder / "length.json").read_text())
    assert length["steps"] == length["interval"] * (length["steps"] // length["interval"])
    fitting = 0.12 / length["step_seconds"]
    assert fitting - length["interval"] - 1 < length["steps"] <= max(1, fitting)
    assert json.loads((folder / "result.json").read_text())["steps"] == length["steps"]
