"""Learned optimization: optimizers that are encoders of gradients, and how they are trained.

Everything works on *lanes*: many trainings of one architecture, stacked along the first dimension of every
tensor and advanced in one vectorised step.
"""

from wsl.learnopt._lanes import Advanced, Lanes, Stepped, advance, bounded, restart, start, step_lanes
from wsl.learnopt._types import State, Tensors
from wsl.learnopt.estimators import (
    PES,
    Estimator,
    EstimatorState,
    FullBackprop,
    FullES,
    LaneGroup,
    Objective,
    TruncatedBackprop,
    TruncatedES,
)
from wsl.learnopt.evaluation import Trainings, evaluate
from wsl.learnopt.optimizers import (
    SGD,
    Adam,
    AdamW,
    Optimizer,
    PerLane,
    Schedule,
    constant,
    cosine,
    linear,
)
from wsl.learnopt.tasks import CnnImages, MlpImages, ModuleTask, Quadratics, Task, TaskFamily
from wsl.learnopt.truncation import Constant, LogUniform, Truncation

__all__ = [
    "PES",
    "SGD",
    "Adam",
    "AdamW",
    "Advanced",
    "CnnImages",
    "Constant",
    "Estimator",
    "EstimatorState",
    "FullBackprop",
    "FullES",
    "LaneGroup",
    "Lanes",
    "LogUniform",
    "MlpImages",
    "ModuleTask",
    "Objective",
    "Optimizer",
    "PerLane",
    "Quadratics",
    "Schedule",
    "State",
    "Stepped",
    "Task",
    "TaskFamily",
    "Tensors",
    "Trainings",
    "TruncatedBackprop",
    "TruncatedES",
    "Truncation",
    "advance",
    "bounded",
    "constant",
    "cosine",
    "evaluate",
    "linear",
    "restart",
    "start",
    "step_lanes",
]
