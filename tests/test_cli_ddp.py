"""Two processes train and validate as one does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import lightning.pytorch as pl
import pytest

import wsl

CONFIGS = Path(__file__).resolve().parent.parent / "configs"


class RankNote(pl.Callback):
    """Leaves a file for each process of a run."""

    def on_fit_start(self, trainer, pl_module):
        Path(f"rank{trainer.global_rank}of{trainer.world_size}").touch()


def fit(data, folder, *options):
    """The metrics of a run of the command line, in a process of its own, at the end of its last epoch."""
    task = ["--config", str(CONFIGS / "task" / "generalization_prediction.yaml")]
    encoder = ["--config", str(CONFIGS / "encoder" / "stat_net.yaml")]
    columns = ["--data.path", data, "--data.label", "score", "--data.where", "null"]
    run = ["--trainer.max_epochs", "3", "--trainer.accelerator", "cpu", "--data.eval_batch_size", "7"]
    note = ["--trainer.callbacks", "test_cli_ddp.RankNote", "--name", "a"]
    paths = [str(Path(wsl.__file__).parents[1]), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "WANDB_MODE": "disabled"}
    folder.mkdir()
    command = [sys.executable, "-m", "wsl", "fit", *task, *encoder, *columns, *run, *options, *note]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "runs" / "a" / "fit.json").read_text())


@pytest.mark.slow
def test_two_processes_give_the_figures_of_one(zoo_path, tmp_path):
    one = fit(zoo_path, tmp_path / "one", "--data.batch_size", "16")
    ddp = ["--config", str(CONFIGS / "trainer" / "ddp.yaml")]
    two = fit(zoo_path, tmp_path / "two", *ddp, "--data.batch_size", "8")
    assert {path.name for path in (tmp_path / "two").glob("rank*")} == {"rank0of2", "rank1of2"}
    assert {path.name for path in (tmp_path / "one").glob("rank*")} == {"rank0of1"}
    assert one.keys() == two.keys() and "val/tau" in one
    for name, value in one.items():
        assert two[name] == pytest.approx(value, abs=2e-3), name
