"""What builders of trained populations share: drawn hyperparameters, and parts of stacked training."""

from wsl.zoo.training._dropout import DROPOUT_LEVELS, StackedDropout
from wsl.zoo.training._loop import train_rows
from wsl.zoo.training._optimizers import OPTIMIZERS, StackedOptimizer
from wsl.zoo.training._population import Population, TrainedStack, build_population, finite_rows
from wsl.zoo.training._sampling import (
    Number,
    Range,
    as_list,
    check_choice,
    check_number,
    draw_choice,
    draw_number,
)

__all__ = [
    "DROPOUT_LEVELS",
    "OPTIMIZERS",
    "Number",
    "Population",
    "Range",
    "StackedDropout",
    "StackedOptimizer",
    "TrainedStack",
    "as_list",
    "build_population",
    "check_choice",
    "check_number",
    "draw_choice",
    "draw_number",
    "finite_rows",
    "train_rows",
]
