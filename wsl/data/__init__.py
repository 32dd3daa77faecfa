"""Data modules: batches of raw weights from a zoo, with the statistics of its train split."""

from wsl.data.batch import WeightBatch
from wsl.data.loading import BatchRequest, BatchSampler, WeightLoader, ZooRows
from wsl.data.module import BaseDataModule, DataError, ZooDataModule
from wsl.data.statistics import WeightStatistics, weight_statistics, zoo_statistics

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
