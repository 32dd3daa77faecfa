"""Rosenbrock's function, a curved valley."""

import torch
from torch import Tensor, nn

from wsl.learnopt._random import key_of, uniforms
from wsl.learnopt._types import Tensors
from wsl.learnopt.tasks._task import Task

_INIT = 0x726F73656E


class Rosenbrock(Task):
    """``sum of 100 (w[i + 1] - w[i]^2)^2 + (1 - w[i])^2`` of the weight ``w`` of a linear map to one value.

    Problems differ in the initial point, uniform in [-2, 2]. The best loss is 0, at ones.

    Args:
        size: numbers in ``w``, at least 2.
    """

    def __init__(self, size: int = 2) -> None:
        if size < 2:
            raise ValueError(f"the size is {size}; Rosenbrock's function has at least 2 variables.")
        super().__init__(nn.Linear(size, 1, bias=False), (torch.zeros(2, size),))
        self.size = size

    def init(self, seeds: Tensor) -> Tensors:
        return {"weight": 4 * uniforms(key_of(seeds, _INIT), (1, self.size), self.dtype) - 2}

    def batch(self, seeds: Tensor, step: Tensor, split: str = "train") -> Tensor:
        """The seeds: the function is always the same."""
        return seeds

    def loss(self, params: Tensors, batch: Tensor) -> Tensor:
        return self.values({"weight": params["weight"][None]}, batch)[0]

    def values(self, params: Tensors, batch: Tensor) -> Tensor:
        w = params["weight"][:, 0]
        return (100 * (w[:, 1:] - w[:, :-1].square()).square() + (1 - w[:, :-1]).square()).sum(1)
