"""Data modules: batches of raw weights from a zoo, with the statistics of its train split.

The data modules load on first use: reading workers need no Lightning, which takes seconds to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wsl.data.batch import WeightBatch
from wsl.data.loading import BatchRequest, BatchSampler, WeightLoader, ZooRows
from wsl.data.statistics import WeightStatistics, weight_statistics, zoo_statistics

if TYPE_CHECKING:
    from wsl.data.module import BaseDataModule, DataError, ZooDataModule

__all__ = [
    "BaseDataModule",
    "BatchRequest",
    "BatchSampler",
    "DataError",
    "WeightBatch",
    "WeightLoader",
    "WeightStatistics",
    "ZooDataModule",
    "ZooRows",
    "weight_statistics",
    "zoo_statistics",
]


def __getattr__(name: str) -> Any:
    if name in ("BaseDataModule", "DataError", "ZooDataModule"):
        return getattr(import_module("wsl.data.module"), name)
    raise AttributeError(f"module 'wsl.data' has no attribute {name!r}")
