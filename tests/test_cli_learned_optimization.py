"""Meta-training by the command line: given configurations, refusals, and runs that are killed and go on."""

import csv
import json
import signal
from pathlib import Path

import pytest
import torch
import yaml
from small_runs import equal, python, weights

from wsl.cli import main
from wsl.tasks import LearnedOptimization

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
TASK = CONFIGS / "task" / "learned_optimization.yaml"
RECIPES = sorted((CONFIGS / "learnopt").glob("*.yaml"))
TINY = {"steps": 2, "held_out": 2, "horizon": 5}
QUADRATICS = {
    "model": {
        "class_path": "wsl.tasks.LearnedOptimization",
        "init_args": {
            "learned": {"class_path": "wsl.learnopt.SGD", "init_args": {"learning_rate": 0.02}},
            "estimator": {
                "class_path": "wsl.learnopt.PES",
                "init_args": {
                    "truncation": {
                        "class_path": "wsl.learnopt.LogUniform",
                        "init_args": {"low": 3, "high": 9},
                    },
                    "steps": 2,
                    "pairs": 2,
                },
            },
            "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 0.1}},
            "schedule": {"class_path": "wsl.tasks.WarmupCosine"},
        },
    },
    "data": {
        "class_path": "wsl.data.ProblemDataModule",
        "init_args": {
            "task": {"class_path": "wsl.learnopt.Quadratics", "init_args": {"size": 3, "noise": 0.1}},
            "steps": 5,
            "held_out": 2,
            "horizon": 5,
        },
    },
    "trainer": {"accelerator": "cpu", "max_epochs": 4, "gradient_clip_val": 1.0},
    "monitor": "val/loss",
    "mode": "min",
    "patience": None,
}
pytestmark = [
    pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory"),
]


@pytest.fixture
def config(folder):
    path = folder / "quadratics.yaml"
    path.write_text(yaml.safe_dump(QUADRATICS))
    return str(path)


def test_a_run_trains_tests_and_says_what_it_has(config, folder, capsys):
    assert main(["fit", "--config", config, "--name", "a"]) == 0
    run = folder / "runs" / "a"
    metrics = json.loads((run / "fit.json").read_text())
    assert {"val/loss", "val/final", "train/loss", "train/diverged", "train/update_norm"} <= metrics.keys()
    assert len(list(csv.reader((run / "inner_curves.csv").read_text().splitlines()))) == 6
    assert (run / "inner_curves.png").is_file() and not (run / "pictures.png").exists()
    assert main(["test", "--name", "a"]) == 0
    assert json.loads((run / "test.json").read_text())["test/loss"] > 0
    loaded = LearnedOptimization.load_from_checkpoint(run / "checkpoints" / "best.ckpt", weights_only=True)
    assert set(dict(loaded.learned.named_parameters())) == {"log_rate"}
    assert main(["fit", "--config", config, "--name", "a", "--ckpt_path", "last"]) == 0
    assert main(["predict", "--name", "a"]) == 2
    assert "there is nothing to predict about problems" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model.learned.init_args.learning_rate", "-1"], "learning_rate is -1.0"),
        (["--model.estimator.init_args.sigma", "0"], "PES: sigma is 0"),
        (["--data.horizon", "0"], "horizon is 0"),
        (["--monitor", "val/accuracy"], "choose one of train/loss, val/loss, val/final"),
        (["--data", "ZooDataModule", "--data.path", "none.h5"], "none.h5"),
    ],
)
def test_faulty_settings_are_refused_before_a_run(config, folder, capsys, options, message):
    assert main(["fit", "--config", config, "--name", "a", *options]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("path", [TASK, *RECIPES], ids=lambda path: path.stem)
def test_given_configurations_train(path, folder, capsys):
    """Whole as they are, and for a few steps of a few lanes on the bundled digits."""
    arguments = ["fit", "--config", str(path), "--name", "a"]
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--print_config"])
    assert stop.value.code == 0
    config = yaml.safe_load(path.read_text())
    few = {"class_path": "wsl.learnopt.MlpImages", "init_args": {"limit": 300, "batch_size": 16}}
    if config["data"]["init_args"]["task"]["class_path"].endswith("TaskFamily"):
        deeper = {**few, "init_args": {**few["init_args"], "hidden": [8, 8]}}
        few = {"class_path": "wsl.learnopt.TaskFamily", "init_args": {"tasks": [few, deeper]}}
    config["data"]["init_args"].update(TINY, task=few)
    estimator = config["model"]["init_args"]["estimator"]["init_args"]
    estimator["truncation"] = {"class_path": "wsl.learnopt.Constant", "init_args": {"steps": 6}}
    estimator |= {"steps": 2, **{name: 2 for name in ("pairs", "lanes") if name in estimator}}
    config["trainer"]["max_epochs"] = 2
    tiny = folder / "tiny.yaml"
    tiny.write_text(yaml.safe_dump(config))
    assert main([*arguments[:2], str(tiny), *arguments[3:]]) == 0
    stored = torch.load(folder / "runs" / "a" / "checkpoints" / "last.ckpt", weights_only=True)
    assert stored["global_step"] == 4 and stored["wsl"]["lanes"] is not None


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_as_the_unbroken_one(config, folder):
    """In the first epoch, before any checkpoint; within later ones; while validating."""
    assert main(["fit", "--config", config, "--name", "whole"]) == 0
    script = """
import os, signal, sys
from wsl.cli import main
from wsl.tasks import LearnedOptimization
moment, step = sys.argv[1], int(sys.argv[2])
original = getattr(LearnedOptimization, moment)
def stop(self, *arguments):
    if self.global_step == step:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(self, *arguments)
setattr(LearnedOptimization, moment, stop)
main(sys.argv[3:])
"""
    arguments = ["fit", "--config", config, "--name", "killed"]
    kept = folder / "runs" / "killed" / "checkpoints"
    for moment, step in (
        ("training_step", 3),
        ("validation_step", 10),
        ("training_step", 18),
    ):
        resume = ["--ckpt_path", "last"] if (kept / "last.ckpt").exists() else []
        killed = python("-c", script, moment, str(step), *arguments, *resume)
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    assert main([*arguments, "--ckpt_path", "last"]) == 0
    whole = folder / "runs" / "whole" / "checkpoints"
    for name in ("last.ckpt", "best.ckpt"):
        assert equal(weights(kept / name), weights(whole / name))
    lanes = [
        torch.load(at / "last.ckpt", weights_only=True)["wsl"]["lanes"]["groups"][0] for at in (kept, whole)
    ]
    assert torch.equal(*(group["lanes"]["params"]["weight"] for group in lanes))
