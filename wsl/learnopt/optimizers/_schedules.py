"""Schedules of learning rates: factors from 0 to 1 by the number of updates done so far.

All begin with ``warmup`` updates whose factor rises linearly, ``1 / warmup, 2 / warmup, ..., 1``, and fall
(or stay) from there to ``horizon``; after it they keep their last value. ``horizon`` may be ``(L,)``.
"""

import math
from functools import partial

import torch
from torch import Tensor

from wsl.learnopt.optimizers._base import Schedule


def constant(warmup: int = 0) -> Schedule:
    """1 after the warm-up."""
    return partial(_constant, warmup=warmup)


def linear(horizon: int | Tensor, warmup: int = 0) -> Schedule:
    """From 1 at the end of the warm-up to 0 at ``horizon``."""
    return partial(_linear, horizon=_checked(horizon, warmup), warmup=warmup)


def cosine(horizon: int | Tensor, warmup: int = 0) -> Schedule:
    """Half a period of a cosine, from 1 at the end of the warm-up to 0 at ``horizon``.

    Source: Loshchilov and Hutter 2017 (arXiv:1608.03983), eq. 5, without restarts.
    """
    return partial(_cosine, horizon=_checked(horizon, warmup), warmup=warmup)


def _constant(step: Tensor, warmup: int) -> Tensor:
    return ((step.double() + 1) / max(warmup, 1)).clamp(max=1)


def _linear(step: Tensor, horizon: int | Tensor, warmup: int) -> Tensor:
    return _constant(step, warmup) * (1 - _progress(step, horizon, warmup))


def _cosine(step: Tensor, horizon: int | Tensor, warmup: int) -> Tensor:
    return _constant(step, warmup) * (1 + torch.cos(math.pi * _progress(step, horizon, warmup))) / 2


def _progress(step: Tensor, horizon: int | Tensor, warmup: int) -> Tensor:
    return ((step.double() - warmup) / (horizon - warmup)).clamp(0, 1)


def _checked(horizon: int | Tensor, warmup: int) -> int | Tensor:
    shortest = int(horizon.min()) if isinstance(horizon, Tensor) else horizon
    if not 0 <= warmup < shortest:
        raise ValueError(f"the warm-up of {warmup} updates has to end before the horizon, {shortest}.")
    return horizon
