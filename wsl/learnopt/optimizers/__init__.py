"""Functional optimizers of many lanes, with hyperparameters that can be learned."""

from wsl.learnopt.optimizers._adam import Adam, AdamW
from wsl.learnopt.optimizers._base import Optimizer, Schedule
from wsl.learnopt.optimizers._per_lane import PerLane
from wsl.learnopt.optimizers._schedules import constant, cosine, linear
from wsl.learnopt.optimizers._sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "PerLane", "Schedule", "constant", "cosine", "linear"]
