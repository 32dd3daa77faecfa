"""Builds a zoo of a population: networks that train in stacks, each with checkpoints that are rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
from torch import Tensor

from wsl.spec import SpecError
from wsl.trace import TraceError, trace
from wsl.zoo._build import ShardedBuild
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._layout import Architecture
from wsl.zoo._shards import Shard
from wsl.zoo._splits import Split, check_splits, split_by_model
from wsl.zoo._store import Zoo
from wsl.zoo._workers import Made, Report, write_pending
from wsl.zoo.training._plan import P
from wsl.zoo.training._progress import TrainProgress
from wsl.zoo.training._settings import BuildSettings
from wsl.zoo.training._stacks import TrainedStack

_SPLITS = {"train": 0.7, "val": 0.1, "test": 0.2}


@dataclass(frozen=True)
class Population(Generic[P]):
    """Networks of a zoo, and how they are trained.

    Args:
        stacks: the networks that train together, each of one architecture.
        name: tells an architecture from the others.
        example: an input of an architecture, for its specification.
        examples: how many a network trains on, over all steps.
        train: trains a stack; calls its second argument now and then with the number of new examples. It
            pickles.
        unit: what examples are.
        quality: the mean quality of networks in words.
        group: the column whose values keep the networks that share them in one split; a field of the plans.
    """

    stacks: list[list[P]]
    name: Callable[[ForwardDefinition], str]
    example: Callable[[ForwardDefinition], Tensor]
    examples: Callable[[P], int]
    train: Callable[[list[P], Callable[[int], None]], TrainedStack]
    unit: str
    quality: Callable[[float], str]
    group: str = "model"


def build_population(
    settings: BuildSettings, population: Population[P], provenance: Mapping[str, Any]
) -> Zoo:
    """Train the networks that are not stored yet, and make the zoo. A stack is what is lost at most.

    Raises:
        ZooError: an architecture that cannot be traced, unusable arguments or ``out``.
    """
    stacks = population.stacks
    architectures, shards = _architectures(population)
    parts = _splits(population, settings)
    with ShardedBuild(
        settings.out,
        architectures=architectures,
        shards=shards,
        provenance=provenance,
        dtype=settings.dtype,
    ) as build:
        pending = [stacks[shard] for shard in build.pending]
        work, waiting = (
            sum(population.examples(plan) for stack in some for plan in stack) for some in (stacks, pending)
        )
        networks, untrained = sum(map(len, stacks)), sum(map(len, pending))
        with TrainProgress(
            work,
            work - waiting,
            networks,
            networks - untrained,
            unit=population.unit,
            quality=population.quality,
            shown=settings.progress,
        ) as bar:
            write_pending(build, _StackMaker(stacks, population.train), settings.executor, bar.advance)
        return build.pack(parts)


@dataclass(frozen=True, eq=False)
class _StackMaker(Generic[P]):
    """Makes a shard of each stack."""

    stacks: list[list[P]]
    train: Callable[[list[P], Callable[[int], None]], TrainedStack]

    def __call__(self, shard: int, report: Report) -> Made:
        trained = self.train(self.stacks[shard], report)
        report(0, trained.quality)
        return trained.weights, trained.columns


def _splits(population: Population[P], settings: BuildSettings) -> dict[str, Split]:
    """Rows of each split; networks of one group stay together."""
    fractions = dict(_SPLITS if settings.splits is None else settings.splits)
    groups = np.array(
        [
            getattr(plan, population.group)
            for stack in population.stacks
            for plan in stack
            for _ in plan.stored
        ]
    )
    parts = split_by_model(groups, fractions, settings.seed, column=population.group)
    check_splits(parts, {population.group: groups}, len(groups))
    return parts


def _architectures(population: Population[P]) -> tuple[list[Architecture], list[Shard]]:
    """The architectures in the order in which stacks have them, and each stack's rows."""
    found: dict[str, Architecture] = {}
    shards = []
    for stack in population.stacks:
        forward = stack[0].forward
        name = population.name(forward)
        if name not in found:
            try:
                found[name] = Architecture(name, trace(forward.build(), population.example(forward)), forward)
            except (TraceError, SpecError) as err:
                raise ZooError(
                    f"{forward.factory} cannot be traced with {dict(forward.arguments)}: {err}"
                ) from err
        shards.append(Shard(sum(len(plan.stored) for plan in stack), list(found).index(name)))
    return list(found.values()), shards
