"""Statistics of the messages that a node receives, with hand-derived gradients, and how they are pooled."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

_EPSILON = 1e-5


class Statistics(NamedTuple):
    """What nodes receive along some of their edges, ``(B, n, C)`` each.

    Args:
        degree: number of edges at each node.
        mean, variance: the variance is the biased one.
        lowest, highest: minimum and maximum.
    """

    degree: int
    mean: Tensor
    variance: Tensor
    lowest: Tensor
    highest: Tensor


def summarise(messages: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean, variance, minimum and maximum over ``dims``, which the results do not have.

    Where several messages are lowest or highest, they share the gradient. Differentiable any number of times.
    """
    if not dims:
        return messages, torch.zeros_like(messages), messages, messages
    results: tuple[Tensor, Tensor, Tensor, Tensor] = _Summary.apply(messages, dims)
    return results


def pool_statistics(received: Sequence[Statistics]) -> Tensor:
    """Mean, minimum, maximum and standard deviation over all edges of all parts, ``(B, n, 4 C)``."""
    _, mean, variance, lowest, highest = received[0]
    if len(received) > 1:
        total = sum(part.degree for part in received)
        shares = [part.degree / total for part in received]
        mean = _mix([part.mean for part in received], shares)
        about = [part.variance + (part.mean - mean).square() for part in received]
        variance = _mix(about, shares)
        lowest = torch.stack([part.lowest for part in received]).amin(0)
        highest = torch.stack([part.highest for part in received]).amax(0)
    return torch.cat([mean, lowest, highest, (variance + _EPSILON).sqrt()], dim=-1)


def _mix(values: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    return torch.stack([value * share for value, share in zip(values, shares, strict=True)]).sum(0)


class _Summary(torch.autograd.Function):
    """:func:`summarise`; saves the messages and no more of their size."""

    @staticmethod
    def forward(ctx: Any, messages: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, ...]:
        mean = messages.mean(dims, keepdim=True)
        variance = (messages - mean).square_().mean(dims)
        lowest, highest = messages.amin(dims, keepdim=True), messages.amax(dims, keepdim=True)
        ctx.dims = dims
        ctx.save_for_backward(messages, mean, lowest, highest)
        return mean.squeeze(dims), variance, lowest.squeeze(dims), highest.squeeze(dims)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        messages, mean, lowest, highest = ctx.saved_tensors
        count = math.prod(messages.shape[d] for d in ctx.dims)
        for_mean, for_variance, for_lowest, for_highest = (_unsqueeze(grad, ctx.dims) for grad in grads)
        slope = for_variance * (2 / count)
        extremes = ((for_lowest, lowest), (for_highest, highest))
        if torch.is_grad_enabled():  # the gradients will be differentiated, so the mean depends on messages
            total = for_mean / count + (messages - messages.mean(ctx.dims, keepdim=True)) * slope
            for grad, extreme in extremes:
                reached = (messages == extreme).to(messages)
                total = total + reached * (grad / reached.sum(ctx.dims, keepdim=True))
            return total, None
        total = torch.addcmul(for_mean / count - mean * slope, messages, slope)
        reached = torch.empty_like(messages)
        for grad, extreme in extremes:
            torch.eq(messages, extreme, out=reached)
            total.addcmul_(reached, grad / reached.sum(ctx.dims, keepdim=True))
        return total, None


def _unsqueeze(grad: Tensor, dims: tuple[int, ...]) -> Tensor:
    for dim in dims:  # ascending
        grad = grad.unsqueeze(dim)
    return grad
