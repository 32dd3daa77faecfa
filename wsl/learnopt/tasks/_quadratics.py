"""Quadratic functions, whose best point is known."""

import math

import torch
from torch import Tensor, nn

from wsl.learnopt._random import key_of, normals, uniforms
from wsl.learnopt._types import Tensors
from wsl.learnopt.tasks._task import Task

_INIT, _OPTIMUM, _CURVATURE, _MIRROR, _NOISE = range(5)

Quadratic = tuple[Tensor, ...]


class Quadratics(Task):
    """``1/2 (w - w*)' H (w - w*)`` of the weight ``w`` of a linear map to one value, without bias.

    ``H`` has eigenvalues that are log-uniform between ``1 / condition`` and 1, and is dense. ``w*`` and the
    initial ``w`` are standard normal. The best loss is 0.

    Args:
        size: numbers in ``w``.
        condition: the largest that ``H`` can have, at least 1.
        noise: standard deviation of each entry of normal noise that each step adds to the gradient; to the
            loss it adds the product of noise and ``w - w*``, of mean 0. None in the split ``test``.
    """

    def __init__(self, size: int = 10, condition: float = 100.0, noise: float = 0.0) -> None:
        super().__init__(nn.Linear(size, 1, bias=False), (torch.zeros(2, size),))
        self.size, self.condition, self.noise = size, condition, noise

    def init(self, seeds: Tensor) -> Tensors:
        return {"weight": normals(key_of(seeds, _INIT), (1, self.size), self.dtype)}

    def optimum(self, seeds: Tensor) -> Tensors:
        """The best parameters ``(L, 1, size)``."""
        return {"weight": normals(key_of(seeds, _OPTIMUM), (1, self.size), self.dtype)}

    def batch(self, seeds: Tensor, step: Tensor, split: str = "train") -> Quadratic:
        """Optimum, eigenvalues, normal of the mirror that turns the axes, and noise: ``(L, size)`` each."""
        shape = (self.size,)
        spread = uniforms(key_of(seeds, _CURVATURE), shape, self.dtype) - 1
        noise = torch.zeros(len(seeds), self.size, dtype=self.dtype, device=seeds.device)
        if self.noise and split == "train":
            noise = self.noise * normals(key_of(seeds, _NOISE, step), shape, self.dtype)
        mirror = normals(key_of(seeds, _MIRROR), shape, self.dtype)
        optimum = self.optimum(seeds)["weight"][:, 0]
        return optimum, (spread * math.log(self.condition)).exp(), mirror, noise

    def loss(self, params: Tensors, batch: Quadratic) -> Tensor:
        return self.values({"weight": params["weight"][None]}, tuple(part[None] for part in batch))[0]

    def values(self, params: Tensors, batch: Quadratic) -> Tensor:
        optimum, eigenvalues, mirror, noise = batch
        apart = params["weight"][:, 0] - optimum
        share = 2 * (apart * mirror).sum(1, keepdim=True) / mirror.square().sum(1, keepdim=True)
        turned = apart - share * mirror
        return (eigenvalues * turned.square() / 2 + noise * apart).sum(1)
