"""Small benches that train in this process, for tests."""

import csv
from pathlib import Path

import pytest
import yaml

import wsl
from wsl.bench import Budget, Request, bench
from wsl.cli.bench import complete

BENCH_WARNINGS = [
    pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory"),
    pytest.mark.filterwarnings("ignore:Experiment logs directory"),
]
"""Marks of tests that train: what Lightning and jsonargparse say of themselves, and of folders used again."""
CONFIGS = Path(wsl.__file__).parents[1] / "configs"
STATISTICS = {"class_path": "wsl.encoders.StatNet", "init_args": {"channels": 8, "layers": 1, "hidden": 8}}
FLAT = {"class_path": "wsl.encoders.FlatMLP", "init_args": {"channels": 8, "layers": 1, "hidden": 8}}


def write_encoder(folder: Path, name: str, encoder: dict, **model: object) -> str:
    """The path of an encoder's configuration file."""
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"model": {"init_args": {"encoder": encoder, **model}}}))
    return str(path)


def request(zoo_path: str, folder: Path, **changes: object) -> Request:
    """Two encoders, one seed, twelve steps; ``changes`` to that."""
    encoders = (write_encoder(folder, "flat", FLAT), write_encoder(folder, "stat", STATISTICS))
    asked = {"budget": Budget(12, "steps"), "encoders": encoders, "seeds": 1, **changes}
    return Request(zoo=Path(zoo_path), out=folder / "out", configs=CONFIGS, **asked)


def in_process(runs, ended, lock):
    """Complete runs one after the other in this process, as ``python -m wsl bench run`` does in its own."""
    for run in runs:
        code = 0
        try:
            complete(run)
        except ValueError as err:
            (run.folder / "log.txt").write_text(f"earlier lines\nwsl bench: {err}\n")
            code = 2
        ended(run, code)


def small_bench(zoo_path: str, folder: Path, **changes: object) -> tuple[str, int]:
    """The table, and how many runs failed."""
    return bench(request(zoo_path, folder, **changes), in_process)


def table(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def files(folder: Path) -> dict[Path, bytes]:
    """All files below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
