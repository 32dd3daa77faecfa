"""Builds the small zoo on two Ray nodes; shards that the second node begins do not end while it lives.

Arguments: the zoo file, the head's address, the second node's id, and a file to make when that has begun.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import ray
from small_zoos import image_splits, row_metadata, row_weights, start_build

from wsl.zoo._executors import executor_of
from wsl.zoo._workers import Made, Report, write_pending


@dataclass(frozen=True)
class Maker:
    """The rows of the small zoo; the second node sleeps over them."""

    node: str
    begun: Path

    def __call__(self, shard: int, report: Report) -> Made:
        if ray.get_runtime_context().get_node_id() == self.node:
            self.begun.touch()
            time.sleep(3600)
        while not self.begun.exists():
            time.sleep(0.05)
        rows = range(5 * shard, min(5 * shard + 5, 16))
        return row_weights(rows), row_metadata(rows)


def main(out: str, address: str, node: str, begun: str) -> None:
    with start_build(Path(out)) as build:
        write_pending(build, Maker(node, Path(begun)), executor_of("ray", address, None), lambda: None)
        build.pack(image_splits(16))


if __name__ == "__main__":
    main(*sys.argv[1:])
