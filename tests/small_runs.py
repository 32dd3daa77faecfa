"""Short runs by the command line, for its tests."""

import os
import subprocess
import sys
from pathlib import Path

import wsl
from wsl.cli import main

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
