"""Muon: orthogonalised momenta of matrices."""

import math

import torch
from torch import Tensor

from wsl.learnopt._types import State, Tensors
from wsl.learnopt.optimizers._adam import AdamW
from wsl.learnopt.optimizers._base import BroadcastOptimizer, Schedule, lane_column, scheduled
from wsl.learnopt.optimizers._hyperparameters import log_parameter, logit_parameter

_COEFFICIENTS, _ITERATIONS, _SMALLEST = (3.4445, -4.7750, 2.0315), 5, 1e-7


class Muon(BroadcastOptimizer):
    """Tensors of two and more dimensions, taken as matrices ``(out, rest)``, move by the nearest
    semi-orthogonal matrix to their momentum; all others by :class:`AdamW`.

    Equal to :class:`torch.optim.Muon` but for the type of the iteration, which torch rounds to bfloat16.

    Args:
        learning_rate: positive; stored as its logarithm ``log_rate``. A matrix takes it times
            ``sqrt(max(1, out / rest))``.
        momentum: decay of the mean of gradients; stored as ``logit_momentum``.
        nesterov: whether to step as if the next gradient were this one.
        weight_decay: times the learning rate, shrinks the matrices; stored as ``log_weight_decay``, at 0 not
            at all.
        others: moves the other tensors; its parameters are ``others.*``. By default ``AdamW(3e-4)`` with the
            same schedule.
        schedule: factors of the learning rate, such as ``cosine(1000)``.

    Source: Jordan et al. 2024 (https://kellerjordan.github.io/posts/muon), whose five iterations of a quintic
    polynomial are taken over; weight decay as of Liu et al. 2025 (arXiv:2502.16982), eq. 3. Deviates: all
    matrices, the first and the last too.
    """

    def __init__(
        self,
        learning_rate: float = 0.02,
        momentum: float = 0.95,
        nesterov: bool = True,
        weight_decay: float = 0.0,
        others: AdamW | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__()
        self.log_rate = log_parameter("learning_rate", learning_rate)
        self.logit_momentum = logit_parameter("momentum", momentum)
        self.log_weight_decay = log_parameter("weight_decay", weight_decay) if weight_decay else None
        self.others = AdamW(3e-4, schedule=schedule) if others is None else others
        self.nesterov, self.schedule = nesterov, schedule

    def init(self, params: Tensors) -> State:
        matrices, others = _parts(params)
        momenta: State = {name: torch.zeros_like(value) for name, value in matrices.items()}
        return {"momentum": momenta, "others": self.others.init(others)} if others else {"momentum": momenta}

    def update(
        self, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        matrices, others = _parts(params)
        decay = self.logit_momentum.sigmoid()
        rate = scheduled(self.log_rate.exp(), self.schedule, step)
        before, new = state["momentum"], dict[str, Tensor]()
        momenta: State = {}
        assert isinstance(before, dict)
        for name, value in matrices.items():
            mean = before[name]
            assert isinstance(mean, Tensor)
            old, grad, mean = value.flatten(2), grads[name].flatten(2), mean.flatten(2)
            mean = torch.lerp(mean, grad, _lane_matrix(1 - decay, old))
            ahead = torch.lerp(grad, mean, _lane_matrix(decay, old)) if self.nesterov else mean
            if self.log_weight_decay is not None:
                old = old * _lane_matrix(1 - rate * self.log_weight_decay.exp(), old)
            scale = math.sqrt(max(1, old.shape[1] / old.shape[2]))
            moved = old - _lane_matrix(rate * scale, old) * orthogonalised(ahead)
            new[name], momenta[name] = moved.view(value.shape), mean.view(value.shape)
        after: State = {"momentum": momenta}
        if others:
            own, kept = {name: grads[name] for name in others}, state["others"]
            assert isinstance(kept, dict)
            moved_others, after["others"] = self.others.update(own, kept, others, step, loss)
            new |= moved_others
        return {name: new[name] for name in params}, after


def orthogonalised(matrices: Tensor) -> Tensor:
    """Singular values ``(L, n, m)`` to values between about 0.7 and 1.2; those far below the largest lag.

    The first step divides by the norm, which is at least the largest singular value.
    """
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    squares = x.square().sum((1, 2), keepdim=True)
    x = x * squares.clamp(min=_SMALLEST**2).rsqrt()
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def _parts(params: Tensors) -> tuple[Tensors, Tensors]:
    """Tensors of two and more dimensions, and the others."""
    matrices = {name: value for name, value in params.items() if value.ndim > 2}
    return matrices, {name: value for name, value in params.items() if value.ndim <= 2}


def _lane_matrix(value: Tensor, like: Tensor) -> Tensor:
    return lane_column(value, like)[..., None]
