"""A task in other units of its parameters."""

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from wsl.learnopt._random import key_of, normals
from wsl.learnopt._types import Tensors
from wsl.learnopt.tasks._task import Task
from wsl.spec import WeightSpec

_FACTORS = 0x66616374

Scaled = tuple[dict[str, Tensor], Any]


class Rescaled(Task):
    """A task whose parameters are stored multiplied by random factors, one of each problem and tensor.

    The network computes with the parameters divided by them, so that it begins as the same function and
    gradients have the inverse scale: an optimizer meta-trained on it cannot rely on the scale of either.

    Args:
        task: what is rescaled; shares its data and its network.
        deviation: standard deviation of the factors' natural logarithms, which are normal.

    Source: task augmentation as of Moudgil et al. 2025, Celo (arXiv:2501.12670), after Metz et al. 2022, VeLO
    (arXiv:2211.09760).
    """

    def __init__(self, task: Task, deviation: float = 1.0) -> None:
        super().__init__(task.module, task.example_inputs, None, task.ceiling)
        self.task, self.deviation = task, deviation

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Rescaled":
        self.task.to(device, dtype)
        return self

    @cached_property
    def spec(self) -> WeightSpec:
        return self.task.spec

    def factors(self, seeds: Tensor) -> Tensors:
        """``(L,)`` for each tensor by name, positive."""
        names = [name for name, _ in self.module.named_parameters()]
        drawn = normals(key_of(seeds, _FACTORS), (len(names),), self.dtype)
        return dict(zip(names, (self.deviation * drawn).exp().unbind(1), strict=True))

    def init(self, seeds: Tensor) -> Tensors:
        factors = self.factors(seeds)
        return {name: value * _wide(factors[name], value) for name, value in self.task.init(seeds).items()}

    def batch(self, seeds: Tensor, step: Tensor, split: str = "train") -> Scaled:
        """The factors ``(L,)`` by name, and a batch of the task."""
        return self.factors(seeds), self.task.batch(seeds, step, split)

    def loss(self, params: Tensors, batch: Scaled) -> Tensor:
        factors, inner = batch
        return self.task.loss({name: value / factors[name] for name, value in params.items()}, inner)

    def values(self, params: Tensors, batch: Scaled) -> Tensor:
        factors, inner = batch
        return self.task.values({n: value / _wide(factors[n], value) for n, value in params.items()}, inner)


def _wide(factor: Tensor, like: Tensor) -> Tensor:
    return factor.view(-1, *(1 for _ in like.shape[1:]))
