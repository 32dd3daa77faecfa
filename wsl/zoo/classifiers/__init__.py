"""Zoos of small classifiers: many networks train at once, each with hyperparameters of its own."""

from wsl.zoo.classifiers._architecture import ClassifierArchitecture, SmallCnns
from wsl.zoo.classifiers._build import build_classifier_zoo
from wsl.zoo.classifiers._mlps import Mlps
from wsl.zoo.classifiers._park_cnns import ParkCnns
from wsl.zoo.classifiers._recipe import Hyperparameters, TrainingRecipe
from wsl.zoo.classifiers._resnets import ResNets
from wsl.zoo.classifiers._vits import Vits
from wsl.zoo.training import Range

__all__ = [
    "ClassifierArchitecture",
    "Hyperparameters",
    "Mlps",
    "ParkCnns",
    "Range",
    "ResNets",
    "SmallCnns",
    "TrainingRecipe",
    "Vits",
    "build_classifier_zoo",
]
