"""Short runs by the command line, for its tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import wsl
from wsl.cli import main
from wsl.tasks import INRClassification

SMALL = ["--model.encoder.channels", "8", "--model.encoder.layers", "1", "--trainer.accelerator", "cpu"]


def fit(zoo_path: str, *options: str, name: str = "a", epochs: int = 2) -> int:
    """The exit code of ``fit``, which trains the run ``name`` in the current folder."""
    data = ["--data", "ZooDataModule", "--data.path", zoo_path, "--data.batch_size", "16"]
    limit = ["--trainer.max_epochs", str(epochs)]
    return main(["fit", "--model", "INRClassification", *data, *SMALL, *limit, "--name", name, *options])


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh process that finds the package in any folder."""
    environment = {**os.environ, "PYTHONPATH": str(Path(wsl.__file__).parents[1])}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)


def weights(path: str | Path) -> dict[str, torch.Tensor]:
    """Parameters and buffers in a checkpoint."""
    state: dict[str, torch.Tensor] = torch.load(path, weights_only=True)["state_dict"]
    return state


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    """Whether these are the same, bit by bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def assert_goes_on_from_last(data: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that stops in its third epoch and goes on ends as the unbroken one; returns its folder."""
    assert fit(data, name="whole", epochs=3) == 0

    def stop(task: INRClassification) -> None:
        if task.current_epoch == 2:
            raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(INRClassification, "on_train_epoch_start", stop)
        with pytest.raises(InterruptedError):
            fit(data, name="stopped", epochs=3)
    whole, kept = (folder / "runs" / name / "checkpoints" for name in ("whole", "stopped"))
    assert not equal(weights(kept / "last.ckpt"), weights(whole / "last.ckpt"))
    assert fit(data, "--ckpt_path", "last", name="stopped", epochs=3) == 0
    assert equal(weights(kept / "last.ckpt"), weights(whole / "last.ckpt"))
    assert equal(weights(kept / "best.ckpt"), weights(whole / "best.ckpt"))
    return kept.parent
