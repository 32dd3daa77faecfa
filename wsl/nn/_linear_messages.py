"""Messages that multiply the states of neurons with the weights between them, as a forward pass does."""

from collections.abc import Sequence

import torch
from torch import Tensor


def linear_messages(weights: Tensor, states: Sequence[Tensor], gains: Tensor | None) -> list[Tensor]:
    """For every axis ``a`` of a block, ``sum_b sum_j w_ij s_b[j] / sqrt(n_b)`` over its other axes ``b``.

    Weights at several kernel positions are summed with a gain for each channel; where there are more than two
    axes, weights are averaged over the remaining ones.

    Args:
        weights: ``(B, n_1, ..., n_k, K)``.
        states: for every axis ``(B, n_a, C)``.
        gains: ``(K, C)``, or ``None`` if ``K`` is 1 and the gain 1.

    Returns:
        For every axis ``(B, n_a, C)``.
    """
    k = len(states)
    messages = []
    for a in range(k):
        parts = [_pair(weights, a, b, k, states[b], gains) for b in range(k) if b != a]
        messages.append(torch.stack(parts).sum(0) if k > 2 else parts[0])
    return messages


def _pair(weights: Tensor, a: int, b: int, k: int, states: Tensor, gains: Tensor | None) -> Tensor:
    if k > 2:
        weights = weights.mean([d + 1 for d in range(k) if d not in (a, b)])
    matrix = (weights if a < b else weights.transpose(1, 2)).flatten(2)
    if gains is not None:
        states = (states.unsqueeze(2) * gains).flatten(1, 2)
    return torch.bmm(matrix, states) / matrix.shape[2] ** 0.5
