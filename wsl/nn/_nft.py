"""Attention among weights: along every axis among the rows and columns that share it, and among tensors."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from wsl.nn._fibres import fibre_groups
from wsl.nn._nft_step import AttentionPlan, attention_step
from wsl.nn._universal_terms import Families


class WeightAttention(nn.Module):
    """A layer of a neural functional transformer: attention among weights, then an MLP of every weight.

    Pre-normalised and residual: ``x + attention(norm(x))``, then ``x + MLP(norm(x))``. The attention of an
    entry is a sum of one term for each of its dimensions, and one for its tensor:

    * for a dimension with axis ``a`` the tokens are all vectors along ``a`` of all tensors, such as the
      rows of a weight matrix, the columns of the next one and the bias between them. A query and a key
      are multiplied along ``a`` and the channels of a head;
    * for the tensor, the tokens are the means of all tensors.

    Queries, keys and values are linear in the channels, with the same maps for all tensors and terms: no
    parameter depends on the tensors. Where ``a`` is a family, tokens attend to those with the same indices
    of the axes that it is over. Along ``a``, dimensions of families over ``a`` are averaged: their order
    differs from one index of ``a`` to the next.

    Args:
        tensors: the axes of every tensor.
        sizes: the size of every axis.
        channels: channels of every entry.
        heads: number of heads; divides ``channels``.
        families: for axes that are families, the axes that they are over.

    Shapes: the entries of all tensors, row-major, channels first: ``(B, C, N)`` to ``(B, C, N)``.

    Raises:
        ValueError: ``heads`` does not divide ``channels``.

    Time grows with the square of the number of vectors along an axis, times its size.

    Source: Zhou et al. 2023 (arXiv:2305.13546), the weight-space self-attention, with means of tensors in its
    third term as in the authors' experiments. Deviates: any architecture, repeated axes and families.
    """

    def __init__(
        self,
        tensors: Sequence[tuple[str, ...]],
        sizes: Mapping[str, int],
        channels: int,
        heads: int,
        families: Families | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or channels % heads:
            raise ValueError(f"the heads must share all channels evenly: channels={channels}, heads={heads}.")
        counts = tuple(math.prod(sizes[axis] for axis in axes) for axes in tensors)
        self.plan = AttentionPlan(heads, counts, tuple(fibre_groups(tensors, sizes, families or {})))
        self.attention_norm = nn.LayerNorm(channels)
        self.query_key_value = nn.Linear(channels, 3 * channels)
        self.norm = nn.LayerNorm(channels)
        self.hidden = nn.Linear(channels, 2 * channels)
        self.out = nn.Linear(2 * channels, channels)

    def forward(self, states: Tensor) -> Tensor:
        parameters = [
            *_with_norm(self.attention_norm, self.query_key_value),
            *_with_norm(self.norm, self.hidden),
            self.out.weight,
            self.out.bias,
        ]
        return attention_step(self.plan, states, parameters)


def _with_norm(norm: nn.LayerNorm, after: nn.Linear) -> tuple[Tensor, Tensor]:
    """Weight and bias of a linear map with the gains and shifts of the norm before it."""
    return after.weight * norm.weight, torch.addmv(after.bias, after.weight, norm.bias)
