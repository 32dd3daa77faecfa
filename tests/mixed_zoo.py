"""A small zoo of any networks, whose label is told by the scale of their weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import wsl
from wsl.zoo import Architecture, ForwardDefinition, Shard, ShardedBuild, Zoo, split_by_model

CNNS = [
    ForwardDefinition("wsl.models:SmallCNN", {"channels": [3, 4], "classes": 3, "activation": "tanh"}),
    ForwardDefinition("wsl.models:SmallCNN", {"channels": [5], "classes": 3}),
]


def build(path: Path, forwards: Sequence[ForwardDefinition] = CNNS, each: int = 24) -> Zoo:
    """``each`` networks of every architecture, in ``path``; half of them train."""
    generator = torch.Generator().manual_seed(0)
    architectures = []
    for number, forward in enumerate(forwards):
        module = forward.build()
        inputs = forward.points()[:2] if forward.grid else module.example_inputs(2, generator)
        architectures.append(Architecture(f"{number}", wsl.trace(module, inputs), forward))
    build = ShardedBuild(
        path,
        architectures=architectures,
        shards=[Shard(each, number) for number in range(len(forwards))],
        provenance={"seed": 0},
    )
    with build:
        for shard, architecture in enumerate(architectures):
            label = np.arange(each) % 3
            build.write(shard, _weights(architecture, label, generator), {"label": label})
        fractions = {"train": 0.5, "val": 0.25, "test": 0.25}
        return build.pack(split_by_model(np.arange(each * len(forwards)), fractions, 0))


def _weights(
    architecture: Architecture, label: np.ndarray, generator: torch.Generator
) -> Mapping[str, Tensor]:
    module, factor = architecture.forward.build(), torch.from_numpy(2.0**label).float()
    found = {}
    for name, tensor in module.state_dict().items():
        noise = torch.randn((len(label), *tensor.shape), generator=generator)
        found[name] = noise * 0.3 * factor.reshape(-1, *[1] * tensor.dim())
    return found
