"""Lightning modules: one task on weights a file."""

from wsl.tasks.autoencoding import WeightAutoencoder
from wsl.tasks.base import BaseTask
from wsl.tasks.configured import ConfiguredTask
from wsl.tasks.contrastive import ContrastiveEmbedding
from wsl.tasks.edits import Dilate, Edit, Erode, Rotate, Sharpen, StretchContrast
from wsl.tasks.factories import Recipe, TaskError, describe
from wsl.tasks.generalization_prediction import GeneralizationPrediction
from wsl.tasks.inr_classification import INRClassification
from wsl.tasks.inr_editing import INREditing
from wsl.tasks.invariant import InvariantTask
from wsl.tasks.learned_optimization import LearnedOptimization
from wsl.tasks.own_network import load_task, predict_network
from wsl.tasks.schedule import WarmupCosine

__all__ = [
    "BaseTask",
    "ConfiguredTask",
    "ContrastiveEmbedding",
    "Dilate",
    "Edit",
    "Erode",
    "GeneralizationPrediction",
    "INRClassification",
    "INREditing",
    "InvariantTask",
    "LearnedOptimization",
    "Recipe",
    "Rotate",
    "Sharpen",
    "StretchContrast",
    "TaskError",
    "WarmupCosine",
    "WeightAutoencoder",
    "describe",
    "load_task",
    "predict_network",
]
