"""Zoos of small classifiers: many networks train at once, each with hyperparameters of its own."""

from wsl.zoo.classifiers._architecture import ClassifierArchitecture, SmallCnns
from wsl.zoo.classifiers._build import build_classifier_zoo
from wsl.zoo.classifiers._recipe import Hyperparameters, TrainingRecipe
from wsl.zoo.training import Range

__all__ = [
    "ClassifierArchitecture",
    "Hyperparameters",
    "Range",
    "SmallCnns",
    "TrainingRecipe",
    "build_classifier_zoo",
]
