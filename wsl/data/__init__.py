"""Data modules: batches of raw weights from a zoo, with the statistics of its train split.

The data modules load on first use: reading workers need no Lightning, which takes seconds to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wsl.data.batch import MixedBatch, WeightBatch
from wsl.data.collection import MixedRows, ZooCollection
from wsl.data.loading import WeightLoader, ZooRows
from wsl.data.sampling import ArchitectureSampler, BatchRequest, BatchSampler
from wsl.data.statistics import (
    WeightStatistics,
    by_block,
    mixed_statistics,
    weight_statistics,
    zoo_statistics,
)

if TYPE_CHECKING:
    from wsl.data.base import BaseDataModule, DataError, Targets
    from wsl.data.module import ZooDataModule
    from wsl.data.problems import HeldOut, MetaSteps, ProblemDataModule

__all__ = [
    "ArchitectureSampler",
    "BaseDataModule",
    "BatchRequest",
    "BatchSampler",
    "DataError",
    "HeldOut",
    "MetaSteps",
    "MixedBatch",
    "MixedRows",
    "ProblemDataModule",
    "Targets",
    "WeightBatch",
    "WeightLoader",
    "WeightStatistics",
    "ZooCollection",
    "ZooDataModule",
    "ZooRows",
    "by_block",
    "mixed_statistics",
    "weight_statistics",
    "zoo_statistics",
]


_HOMES = {
    "wsl.data.base": ("BaseDataModule", "DataError", "Targets"),
    "wsl.data.module": ("ZooDataModule",),
    "wsl.data.problems": ("HeldOut", "MetaSteps", "ProblemDataModule"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'wsl.data' has no attribute {name!r}")
