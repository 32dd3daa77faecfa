"""Every way to write a zoo, for the tests of disks that are full and processes that are killed."""

from collections.abc import Callable
from pathlib import Path

from small_zoos import FORWARD, SPEC, build_zoo, row_metadata, row_weights

from wsl.zoo import Architecture, Zoo, ZooWriter, merge_zoos, split_zoo, subset_zoo

ROWS = 60


def stream(source: Zoo, out: Path) -> None:
    with ZooWriter(out, provenance={}) as writer:
        writer.add(Architecture("net", SPEC, FORWARD))
        for first in range(0, ROWS, 20):
            rows = range(first, first + 20)
            writer.append("net", row_weights(rows), row_metadata(rows))
        writer.finish()


WAYS: dict[str, Callable[[Zoo, Path], object]] = {
    "build": lambda source, out: build_zoo(out, ROWS),
    "merge": lambda source, out: merge_zoos([source, source], out, distinct=["image"]),
    "split": lambda source, out: split_zoo(source, out, {"train": 0.5, "test": 0.5}, by="image"),
    "stream": stream,
    "subset": lambda source, out: subset_zoo(source, out),
}
