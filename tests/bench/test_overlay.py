"""Encoders' configurations over the common one, and the plan made of them."""

import json
from pathlib import Path

import pytest
from small_benches import CONFIGS, request

from wsl.bench import BenchError, Budget, Request, Run, overlay, plan_runs
from wsl.zoo import Zoo


def test_mappings_merge_lists_join_and_values_are_replaced():
    below = {"a": {"x": 1, "y": 2}, "b": [1], "c": 3}
    assert overlay(below, {"a": {"y": 5}, "b": [0], "d": 4}) == {
        "a": {"x": 1, "y": 5},
        "b": [0, 1],
        "c": 3,
        "d": 4,
    }
    assert below == {"a": {"x": 1, "y": 2}, "b": [1], "c": 3}


def test_arguments_stay_with_their_class():
    below = {"class_path": "A", "init_args": {"lr": 1}}
    assert overlay(below, {"class_path": "B"}) == {"class_path": "B"}
    assert overlay(below, {"class_path": "A", "init_args": {"decay": 2}})["init_args"] == {
        "lr": 1,
        "decay": 2,
    }


def test_every_encoder_is_planned_with_the_common_recipe(zoo_path, tmp_path):
    asked = Request(Path(zoo_path), tmp_path, CONFIGS, Budget(1, "epochs"))
    runs = plan_runs(asked, Zoo.open(zoo_path))
    names = {path.stem for path in (CONFIGS / "encoder").glob("*.yaml")}
    assert {run.encoder for run in runs} == names and len(runs) == 3 * len(names)
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    for run in runs:
        added = [change["class_path"] for change in run.config["data"]["init_args"]["augmentations"]]
        assert added[-2:] == ["wsl.augment.FlipSigns", "wsl.augment.AddNoise"]
        assert added[:-2] == (["wsl.augment.Permute"] if run.encoder == "transformer" else [])
        assert run.config["model"]["init_args"]["label_smoothing"] == 0.1
        assert run.config["seed_everything"] == run.config["data"]["init_args"]["seed"] == run.seed
    assert len({run.key["configuration"] for run in runs}) == len(runs)


def test_a_run_is_read_back_as_it_was_written(zoo_path, tmp_path):
    run = plan_runs(request(zoo_path, tmp_path), Zoo.open(zoo_path))[0]
    run.save()
    assert Run.load(run.folder) == run and run.made_otherwise() == []
    other = tmp_path / "other"
    with pytest.raises(BenchError, match="is no run of a bench"):
        Run.load(other)
    other.mkdir()
    (other / "run.json").write_text(json.dumps({"encoder": "a"}))
    with pytest.raises(BenchError, match="does not read as a run"):
        Run.load(other)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"encoders": ["nope"]}, "there is no encoder 'nope'"),
        ({"encoders": ["nope.yaml"]}, "nope.yaml cannot be read"),
        ({"task": "nope"}, "nope.yaml cannot be read"),
        ({"seeds": 0}, "seeds is 0"),
    ],
    ids=["name", "file", "task", "seeds"],
)
def test_what_cannot_be_planned(zoo_path, tmp_path, changes, said):
    with pytest.raises(BenchError, match=said):
        plan_runs(request(zoo_path, tmp_path, **changes), Zoo.open(zoo_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [("a: [", "is no YAML file"), ("3", "holds int"), ("a: 1", "does not say what to select by")],
    ids=["broken", "number", "metric"],
)
def test_a_task_that_does_not_serve(zoo_path, tmp_path, text, said):
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "mine.yaml").write_text(text)
    asked = Request(Path(zoo_path), tmp_path, tmp_path, Budget(1, "epochs"), task="mine")
    with pytest.raises(BenchError, match=said):
        plan_runs(asked, Zoo.open(zoo_path))
    if text == "a: 1":
        (tmp_path / "bench" / "mine.yaml").write_text(
            "{model: {class_path: a.B, init_args: {}}, monitor: val/accuracy, mode: max}"
        )
        with pytest.raises(BenchError, match="holds no encoders"):
            plan_runs(asked, Zoo.open(zoo_path))
