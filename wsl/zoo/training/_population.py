"""Builds a zoo of a population: networks that train in stacks, each with checkpoints that are rows."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from torch import Tensor

from wsl.spec import SpecError
from wsl.trace import TraceError, trace
from wsl.zoo._build import ShardedBuild
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._layout import STORED_DTYPES, Architecture
from wsl.zoo._shards import Shard
from wsl.zoo._splits import check_splits, split_by_model
from wsl.zoo._store import Zoo
from wsl.zoo._workers import Executor, Made, Report, write_pending
from wsl.zoo.training._progress import TrainProgress

_SPLITS = {"train": 0.7, "val": 0.1, "test": 0.2}


class Plan(Protocol):
    """One network to train."""

    @property
    def model(self) -> int:
        """Its number in the zoo."""

    @property
    def forward(self) -> ForwardDefinition:
        """Its architecture."""


P = TypeVar("P", bound=Plan)


class TrainedStack(NamedTuple):
    """Weights and metadata of the checkpoints of a stack, network by network, and each network's quality."""

    weights: Mapping[str, Tensor]
    columns: Mapping[str, Any]
    quality: np.ndarray


@dataclass(frozen=True)
class Population(Generic[P]):
    """Networks of a zoo, and how they are trained.

    Args:
        stacks: the networks that train together, each of one architecture.
        name: tells an architecture from the others.
        example: an input of an architecture, for its specification.
        checkpoints: how often a network is stored.
        examples: how many a network trains on, over all steps.
        train: trains a stack; calls its second argument now and then with the number of new examples. It
            pickles.
        unit: what examples are.
        quality: the mean quality of networks in words.
    """

    stacks: list[list[P]]
    name: Callable[[ForwardDefinition], str]
    example: Callable[[ForwardDefinition], Tensor]
    checkpoints: Callable[[P], int]
    examples: Callable[[P], int]
    train: Callable[[list[P], Callable[[int], None]], TrainedStack]
    unit: str
    quality: Callable[[float], str]


def build_population(
    out: str | os.PathLike[str],
    population: Population[P],
    provenance: Mapping[str, Any],
    *,
    splits: Mapping[str, float] | None,
    seed: int,
    dtype: str,
    executor: Executor,
    progress: bool,
) -> Zoo:
    """Train the networks that are not stored yet, and make the zoo. A stack is what is lost at most.

    Args:
        splits: share of the networks for each split; by default 70 % train, 10 % val and 20 % test.

    Raises:
        ZooError: an architecture that cannot be traced, unusable arguments or ``out``.
    """
    stacks = population.stacks
    architectures, shards = _architectures(population)
    models = np.array(
        [plan.model for stack in stacks for plan in stack for _ in range(population.checkpoints(plan))]
    )
    parts = split_by_model(models, dict(_SPLITS if splits is None else splits), seed, column="model")
    check_splits(parts, {"model": models}, len(models))
    with ShardedBuild(
        out, architectures=architectures, shards=shards, provenance=provenance, dtype=dtype
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
            shown=progress,
        ) as bar:
            write_pending(build, _StackMaker(stacks, population.train), executor, bar.advance)
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


def finite_rows(rows: Tensor, dtype: str) -> np.ndarray:
    """``(M,)``: whether all values of a row ``(M, P)`` are finite in the type in which they are stored."""
    with np.errstate(over="ignore"):
        finite: np.ndarray = np.isfinite(rows.numpy().astype(STORED_DTYPES[dtype])).all(1)
    return finite


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
        shards.append(Shard(sum(map(population.checkpoints, stack)), list(found).index(name)))
    return list(found.values()), shards
