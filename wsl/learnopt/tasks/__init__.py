"""Tasks: what learned optimizers are trained and measured on."""

from wsl.learnopt.tasks._family import TaskFamily
from wsl.learnopt.tasks._images import CnnImages, MlpImages
from wsl.learnopt.tasks._module_task import ModuleTask
from wsl.learnopt.tasks._quadratics import Quadratics
from wsl.learnopt.tasks._task import Task

__all__ = ["CnnImages", "MlpImages", "ModuleTask", "Quadratics", "Task", "TaskFamily"]
