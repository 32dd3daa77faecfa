"""The steps of networks that train together."""

from collections.abc import Callable, Sequence

from torch import Tensor

from wsl.zoo.training._optimizers import StackedOptimizer


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
