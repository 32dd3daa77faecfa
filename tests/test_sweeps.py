"""Sweep files: the form that Weights & Biases asks for, and commands that run as its agent starts them."""

from pathlib import Path

import pytest
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

from wsl import tasks
from wsl.cli import main

ROOT = Path(__file__).resolve().parent.parent
SWEEPS = sorted((ROOT / "configs" / "sweep").glob("*.yaml"))
TASKS = {"inr_classification", "generalization_prediction", "inr_editing"}
KEYS = {"name", "method", "metric", "run_cap", "early_terminate", "command", "parameters"}
MACROS = {"${env}", "${interpreter}", "${args}"}
# what the tests' zoo has no such columns for
OPTIONS = {"generalization_prediction": ["--data.label", "score", "--data.where", "null"]}
pytestmark = pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")


def name(path):
    return path.stem


def arguments(sweep, choose):
    """What the agent starts, for one choice of each parameter's values, without the interpreter."""
    chosen = {key: {"value": choose(about["values"])} for key, about in sweep["parameters"].items()}
    made = create_sweep_command_args({"args": chosen})
    words = create_sweep_command(list(sweep["command"]))
    assert words[:4] == ["${env}", "${interpreter}", "-m", "wsl"] and set(words[:2]) | {"${args}"} == MACROS
    return [part for word in words[4:] for part in (made["args"] if word == "${args}" else [word])]


def test_each_task_has_a_sweep():
    assert {path.stem for path in SWEEPS} == TASKS


@pytest.mark.parametrize("path", SWEEPS, ids=name)
def test_form(path):
    sweep = yaml.safe_load(path.read_text())
    assert sweep.keys() == KEYS and sweep["name"] == path.stem
    assert sweep["method"] in ("grid", "random", "bayes")
    assert sweep["metric"].keys() == {"name", "goal"} and sweep["metric"]["goal"] in ("maximize", "minimize")
    assert sweep["early_terminate"]["type"] == "hyperband" and sweep["early_terminate"]["min_iter"] > 0
    assert sweep["run_cap"] > 0 and all(isinstance(word, str) for word in sweep["command"])
    for about in sweep["parameters"].values():
        assert about.keys() == {"values"} and len(set(about["values"])) == len(about["values"]) > 1
    kind = {task.lower(): getattr(tasks, task) for task in tasks.__all__}[path.stem.replace("_", "")]
    assert sweep["metric"]["name"] in kind.metrics


@pytest.mark.filterwarnings("ignore:Checkpoint directory")
@pytest.mark.parametrize("path", SWEEPS, ids=name)
def test_the_first_of_all_values_trains(path, zoo_path, folder, monkeypatch):
    (folder / "configs").symlink_to(ROOT / "configs")
    monkeypatch.setenv("WANDB_SWEEP_ID", "s")
    monkeypatch.setenv("WANDB_RUN_ID", "r")
    words = arguments(yaml.safe_load(path.read_text()), lambda values: values[0])
    limits = [f"--trainer.limit_{part}_batches=1" for part in ("train", "val")]
    given = ["--trainer.max_epochs=1", *limits, "--data.path", zoo_path, *OPTIONS.get(path.stem, [])]
    assert main([*words, *given]) == 0
    assert (folder / "runs" / "s-r" / "checkpoints" / "best.ckpt").is_file()


@pytest.mark.parametrize("path", SWEEPS, ids=name)
def test_the_last_of_all_values_are_options(path, folder, capsys):
    (folder / "configs").symlink_to(ROOT / "configs")
    with pytest.raises(SystemExit) as stop:
        main([*arguments(yaml.safe_load(path.read_text()), lambda values: values[-1]), "--print_config"])
    assert stop.value.code == 0
