"""What builders of trained populations share: plans, recipes, stacked training, and the build itself."""

from wsl.zoo.training._dropout import StackedDropout
from wsl.zoo.training._loop import dropout_of, optimizer_of, train_rows
from wsl.zoo.training._metrics import Metrics, mean_metrics
from wsl.zoo.training._optimizers import OPTIMIZERS, StackedOptimizer
from wsl.zoo.training._plan import DRAWN, EXAMPLES, NetworkPlan, draw_plans, stacks_of
from wsl.zoo.training._population import Population, build_population
from wsl.zoo.training._recipe import PopulationHyperparameters, PopulationRecipe
from wsl.zoo.training._sampling import (
    Number,
    Range,
    all_whole,
    as_list,
    check_choice,
    check_number,
    check_whole,
    draw_choice,
    draw_number,
)
from wsl.zoo.training._settings import build_provenance, build_settings, check_positive
from wsl.zoo.training._stacks import Description, StackTraining, TrainedStack, finite_rows

__all__ = [
    "DRAWN",
    "EXAMPLES",
    "OPTIMIZERS",
    "Description",
    "Metrics",
    "NetworkPlan",
    "Number",
    "Population",
    "PopulationHyperparameters",
    "PopulationRecipe",
    "Range",
    "StackTraining",
    "StackedDropout",
    "StackedOptimizer",
    "TrainedStack",
    "all_whole",
    "as_list",
    "build_population",
    "build_provenance",
    "build_settings",
    "check_choice",
    "check_number",
    "check_positive",
    "check_whole",
    "draw_choice",
    "draw_number",
    "draw_plans",
    "dropout_of",
    "finite_rows",
    "mean_metrics",
    "optimizer_of",
    "stacks_of",
    "train_rows",
]
