"""Affine maps of the features of every weight, the same in all lanes or each lane's own."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

_CHUNK_BYTES = 5 << 18


def affine(inputs: int, outputs: int, scale: float = 1.0) -> nn.Parameter:
    """A first affine map ``(inputs + 1, outputs)``, constants last: within ``scale / sqrt(inputs)``.

    Not transposed, as products of long thin matrices are faster so.
    """
    return nn.Parameter(torch.empty(inputs + 1, outputs).uniform_(-1, 1) * scale / inputs**0.5)


def affine_stack(inputs: int, widths: Sequence[int]) -> nn.ParameterList:
    """First affine maps of an MLP.

    Raises:
        ValueError: no map, or one without channels.
    """
    if not widths or min(widths) < 1:
        raise ValueError(f"an MLP of weights needs widths of at least 1, got {list(widths)}.")
    return nn.ParameterList(affine(*ends) for ends in pairwise((inputs, *widths)))


def apply_affine(features: Tensor, weight: Tensor, common: Tensor | None = None) -> Tensor:
    """Map the features of weights.

    Args:
        features: ``(L, N, F)``.
        weight: ``(F + S + 1, C)``, or ``(L, ...)`` of each lane's own.
        common: ``(L, S)``, further features that all weights of a lane share, mapped once.

    Returns:
        ``(L, N, C)``.
    """
    count, lanes = features.shape[-1], len(features)
    constant = weight[..., -1:, :]
    if common is not None:
        constant = constant + common.unsqueeze(-2) @ weight[..., count:-1, :]
    # Not linear(), which is slower where the maps are those of each lane.
    return torch.baddbmm(
        constant.expand(lanes, -1, -1), features, weight[..., :count, :].expand(lanes, -1, -1)
    )


def run_affine(entries: Tensor, shared: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """An MLP with a ReLU after each map: features ``(L, E, N)`` and ``(L, S)`` to ``(L, N, C)``."""
    hidden = apply_affine(entries.mT, weights[0], shared).relu_()
    for weight in weights[1:]:
        hidden = apply_affine(hidden, weight).relu_()
    return hidden


def by_lanes(
    function: Callable[[Tensor, Tensor, Sequence[Tensor]], Sequence[Tensor]],
    width: int,
    entries: Tensor,
    shared: Tensor,
    weights: Sequence[Tensor],
) -> list[Tensor]:
    """``function(entries, shared, weights)`` for a few lanes at a time, so that values stay in the cache.

    Args:
        width: channels of the widest values that the function makes for every weight.
        entries, shared: features, as networks read them.
        weights: matrices, with a leading dimension of lanes where each lane has its own.

    Returns:
        The tensors ``(L, ...)`` that the function gives.
    """
    lanes, size = len(entries), entries.shape[-1] * entries.element_size() * width
    count = max(1, _CHUNK_BYTES // size)
    if lanes <= count:
        return list(function(entries, shared, weights))
    parts = []
    for first in range(0, lanes, count):
        rows = slice(first, first + count)
        own = [weight[rows] if weight.dim() > 2 else weight for weight in weights]
        parts.append(function(entries[rows], shared[rows], own))
    return [torch.cat(outputs) for outputs in zip(*parts, strict=True)]
