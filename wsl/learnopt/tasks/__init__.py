"""Tasks: what learned optimizers are trained and measured on."""

from wsl.learnopt.tasks._family import TaskFamily
from wsl.learnopt.tasks._images import CnnImages, MlpImages
from wsl.learnopt.tasks._inr import InrFitting
from wsl.learnopt.tasks._module_task import ModuleTask
from wsl.learnopt.tasks._quadratics import Quadratics
from wsl.learnopt.tasks._rescaled import Rescaled
from wsl.learnopt.tasks._rosenbrock import Rosenbrock
from wsl.learnopt.tasks._task import Task
from wsl.learnopt.tasks._text import CharacterRnn, CharacterTransformer

__all__ = [
    "CharacterRnn",
    "CharacterTransformer",
    "CnnImages",
    "InrFitting",
    "MlpImages",
    "ModuleTask",
    "Quadratics",
    "Rescaled",
    "Rosenbrock",
    "Task",
    "TaskFamily",
]
