"""Gradient descent, with momentum."""

import torch
from torch import Tensor

from wsl.learnopt._types import State, Tensors, flatten_lanes, split_lanes
from wsl.learnopt.optimizers._base import BroadcastOptimizer, Schedule, lane_column, scheduled
from wsl.learnopt.optimizers._hyperparameters import log_parameter, logit_parameter


class SGD(BroadcastOptimizer):
    """Stochastic gradient descent, equal to :class:`torch.optim.SGD` step by step.

    Args:
        learning_rate: positive; stored as its logarithm ``log_rate``.
        momentum: decay of the sum of gradients; stored as ``logit_momentum``. At 0 there is neither this
            parameter nor a state.
        nesterov: whether to step as if the next gradient were this one.
        weight_decay: multiple of the parameters that is added to the gradients; stored as
            ``log_weight_decay``, at 0 not at all.
        schedule: factors of the learning rate, such as ``cosine(1000)``.

    Source: for Nesterov's momentum in this form Sutskever et al. 2013, as torch has it.
    """

    def __init__(
        self,
        learning_rate: float = 0.1,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__()
        if nesterov and not momentum:
            raise ValueError("Nesterov's form is one of momentum, which is 0 here; give one, such as 0.9.")
        self.log_rate = log_parameter("learning_rate", learning_rate)
        self.logit_momentum = logit_parameter("momentum", momentum) if momentum else None
        self.log_weight_decay = log_parameter("weight_decay", weight_decay) if weight_decay else None
        self.nesterov, self.schedule = nesterov, schedule

    def init(self, params: Tensors) -> State:
        return {} if self.logit_momentum is None else {"momentum": torch.zeros_like(flatten_lanes(params))}

    def update(
        self, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        old, move = flatten_lanes(params), flatten_lanes(grads)
        if self.log_weight_decay is not None:
            move = move + lane_column(self.log_weight_decay.exp(), old) * old
        new_state: State = {}
        if self.logit_momentum is not None:
            decay, before = lane_column(self.logit_momentum.sigmoid(), old), state["momentum"]
            assert isinstance(before, Tensor)
            total = decay * before + move
            move = move + decay * total if self.nesterov else total
            new_state = {"momentum": total}
        rate = scheduled(self.log_rate.exp(), self.schedule, step)
        return split_lanes(torch.addcmul(old, move, lane_column(rate, old), value=-1), params), new_state
