"""A small zoo of SIRENs whose label can be read from their weights, for tests of data, tasks and commands."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from wsl.models import Siren
from wsl.spec import WeightSpec
from wsl.zoo import Architecture, ForwardDefinition, Shard, ShardedBuild, Zoo, split_by_model

SPEC = WeightSpec.parse(
    """
    axes   h1: 6 hidden sin sign   h2: 5 hidden sin sign   x: 2 input   y: 1 output
    layers.0.weight  h1 x
    layers.0.bias    h1
    layers.1.weight  h2 h1
    layers.1.bias    h2
    layers.2.weight  y h2
    layers.2.bias    y
    scaling:  h1 sign layers.0.weight+1 layers.0.bias+1 layers.1.weight+1
    scaling:  h2 sign layers.1.weight+1 layers.1.bias+1 layers.2.weight+1
    """
)
FORWARD = ForwardDefinition(
    "wsl.models:Siren", {"in_features": 2, "hidden": [6, 5], "out_features": 1}, grid=(4, 4)
)
CLASSES = 3


def spec(hidden: tuple[int, int]) -> WeightSpec:
    """The specification of SIRENs of these widths."""
    return WeightSpec.parse(
        str(SPEC).replace("h1: 6", f"h1: {hidden[0]}").replace("h2: 5", f"h2: {hidden[1]}")
    )


def build(
    path: Path, images: int = 60, views: int = 2, seed: int = 0, hidden: tuple[int, int] = (6, 5)
) -> Zoo:
    """``images * views`` networks in ``path``; the scale of the second layer tells the class."""
    generator = torch.Generator().manual_seed(seed)
    count = images * views
    image = np.repeat(np.arange(images), views)
    label = image % CLASSES
    drawn = [Siren(2, hidden, 1, generator=generator).state_dict() for _ in range(count)]
    weights = {name: torch.stack([network[name] for network in drawn]).numpy() for name in drawn[0]}
    factor = (3.0**label).astype(np.float32)
    weights["layers.1.weight"] = weights["layers.1.weight"] * factor[:, None, None]
    forward = replace(FORWARD, arguments={**FORWARD.arguments, "hidden": list(hidden)})
    build = ShardedBuild(
        path,
        architectures=[Architecture("Siren", spec(hidden), forward)],
        shards=[Shard(count)],
        provenance={"seed": seed},
    )
    with build:
        build.write(0, weights, {"label": label, "image": image, "score": label / 2})
        return build.pack(split_by_model(image, {"train": 0.6, "val": 0.2, "test": 0.2}, 0, column="image"))
