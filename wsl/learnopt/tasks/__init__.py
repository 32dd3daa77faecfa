"""Tasks: what learned optimizers are trained and measured on."""

from wsl.learnopt.tasks._family import TaskFamily
from wsl.learnopt.tasks._quadratics import Quadratics
from wsl.learnopt.tasks._task import Task

__all__ = ["Quadratics", "Task", "TaskFamily"]
