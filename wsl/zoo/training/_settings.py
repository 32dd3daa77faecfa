"""Arguments that all builders of populations have."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import wsl
from wsl.zoo._errors import ZooError
from wsl.zoo._executors import ExecutorName, executor_of
from wsl.zoo._workers import Executor
from wsl.zoo.training._recipe import PopulationRecipe


@dataclass(frozen=True)
class BuildSettings:
    """How a zoo is built, whatever is in it; the fields are arguments of :func:`build_settings`."""

    out: str | os.PathLike[str]
    splits: Mapping[str, float] | None
    seed: int
    dtype: str
    executor: Executor
    progress: bool


def build_settings(
    out: str | os.PathLike[str],
    splits: Mapping[str, float] | None,
    seed: int,
    dtype: str,
    executor: ExecutorName,
    address: str | None,
    workers: int | None,
    progress: bool,
) -> BuildSettings:
    """Check the arguments that builders have in common, in their order, before anything is loaded.

    Args:
        splits: share of the networks for each split; by default 70 % train, 10 % val and 20 % test.

    Raises:
        ZooError: a negative seed, or no such executor.
    """
    if seed < 0:
        raise ZooError(f"seed is {seed}, expected at least 0.")
    return BuildSettings(out, splits, seed, dtype, executor_of(executor, address, workers), progress)


def check_positive(**counts: int | None) -> None:
    """Raise ZooError for an argument below 1; None stands for all that there are."""
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ZooError(f"{name} is {count}, expected at least 1.")


def build_provenance(
    builder: str, architecture: object, recipe: PopulationRecipe[Any], seed: int, **further: Any
) -> dict[str, Any]:
    """What identifies a build: the arguments that decide what the zoo holds.

    Args:
        builder: the full name of the function.
        further: arguments of this builder by their names, and what its examples are.
    """
    return {
        "builder": builder,
        "version": wsl.__version__,
        "architecture": {"class": type(architecture).__name__, **vars(architecture)},
        "recipe": asdict(recipe),
        "seed": seed,
        **further,
    }
