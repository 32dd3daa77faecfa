"""What builders that train populations share: drawn hyperparameters, and optimizers of stacked networks."""

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
    "OPTIMIZERS",
    "Number",
    "Range",
    "StackedOptimizer",
    "as_list",
    "check_choice",
    "check_number",
    "draw_choice",
    "draw_number",
]
