"""A run of a bench: its length by timing, and that it goes on as if it had not been interrupted."""

import json
from pathlib import Path

import pytest
import torch
from small_benches import BENCH_WARNINGS, FLAT, small_bench, write_encoder

from wsl.bench import Budget
from wsl.cli import training
from wsl.report import learning_curves
from wsl.tasks import INRClassification

pytestmark = BENCH_WARNINGS


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


def test_minutes_are_turned_into_steps_by_timing(zoo_path, tmp_path):
    encoder = [write_encoder(tmp_path, "flat", FLAT)]
    assert small_bench(zoo_path, tmp_path, encoders=encoder, budget=Budget(0.002, "minutes"))[1] == 0
    folder = Path(tmp_path / "out/flat/seed0")
    length = json.loads((folder / "length.json").read_text())
    assert length["steps"] == length["interval"] * (length["steps"] // length["interval"])
    fitting = 0.12 / length["step_seconds"]
    assert fitting - length["interval"] - 1 < length["steps"] <= max(1, fitting)
    assert json.loads((folder / "result.json").read_text())["steps"] == length["steps"]
