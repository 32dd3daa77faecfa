"""The steps of networks that train together."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from wsl.zoo.training._dropout import StackedDropout
from wsl.zoo.training._optimizers import StackedOptimizer
from wsl.zoo.training._plan import DROPOUT, NetworkPlan


def optimizer_of(plans: Sequence[NetworkPlan[Any]], rows: Tensor) -> StackedOptimizer:
    """Steps the networks, rows of an ``(M, P)`` matrix, as their hyperparameters say."""
    drawn = [plan.hyperparameters for plan in plans]
    return StackedOptimizer(
        [h.optimizer for h in drawn], [h.learning_rate for h in drawn], [h.weight_decay for h in drawn], rows
    )


def dropout_of(plans: Sequence[NetworkPlan[Any]]) -> StackedDropout:
    """Chooses what the networks drop; see :class:`StackedDropout`."""
    return StackedDropout(
        [plan.hyperparameters.dropout for plan in plans], [plan.seed_of(DROPOUT) for plan in plans]
    )


def train_rows(
    rows: Tensor,
    stored: Sequence[Sequence[int]],
    optimizer: StackedOptimizer,
    gradient: Callable[[int], Tensor],
) -> list[list[Tensor]]:
    """Step the rows of a matrix and copy them at some steps.

    Args:
        rows: ``(M, P)``, a network each; changed by ``optimizer`` and perhaps by ``gradient``.
        stored: for each network the numbers of steps, ascending, after which it is copied. The last is its
            end; networks that train longest come first.
        gradient: called before each step with the number n of networks that still train, the first ones;
            returns what ``optimizer`` takes.

    Returns:
        For each network its copies, in order.
    """
    ends = [steps[-1] for steps in stored]
    assert ends == sorted(ends, reverse=True), "networks that train longest come first"
    copies: list[list[Tensor]] = [[] for _ in stored]
    active = len(stored)
    for step in range(ends[0] + 1):
        for network in range(active):
            copies[network] += [rows[network].clone() for when in stored[network] if when == step]
        while active and ends[active - 1] <= step:
            active -= 1
        if active:
            optimizer.step(gradient(active))
    return copies
