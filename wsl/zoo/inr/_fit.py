"""Fits a stack of networks to their signals, each until its target or the last step."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from wsl.zoo.inr._points import Targets, psnr
from wsl.zoo.inr._recipe import FitRecipe
from wsl.zoo.inr._stack import NetworkStack

_EPSILON = 1e-8


@dataclass(frozen=True, eq=False)
class Fit:
    """Fitted networks.

    Args:
        rows: ``(M, P)`` parameters.
        steps: ``(M,)`` optimisation steps that each network took.
    """

    rows: Tensor
    steps: Tensor


def fit_networks(
    stack: NetworkStack, initial: Tensor, targets: Targets, recipe: FitRecipe, *, output_scale: float = 1.0
) -> Fit:
    """Fit each network to its targets, a batch a step. A network's result does not depend on the others, up
    to rounding.

    Args:
        initial: ``(M, P)`` initial parameters, left as they are.
        targets: what the networks should output: ``(signal - output_offset) / output_scale``.
        output_scale: turns output errors into signal errors for ``recipe.target_psnr``, which counts on the
            first batch.

    Source of the optimiser: Kingma and Ba 2015 (arXiv:1412.6980), with a cosine schedule.
    """
    adam = _Adam(initial.clone(), recipe)
    active = torch.arange(len(initial))
    rows, steps = torch.empty_like(initial), torch.full((len(initial),), recipe.steps)
    for step in range(recipe.steps):
        batch = step % len(targets)
        errors, gradient = stack.gradient(adam.rows, targets.points[batch], targets.values[batch])
        if batch == 0 and recipe.target_psnr is not None:
            reached = psnr(errors * output_scale**2) >= recipe.target_psnr
            if reached.any():
                rows[active[reached]], steps[active[reached]] = adam.rows[reached], step
                active, gradient = active[~reached], gradient[~reached]
                targets = targets.keep(~reached)
                adam.keep(~reached)
                if len(active) == 0:
                    break
        adam.update(gradient)
    rows[active] = adam.rows
    return Fit(rows, steps)


class _Adam:
    """Adam on a matrix of parameters, in place; all rows have taken the same number of steps."""

    def __init__(self, rows: Tensor, recipe: FitRecipe) -> None:
        self.rows = rows
        self._recipe = recipe
        self._mean, self._square = torch.zeros_like(rows), torch.zeros_like(rows)
        self._step = 0

    def keep(self, which: Tensor) -> None:
        """Go on with these rows only: ``(M,)`` booleans."""
        self.rows, self._mean, self._square = self.rows[which], self._mean[which], self._square[which]

    def update(self, gradient: Tensor) -> None:
        """One step; overwrites ``gradient``."""
        b1, b2 = self._recipe.betas
        rate = self._recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * self._step / self._recipe.steps))
        self._step += 1
        self._mean.lerp_(gradient, 1 - b1)
        self._square.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
        root = torch.sqrt(self._square, out=gradient).mul_((1 - b2**self._step) ** -0.5).add_(_EPSILON)
        self.rows.addcdiv_(self._mean, root, value=-rate / (1 - b1**self._step))
