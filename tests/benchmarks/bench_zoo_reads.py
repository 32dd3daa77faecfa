"""Random batches of a zoo against a bare ``numpy.memmap``, side by side in one run.

``python tests/benchmarks/bench_zoo_reads.py`` prints the figures (target: within 3x of the bare map);
``pytest -m slow -s tests/benchmarks/bench_zoo_reads.py`` also checks that all ways read the same.
"""

import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np
import torch

import wsl.zoo._map
from wsl.spec import WeightSpec
from wsl.zoo import Architecture, ForwardDefinition, ShardedBuild, Zoo, ZooWriter, even_shards

ROWS, BATCH, ROUNDS = 20_000, 128, 400
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


def build(out: Path) -> Zoo:
    """A zoo of 20,000 random networks of 1,185 weights."""
    generator = torch.Generator().manual_seed(0)
    forward = ForwardDefinition("wsl.models:Siren", {"hidden": [32, 32]}, grid=(28, 28))
    architecture, shards = Architecture("Siren", SPEC, forward), even_shards(ROWS, 5_000)
    with ShardedBuild(out, architectures=[architecture], shards=shards, provenance={}) as build:
        for shard in build.pending:
            rows = len(build.rows_of(shard))
            build.write(
                shard,
                {name: torch.randn(rows, *t.shape, generator=generator) for name, t in SPEC.tensors.items()},
                {"label": np.arange(rows) % 10},
            )
        return build.pack({})


def build_mixed(out: Path) -> Zoo:
    """The same number of networks of ten architectures, in turn; 1,121 to 2,327 weights each."""
    generator = np.random.default_rng(0)
    with ZooWriter(out, provenance={}) as writer:
        architectures = []
        for number in range(10):
            spec = WeightSpec.parse(str(SPEC).replace("h1: 32", f"h1: {31 + 4 * number}"))
            forward = ForwardDefinition("wsl.models:Siren", {"hidden": [31 + 4 * number, 32]}, grid=(28, 28))
            architectures.append(Architecture(f"width {31 + 4 * number}", spec, forward))
            writer.add(architectures[-1])
        for number in range(ROWS // 100):
            architecture = architectures[number % 10]
            width = architecture.parameters[-1].offset + 1
            rows = generator.normal(size=(100, width)).astype(np.float32)
            writer.append(architecture.name, rows, {"label": np.arange(100) % 10})
        return writer.finish()


def read_mixed(zoo: Zoo, rows: np.ndarray) -> list[dict[str, torch.Tensor]]:
    """The weights of a batch, architecture by architecture."""
    return [part.architecture.weights(part.rows) for part in zoo.locate(rows)]


def without_map(path: Path) -> Zoo:
    """The zoo as if its file were too large to be mapped into memory."""
    zoo, limit = Zoo.open(path), wsl.zoo._map._MAPPED_BYTES
    wsl.zoo._map._MAPPED_BYTES = 0
    try:
        zoo.weights([0])
    finally:
        wsl.zoo._map._MAPPED_BYTES = limit
    return zoo


def milliseconds(zoo: Zoo, mixed: Zoo, bare: np.memmap, dataset: "h5py.Dataset") -> dict[str, float]:
    """Median processor time of a batch for each way of reading, in turn so that load hits all alike."""
    large = without_map(zoo.path)
    random = np.random.default_rng(0)
    ways = {
        "bare memmap, random": lambda rows: bare[rows],
        "zoo.weights, random": zoo.weights,
        "zoo.matrix, random": zoo.matrix,
        "large file, random": large.weights,
        "ten architectures, random": partial(read_mixed, mixed),
        "bare memmap, consecutive": lambda rows: np.array(bare[rows[0] % 1000 : rows[0] % 1000 + BATCH]),
        "zoo.weights, consecutive": lambda rows: zoo.weights(slice(rows[0] % 1000, rows[0] % 1000 + BATCH)),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, read in ways.items():
            rows = random.choice(ROWS, BATCH, replace=False)
            begin = time.process_time()
            read(rows)
            times[name].append(time.process_time() - begin)
    times["h5py indexing, random"] = []
    for _ in range(10):
        rows = np.sort(random.choice(ROWS, BATCH, replace=False))
        begin = time.process_time()
        dataset[rows]
        times["h5py indexing, random"].append(time.process_time() - begin)
    return {name: 1000 * float(np.median(seconds)) for name, seconds in times.items()}


def measure(folder: Path) -> dict[str, float]:
    """Times of all ways, after a check that they read the same."""
    zoo = build(folder / "zoo.h5")
    np.save(folder / "bare.npy", zoo.matrix())
    bare = np.load(folder / "bare.npy", mmap_mode="r")
    rows = np.arange(0, ROWS, ROWS // BATCH)
    flat = torch.cat([tensor.flatten(1) for tensor in zoo.weights(rows).values()], dim=1)
    assert np.array_equal(flat.numpy(), bare[rows])
    with h5py.File(zoo.path, "r") as file:
        return milliseconds(zoo, build_mixed(folder / "mixed.h5"), bare, file["architectures/0/weights"])


def report(times: dict[str, float]) -> str:
    """The table, against the bare map."""
    base = times["bare memmap, random"]
    lines = [f"{name:<26} {value:8.3f} ms  {value / base:6.2f}x" for name, value in times.items()]
    return "\n".join([f"batch of {BATCH} from {ROWS} x 1,185 float32", *lines, ""])


def test_every_way_reads_the_same(tmp_path: Path) -> None:
    times = measure(tmp_path)
    sys.stdout.write("\n" + report(times))
    assert all(value > 0 for value in times.values())


def main() -> None:
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        sys.stdout.write(report(measure(Path(folder))))


if __name__ == "__main__":
    main()
