"""Hyperparameters as parameters without limits."""

import math

import torch
from torch import nn


def log_parameter(name: str, value: float) -> nn.Parameter:
    """The logarithm of a positive value, a scalar of float64; ``exp`` gives it back."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name} is {value}, expected a positive number.")
    return nn.Parameter(torch.tensor(math.log(value), dtype=torch.float64))


def logit_parameter(name: str, value: float) -> nn.Parameter:
    """The logit of a value between 0 and 1, a scalar of float64; ``sigmoid`` gives it back."""
    if not 0 < value < 1:
        raise ValueError(f"{name} is {value}, expected a number between 0 and 1, both excluded.")
    return nn.Parameter(torch.tensor(math.log(value) - math.log1p(-value), dtype=torch.float64))
