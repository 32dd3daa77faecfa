"""Learned optimization: optimizers that are encoders of gradients, and how they are trained.

Everything works on *lanes*: many trainings of one architecture, stacked along the first dimension of every
tensor and advanced in one vectorised step.
"""

from wsl.learnopt._lanes import Advanced, Lanes, Stepped, advance, bounded, restart, start, step_lanes
from wsl.learnopt._types import State, Tensors
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
from wsl.learnopt.tasks import Quadratics, Task, TaskFamily

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Advanced",
    "Lanes",
    "Optimizer",
    "PerLane",
    "Quadratics",
    "Schedule",
    "State",
    "Stepped",
    "Task",
    "TaskFamily",
    "Tensors",
    "advance",
    "bounded",
    "constant",
    "cosine",
    "linear",
    "restart",
    "start",
    "step_lanes",
]
