"""A small zoo for the tests of the store: every row is known in advance, whatever way it was built."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from wsl.spec import WeightSpec
from wsl.zoo import (
    Architecture,
    ForwardDefinition,
    ShardedBuild,
    Split,
    Zoo,
    ZooWriter,
    even_shards,
    split_by_model,
)

SPEC = WeightSpec.parse(
    """
axes   h1: 5 hidden sin sign   x: 2 input   y: 1 output
layers.0.weight   h1 x
layers.0.bias     h1
layers.1.weight   y h1
layers.1.bias     y
scaling:  h1 sign layers.0.weight+1 layers.0.bias+1 layers.1.weight+1
"""
)
FORWARD = ForwardDefinition("wsl.models:Siren", {"hidden": [5], "w0": 20.0}, grid=(4, 3), output_offset=0.5)
PROVENANCE = {
    "source": {"name": "noise", "blake2b": "00"},
    "recipe": {"steps": 10},
    "package": "0",
    "seed": 3,
}
FRACTIONS = {"train": 0.5, "val": 0.25, "test": 0.25}


def row_weights(rows: range) -> dict[str, Tensor]:
    """The weights of some rows: row ``r`` is drawn from its own generator."""
    generators = [torch.Generator().manual_seed(row) for row in rows]
    return {
        name: torch.stack([torch.randn(tensor.shape, generator=generator) for generator in generators])
        for name, tensor in SPEC.tensors.items()
    }


def row_metadata(rows: range) -> dict[str, Any]:
    """Two views of each image, a label, a figure with a gap, and text of different lengths."""
    return {
        "image": [row // 2 for row in rows],
        "label": np.array([row % 3 for row in rows], dtype=np.uint8),
        "psnr": torch.tensor([float("nan") if row == 1 else row / 7 for row in rows]),
        "title": ["é" * (row % 5) for row in rows],
    }


def image_splits(rows: int) -> dict[str, Split]:
    return split_by_model(row_metadata(range(rows))["image"], FRACTIONS, seed=1, column="image")


def start_build(out: Path, rows: int = 16, shard_rows: int = 5, **changes: Any) -> ShardedBuild:
    """Open the small zoo's build; ``changes`` replace its forward definition, provenance or dtype."""
    given: dict[str, Any] = {"provenance": PROVENANCE, "dtype": "float32"} | changes
    architecture = Architecture("Siren", SPEC, given.pop("forward", FORWARD))
    return ShardedBuild(out, architectures=[architecture], shards=even_shards(rows, shard_rows), **given)


def build_zoo(
    out: Path, rows: int = 16, work: Callable[[int], None] = lambda shard: None, **changes: Any
) -> Zoo:
    """Build the small zoo to its end, calling ``work(shard)`` before each shard is written."""
    with start_build(out, rows, **changes) as build:
        for shard in build.pending:
            work(shard)
            build.write(shard, row_weights(build.rows_of(shard)), row_metadata(build.rows_of(shard)))
        return build.pack(image_splits(rows))


def flat(weights: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([tensor.flatten(1) for tensor in weights.values()], dim=1)


class ZooRows(Dataset[Tensor]):
    """One flat row an item; holds the zoo, as loader workers do."""

    def __init__(self, zoo: Zoo) -> None:
        self.zoo = zoo

    def __len__(self) -> int:
        return len(self.zoo)

    def __getitem__(self, row: int) -> Tensor:
        return flat(self.zoo.weights([row]))[0]


OTHER = Architecture(
    "wide",
    WeightSpec.parse(
        """
axes   h1: 7 hidden sin sign   x: 2 input   y: 1 output
layers.0.weight   h1 x
layers.0.bias     h1
layers.1.weight   y h1
layers.1.bias     y
scaling:  h1 sign layers.0.weight+1 layers.0.bias+1 layers.1.weight+1
"""
    ),
    ForwardDefinition("wsl.models:Siren", {"hidden": [7], "w0": 20.0}, grid=(4, 3), output_offset=0.5),
)


def mixed_matrices(rows: int) -> dict[str, np.ndarray]:
    """Weights of a zoo in which every third row is of the wider architecture."""
    generator = np.random.default_rng(5)
    wide = np.arange(rows) % 3 == 2
    return {
        "small": generator.normal(size=((~wide).sum(), 21)).astype(np.float32),
        "wide": generator.normal(size=(wide.sum(), 29)).astype(np.float32),
    }


def mixed_zoo(out: Path, rows: int = 16) -> Zoo:
    """A zoo of two architectures with the columns and splits of the small zoo."""
    matrices = mixed_matrices(rows)
    taken = dict.fromkeys(matrices, 0)
    with ZooWriter(out, provenance=PROVENANCE) as writer:
        writer.add(Architecture("small", SPEC, FORWARD))
        writer.add(OTHER)
        for row in range(rows):
            name = "wide" if row % 3 == 2 else "small"
            matrix = matrices[name][taken[name] : taken[name] + 1]
            taken[name] += 1
            writer.append(name, matrix, row_metadata(range(row, row + 1)))
        return writer.finish(image_splits(rows))
