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

from wsl.spec import WeightSpec
from wsl.zoo import Architecture, ForwardDefinition, ShardedBuild, Zoo, ZooWriter, even_shards

ROWS, LARGE_ROWS, BATCH, ROUNDS = 20_000, 50_000, 128, 400  # 50,000 rows: more than is mapped into memory
ARCHITECTURES, MANY = 10, 1_000
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


def build(out: Path, rows: int = ROWS) -> Zoo:
    """A zoo of random networks of 1,185 weights."""
    generator = torch.Generator().manual_seed(0)
    forward = ForwardDefinition("wsl.models:Siren", {"hidden": [32, 32]}, grid=(28, 28))
    architecture, shards = Architecture("Siren", SPEC, forward), even_shards(rows, 5_000)
    with ShardedBuild(out, architectures=[architecture], shards=shards, provenance={}) as build:
        for shard in build.pending:
            rows = len(build.rows_of(shard))
            build.write(
                shard,
                {name: torch.randn(rows, *t.shape, generator=generator) for name, t in SPEC.tensors.items()},
                {"label": np.arange(rows) % 10},
            )
        return build.pack({})


def of_width(number: int) -> Architecture:
    """The architecture of another width for each number."""
    spec = WeightSpec.parse(str(SPEC).replace("h1: 32", f"h1: {31 + 4 * number}"))
    forward = ForwardDefinition("wsl.models:Siren", {"hidden": [31 + 4 * number, 32]}, grid=(28, 28))
    return Architecture(f"width {31 + 4 * number}", spec, forward)


def build_mixed(out: Path, count: int = ARCHITECTURES, rows: int = ROWS) -> Zoo:
    """Networks of several architectures, in turn; ten have 1,121 to 2,327 weights each."""
    generator = np.random.default_rng(0)
    block = min(100, rows // count)
    with ZooWriter(out, provenance={}) as writer:
        architectures = [of_width(number) for number in range(count)]
        for architecture in architectures:
            writer.add(architecture)
        for number in range(rows // block):
            architecture = architectures[number % count]
            matrix = generator.normal(size=(block, architecture.width)).astype(np.float32)
            writer.append(architecture.name, matrix, {"label": np.arange(block) % 10})
        return writer.finish()


def read_mixed(zoo: Zoo, rows: np.ndarray) -> list[dict[str, torch.Tensor]]:
    """The weights of a batch, architecture by architecture."""
    return [part.weights() for part in zoo.locate(rows)]


def bare_maps(zoo: Zoo) -> list[np.memmap]:
    """The zoo's own matrices as bare maps of its file."""
    return [np.memmap(zoo.path, np.float32, "r", stored.offset, stored.shape) for stored in zoo.stored]


def read_bare(maps: list[np.memmap], zoo: Zoo, rows: np.ndarray) -> list[np.ndarray]:
    """What :func:`read_mixed` reads, with one indexing for each map."""
    numbers, places = zoo.tables.numbers[rows], zoo.tables.places[rows]
    return [each[places[numbers == number]] for number, each in enumerate(maps)]


def milliseconds(zoo: Zoo, mixed: Zoo, large: Zoo) -> dict[str, float]:
    """Median processor time of a batch for each way of reading, in turn so that load hits all alike."""
    random = np.random.default_rng(0)
    ((bare,), (large_bare,)), mixed_bare = (bare_maps(each) for each in (zoo, large)), bare_maps(mixed)
    total = dict.fromkeys(("bare memmap, large file", "zoo.weights, large file"), LARGE_ROWS)
    ways = {
        "bare memmap": lambda rows: bare[rows],
        "zoo.weights": zoo.weights,
        "zoo.matrix": zoo.matrix,
        "bare memmap, large file": lambda rows: large_bare[rows],
        "zoo.weights, large file": large.weights,
        "ten bare memmaps": partial(read_bare, mixed_bare, mixed),
        "ten architectures": partial(read_mixed, mixed),
        "bare memmap, consecutive": lambda rows: np.array(bare[rows[0] % 1000 : rows[0] % 1000 + BATCH]),
        "zoo.weights, consecutive": lambda rows: zoo.weights(slice(rows[0] % 1000, rows[0] % 1000 + BATCH)),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, read in ways.items():
            rows = random.choice(total.get(name, ROWS), BATCH, replace=False)
            begin = time.process_time()
            read(rows)
            times[name].append(time.process_time() - begin)
    times["h5py indexing"] = []
    with h5py.File(zoo.path, "r") as file:
        for _ in range(10):
            rows = np.sort(random.choice(ROWS, BATCH, replace=False))
            begin = time.process_time()
            file["architectures/0/weights"][rows]
            times["h5py indexing"].append(time.process_time() - begin)
    return {name: 1000 * float(np.median(seconds)) for name, seconds in times.items()}


def opening(path: Path) -> float:
    """Processor milliseconds that opening a zoo takes, the least of five times."""
    times = []
    for _ in range(5):
        begin = time.process_time()
        Zoo.open(path)
        times.append(time.process_time() - begin)
    return 1000 * min(times)


def measure(folder: Path) -> tuple[dict[str, float], float]:
    """Times of all ways after a check that they read the same, and of opening a thousand architectures."""
    zoo, mixed = build(folder / "zoo.h5"), build_mixed(folder / "mixed.h5")
    rows = np.arange(0, ROWS, ROWS // BATCH)
    flat = torch.cat([tensor.flatten(1) for tensor in zoo.weights(rows).values()], dim=1)
    assert np.array_equal(flat.numpy(), bare_maps(zoo)[0][rows])
    for mine, expected in zip(read_mixed(mixed, rows), read_bare(bare_maps(mixed), mixed, rows), strict=True):
        flat = torch.cat([tensor.flatten(1) for tensor in mine.values()], dim=1)
        assert np.array_equal(flat.numpy(), expected)
    times = milliseconds(zoo, mixed, build(folder / "large.h5", LARGE_ROWS))
    return times, opening(build_mixed(folder / "many.h5", MANY, MANY).path)


def report(times: dict[str, float], many: float) -> str:
    """The table, each way against the bare map of its file."""
    base = {
        "zoo.weights, large file": "bare memmap, large file",
        "zoo.weights, consecutive": "bare memmap, consecutive",
    }
    lines = []
    for name, value in times.items():
        other = base.get(name, "bare memmap")
        lines.append(f"{name:<26} {value:8.3f} ms  {value / times[other]:6.2f}x of {other}")
    head = f"batch of {BATCH} random rows of 1,185 float32, from {ROWS} (large file: {LARGE_ROWS})"
    return "\n".join([head, *lines, f"opening {MANY} architectures: {many:.0f} ms", ""])


def test_every_way_reads_the_same(tmp_path: Path) -> None:
    times, many = measure(tmp_path)
    sys.stdout.write("\n" + report(times, many))
    assert min(many, *times.values()) > 0


def main() -> None:
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        sys.stdout.write(report(*measure(Path(folder))))


if __name__ == "__main__":
    main()
