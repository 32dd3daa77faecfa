"""Lion: the sign of a momentum."""

import torch
from torch import Tensor

from wsl.learnopt._types import State, Tensors, flatten_lanes, split_lanes
from wsl.learnopt.optimizers._base import BroadcastOptimizer, Schedule, lane_column, scheduled
from wsl.learnopt.optimizers._hyperparameters import log_parameter, logit_parameter


class Lion(BroadcastOptimizer):
    """Steps of one size in every parameter: by the sign of a mean of momentum and gradient.

    Args:
        learning_rate: positive; stored as its logarithm ``log_rate``.
        betas: weight of the momentum in the step, and decay of the momentum; stored as ``logit_mix`` and
            ``logit_decay``. No derivative passes the sign, so that of a loss with respect to both is 0.
        weight_decay: times the learning rate, shrinks the parameters; stored as ``log_weight_decay``, at 0
            not at all.
        schedule: factors of the learning rate, such as ``cosine(1000)``.

    Source: Chen et al. 2023 (arXiv:2302.06675), Program 1 and Alg. 2.
    """

    def __init__(
        self,
        learning_rate: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__()
        self.log_rate = log_parameter("learning_rate", learning_rate)
        self.logit_mix = logit_parameter("the first of betas", betas[0])
        self.logit_decay = logit_parameter("the second of betas", betas[1])
        self.log_weight_decay = log_parameter("weight_decay", weight_decay) if weight_decay else None
        self.schedule = schedule

    def init(self, params: Tensors) -> State:
        return {"momentum": torch.zeros_like(flatten_lanes(params))}

    def update(
        self, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        old, grad, momentum = flatten_lanes(params), flatten_lanes(grads), state["momentum"]
        assert isinstance(momentum, Tensor)
        rate = scheduled(self.log_rate.exp(), self.schedule, step)
        move = torch.lerp(momentum, grad, lane_column((-self.logit_mix).sigmoid(), old)).sign()
        if self.log_weight_decay is not None:
            old = old * lane_column(1 - rate * self.log_weight_decay.exp(), old)
        momentum = torch.lerp(momentum, grad, lane_column((-self.logit_decay).sigmoid(), old))
        new = torch.addcmul(old, move, lane_column(rate, old), value=-1)
        return split_lanes(new, params), {"momentum": momentum}
