"""Comparisons of learned optimizers with tuned ones: tasks, rivals, trainings, tables. Knows no Lightning."""

from wsl.bench.learnopt._bench import Request, bench_optimizers
from wsl.bench.learnopt._plan import Settings, Trial
from wsl.bench.learnopt._problems import Problem, read_problems
from wsl.bench.learnopt._rivals import TUNED, LearnedRival, Rival, Scheduled, TunedRival
from wsl.bench.learnopt._training import Measured, measure

__all__ = [
    "TUNED",
    "LearnedRival",
    "Measured",
    "Problem",
    "Request",
    "Rival",
    "Scheduled",
    "Settings",
    "Trial",
    "TunedRival",
    "bench_optimizers",
    "measure",
    "read_problems",
]
