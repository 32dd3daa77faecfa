"""Functional optimizers of many lanes, with hyperparameters that can be learned."""

from wsl.learnopt.optimizers._adam import Adam, AdamW
from wsl.learnopt.optimizers._base import BroadcastOptimizer, Optimizer, Schedule
from wsl.learnopt.optimizers._lion import Lion
from wsl.learnopt.optimizers._muon import Muon
from wsl.learnopt.optimizers._per_lane import PerLane
from wsl.learnopt.optimizers._schedules import constant, cosine, linear
from wsl.learnopt.optimizers._sgd import SGD

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "BroadcastOptimizer",
    "Lion",
    "Muon",
    "Optimizer",
    "PerLane",
    "Schedule",
    "constant",
    "cosine",
    "linear",
]
