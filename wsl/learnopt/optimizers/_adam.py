"""Adam, with weight decay in its gradients or apart from them."""

import torch
from torch import Tensor

from wsl.learnopt._types import State, Tensors, flatten_lanes, split_lanes
from wsl.learnopt.optimizers._base import BroadcastOptimizer, Schedule, lane_column, scheduled
from wsl.learnopt.optimizers._hyperparameters import log_parameter, logit_parameter


class Adam(BroadcastOptimizer):
    """Adam, equal to :class:`torch.optim.Adam` step by step.

    Args:
        learning_rate: positive; stored as its logarithm ``log_rate``.
        betas: decays of the means of gradients and of their squares; stored as ``logit_decay`` and
            ``logit_square_decay``.
        epsilon: what the root of the mean square is increased by; stored as ``log_epsilon``.
        weight_decay: multiple of the parameters that is added to the gradients; stored as
            ``log_weight_decay``, at 0 not at all.
        schedule: factors of the learning rate, such as ``cosine(1000)``.

    Source: Kingma and Ba 2015 (arXiv:1412.6980), Alg. 1. Deviates: the smallest positive number is added to
    mean squares, whose root would have no finite derivative at 0.
    """

    decoupled = False
    """Whether weight decay shrinks the parameters themselves."""

    def __init__(
        self,
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__()
        self.log_rate = log_parameter("learning_rate", learning_rate)
        self.logit_decay = logit_parameter("the first of betas", betas[0])
        self.logit_square_decay = logit_parameter("the second of betas", betas[1])
        self.log_epsilon = log_parameter("epsilon", epsilon)
        self.log_weight_decay = log_parameter("weight_decay", weight_decay) if weight_decay else None
        self.schedule = schedule

    def init(self, params: Tensors) -> State:
        flat = flatten_lanes(params)
        return {"mean": torch.zeros_like(flat), "square": torch.zeros_like(flat)}

    def update(
        self, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        old, grad = flatten_lanes(params), flatten_lanes(grads)
        mean, square = state["mean"], state["square"]
        assert isinstance(mean, Tensor)
        assert isinstance(square, Tensor)
        rate = scheduled(self.log_rate.exp(), self.schedule, step)
        if self.log_weight_decay is not None:
            shrink = self.log_weight_decay.exp()
            if self.decoupled:
                old = old * lane_column(1 - rate * shrink, old)
            else:
                grad = grad + old * lane_column(shrink, old)
        mean = torch.lerp(mean, grad, lane_column((-self.logit_decay).sigmoid(), old))
        square = torch.lerp(square, grad * grad, lane_column((-self.logit_square_decay).sigmoid(), old))
        # Both means begin at 0, which is corrected for: the mean's in the rate, the square's under its root.
        scale = lane_column(_weight_of_all(self.logit_square_decay, step).rsqrt(), old)
        tiny = torch.finfo(old.dtype).tiny
        divisor = torch.addcmul(lane_column(self.log_epsilon.exp(), old), (square + tiny).sqrt_(), scale)
        rate = lane_column(rate / _weight_of_all(self.logit_decay, step), old)
        new = torch.addcdiv(old, mean * rate, divisor, value=-1)
        return split_lanes(new, params), {"mean": mean, "square": square}


class AdamW(Adam):
    """:class:`Adam` whose weight decay, times the learning rate, shrinks the parameters themselves.

    Equal to :class:`torch.optim.AdamW` step by step; arguments as of :class:`Adam`.

    Source: Loshchilov and Hutter 2019 (arXiv:1711.05101), Alg. 2, without its scheduling of the decay alone.
    """

    decoupled = True

    def __init__(
        self,
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(learning_rate, betas, epsilon, weight_decay, schedule)


def _weight_of_all(logit_decay: Tensor, step: Tensor) -> Tensor:
    """``1 - decay^(step + 1)`` ``(L,)``: the sum of the weights of gradients in a mean that began at 0."""
    return -torch.expm1((step + 1) * torch.nn.functional.logsigmoid(logit_decay))
