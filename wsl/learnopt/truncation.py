"""How long lanes train on one problem before they begin another: horizons, and staggered first ones."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from wsl.learnopt._random import key_of, uniforms

_HORIZON = -1  # what keys of horizons say that they are for; problems count theirs from 0


class Truncation(ABC):
    """Inner steps of each problem, a function of its seed alone."""

    @abstractmethod
    def horizons(self, seeds: Tensor) -> Tensor:
        """Inner steps ``(L,)`` int64, at least 1, of the problems that ``seeds (L,)`` pick."""

    def staggered(self, seeds: Tensor) -> Tensor:
        """The same for the first problems of ``L`` lanes: shares ``1/L, 2/L, ..., 1`` of their horizons.

        Lanes that begin together would be at the same inner step for ever after, and a meta-step would see
        only the beginnings of trainings, the next one only what follows.
        """
        shares = torch.arange(1, len(seeds) + 1, device=seeds.device, dtype=torch.float64) / len(seeds)
        return (self.horizons(seeds) * shares).ceil().to(torch.int64)


@dataclass(frozen=True)
class Constant(Truncation):
    """Every problem takes the same number of steps.

    Raises:
        ValueError: fewer than one.
    """

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"Constant: steps is {self.steps}; expected at least 1.")

    def horizons(self, seeds: Tensor) -> Tensor:
        return torch.full_like(seeds, self.steps)


@dataclass(frozen=True)
class LogUniform(Truncation):
    """Horizons whose logarithm is uniform from ``low`` to ``high``, both included.

    Raises:
        ValueError: ``low`` is below 1 or above ``high``.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise ValueError(
                f"LogUniform: low is {self.low} and high is {self.high}; expected 1 <= low <= high."
            )

    def horizons(self, seeds: Tensor) -> Tensor:
        low, high = math.log(self.low), math.log(self.high + 1)
        places = uniforms(key_of(seeds, _HORIZON), (), torch.float64)
        return (low + (high - low) * places).exp().floor().to(torch.int64).clamp(self.low, self.high)
