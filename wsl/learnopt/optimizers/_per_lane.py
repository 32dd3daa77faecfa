"""Hyperparameters of each lane's own."""

from torch import Tensor

from wsl.learnopt._types import State, Tensors
from wsl.learnopt.optimizers._base import Optimizer


class PerLane(Optimizer):
    """An optimizer with hyperparameters of each lane's own: a grid of rates, perturbations of an estimator.

    Args:
        optimizer: gives the rule, and the hyperparameters that ``thetas`` does not name.
        thetas: by names of its parameters ``(L, *shape)``, in their stored form; gradients reach them.

    Raises:
        ValueError: a name that the optimizer does not have, or other shapes.
    """

    def __init__(self, optimizer: Optimizer, thetas: Tensors) -> None:
        super().__init__()
        own, kind = dict(optimizer.named_parameters()), type(optimizer).__name__
        for name, theta in thetas.items():
            if name not in own:
                raise ValueError(f"{kind} has no parameter {name}; it has {', '.join(own)}.")
            if theta.shape[1:] != own[name].shape or not theta.ndim:
                raise ValueError(
                    f"thetas has {name} of shape {tuple(theta.shape)}, and {kind} has it of shape "
                    f"{tuple(own[name].shape)}: give (L, *shape), one for each lane."
                )
        lanes = {name: len(theta) for name, theta in thetas.items()}
        if len(set(lanes.values())) != 1:
            raise ValueError(f"thetas has these numbers of lanes: {lanes}; expected one number for all.")
        self.optimizer, self.thetas = optimizer, thetas

    def init(self, params: Tensors) -> State:
        return self.optimizer.init(params)

    def update(
        self, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        return self.optimizer.update_each(self.thetas, grads, state, params, step, loss)
