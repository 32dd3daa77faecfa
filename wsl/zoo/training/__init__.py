"""What builders that train populations share: drawn hyperparameters, stacked optimizers and dropout."""

from wsl.zoo.training._dropout import DROPOUT_LEVELS, StackedDropout
from wsl.zoo.training._optimizers import OPTIMIZERS, StackedOptimizer
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
    "Range",
    "StackedDropout",
    "StackedOptimizer",
    "as_list",
    "check_choice",
    "check_number",
    "draw_choice",
    "draw_number",
]
