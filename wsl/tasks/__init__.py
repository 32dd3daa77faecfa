"""Lightning modules: one task on weights a file."""

from wsl.tasks.base import BaseTask
from wsl.tasks.factories import Recipe, TaskError, describe
from wsl.tasks.generalization_prediction import GeneralizationPrediction
from wsl.tasks.inr_classification import INRClassification
from wsl.tasks.invariant import InvariantTask
from wsl.tasks.schedule import WarmupCosine

__all__ = [
    "BaseTask",
    "GeneralizationPrediction",
    "INRClassification",
    "InvariantTask",
    "Recipe",
    "TaskError",
    "WarmupCosine",
    "describe",
]
