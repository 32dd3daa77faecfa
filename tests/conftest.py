"""Settings for the whole suite: one thread, fixed seeds, no network, no files outside temporary folders."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

# Read when numpy, torch, matplotlib and wandb are first imported, here or in child processes.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "Agg"
os.environ["WANDB_MODE"] = "offline"
os.environ["WANDB_SILENT"] = "true"
os.environ["WANDB_ERROR_REPORTING"] = "false"

import numpy as np
import pytest
import tiny_zoo
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, print_blob=False)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree, where ``configs/`` and ``README.md`` are."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def zoo_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small zoo, for tests that only read it."""
    return str(tiny_zoo.build(tmp_path_factory.mktemp("zoo") / "tiny.h5").path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, without Weights & Biases."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    return tmp_path


@pytest.fixture(scope="session", autouse=True)
def _wandb_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the files of Weights & Biases out of the home folder and the source tree."""
    folder = tmp_path_factory.mktemp("wandb")
    for name in ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "WANDB_ARTIFACT_DIR"):
        os.environ[name] = str(folder)


@pytest.fixture(autouse=True)
def _fixed_seeds() -> None:
    """Start every test from the same global random states, although code under test should use none."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _deterministic_algorithms() -> Iterator[None]:
    """Trainers switch torch to deterministic algorithms, and leave it so."""
    yield
    torch.use_deterministic_algorithms(False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Benchmarks are slow by definition: they run with ``pytest tests/benchmarks -m slow`` only."""
    for item in items:
        if "benchmarks" in item.path.parts:
            item.add_marker(pytest.mark.slow)
