"""A zoo of a million rows in a sparse file, and what opening and reading it takes. Run by test_large_zoo.py.

``python large_zoo.py FILE`` makes FILE if there is none, opens it, and reads it once from front to end and in
random batches, then prints seconds and peak memory as JSON.
"""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

from wsl.spec import WeightSpec
from wsl.zoo import Architecture, ForwardDefinition, Zoo, iter_rows, split_by_model
from wsl.zoo._layout import Tables
from wsl.zoo._writer import complete, write_tables

ROWS, STEPS, BATCH = 1_000_000, 10, 128
SPEC = WeightSpec.parse(
    """
axes   h1: 32 hidden sin   h2: 32 hidden sin   x: 2 input   y: 1 output
layers.0.weight   h1 x
layers.0.bias     h1
layers.1.weight   h2 h1
layers.1.bias     h2
layers.2.weight   y h2
layers.2.bias     y
"""
)


def make(path: Path) -> None:
    """A million checkpoints of 100,000 models with seven columns and splits; the weights are one hole."""
    random = np.random.default_rng(0)
    model = np.repeat(np.arange(ROWS // STEPS), STEPS)
    columns = {
        "activation": np.array(["relu", "tanh", "gelu", "sin"])[model % 4],
        "label": model % 10,
        "learning_rate": random.lognormal(size=ROWS // STEPS)[model],
        "model": model,
        "step": np.tile(np.arange(STEPS), ROWS // STEPS),
        "test_accuracy": random.random(ROWS),
        "test_loss": random.exponential(size=ROWS),
    }
    tables = Tables(
        architectures=(
            Architecture("net", SPEC, ForwardDefinition("wsl.models:Siren", {"hidden": [32, 32]})),
        ),
        numbers=np.zeros(ROWS, dtype=np.int32),
        provenance={},
        dtype="float32",
        columns=columns,
        splits=split_by_model(model, {"train": 0.7, "val": 0.1, "test": 0.2}, 0, column="model"),
        hashes=random.integers(0, 256, size=(ROWS, 16), dtype=np.uint8),
    )
    write_tables(path, tables)
    complete(path)


def measure(path: Path) -> dict[str, float]:
    """Processor seconds of each step, and the peak memory of this process so far in MB."""
    taken: dict[str, float] = {"start_mb": _peak()}
    begin = time.process_time()
    zoo = Zoo.open(path)
    taken["open_s"] = time.process_time() - begin
    taken["open_mb"] = _peak()
    begin = time.process_time()
    rows = sum(len(block.rows) for block in iter_rows(zoo))
    assert rows == ROWS
    taken["iterate_s"] = time.process_time() - begin
    taken["iterate_mb"] = _peak()
    begin = time.process_time()
    order = np.random.default_rng(0).permutation(ROWS)
    for start in range(0, ROWS // 4, BATCH):
        zoo.weights(order[start : start + BATCH])
    taken["random_quarter_s"] = time.process_time() - begin
    taken["random_quarter_mb"] = _peak()
    begin = time.process_time()
    assert len(zoo.where("step == 9 and activation in ['relu', 'tanh'] and test_loss < 10")) > 0
    assert zoo.trajectory(77).tolist() == list(range(770, 780))
    taken["where_s"] = time.process_time() - begin
    taken["where_mb"] = _peak()
    return taken


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    file = Path(sys.argv[1])
    if not file.exists():
        make(file)
    else:
        print(json.dumps(measure(file)))
