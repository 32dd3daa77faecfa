"""Attention among weights: along every axis among the rows and columns that share it, and among tensors."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from wsl.nn._universal_terms import Families


class _Fibres(NamedTuple):
    """The vectors of a tensor along one of its dimensions.

    Args:
        tensor: which tensor.
        order: its dimensions: those that the axis is a family over, those that tell tokens apart, the axis.
        outer: how many the first of these are.
        pooled: dimensions of families over the axis, averaged; among the tokens, with one index.
    """

    tensor: int
    order: tuple[int, ...]
    outer: int
    pooled: tuple[int, ...]


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

    Shapes: the entries of all tensors, row-major, ``(B, N, C)`` to ``(B, N, C)``.

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
        self.heads = heads
        self.shapes = [tuple(sizes[axis] for axis in axes) for axes in tensors]
        self.counts = [math.prod(shape) for shape in self.shapes]
        self.groups = _group_fibres(tensors, families or {})
        self.attention_norm = nn.LayerNorm(channels)
        self.query_key_value = nn.Linear(channels, 3 * channels)
        self.layers = nn.Sequential(
            nn.LayerNorm(channels),
            nn.Linear(channels, 2 * channels),
            nn.ReLU(),
            nn.Linear(2 * channels, channels),
        )

    def forward(self, states: Tensor) -> Tensor:
        states = states + self._attend(self.attention_norm(states))
        out: Tensor = states + self.layers(states)
        return out

    def _attend(self, states: Tensor) -> Tensor:
        """Normalised states ``(B, N, C)`` to the sum of all terms ``(B, N, C)``."""
        # Three products, not one that is cut: the gradient of a cut is put together again.
        maps = zip(self.query_key_value.weight.chunk(3), self.query_key_value.bias.chunk(3), strict=True)
        projected = [self._cut(linear(states, weight, bias)) for weight, bias in maps]
        means = [torch.stack([_mean(part) for part in parts], dim=2) for parts in projected]
        totals = _attention([mean.unsqueeze(-2) for mean in means]).unbind(2)
        sums = [
            total.reshape(len(states), *(1 for _ in shape), self.heads, -1)
            for total, shape in zip(totals, self.shapes, strict=True)
        ]
        for group in self.groups:
            tokens = [[_read(parts[fibres.tensor], fibres) for fibres in group] for parts in projected]
            counts = [read.shape[2] for read in tokens[0]]
            outputs = _attention([torch.cat(parts, dim=2) for parts in tokens]).split(counts, dim=2)
            for fibres, output in zip(group, outputs, strict=True):
                found = _write(output, fibres, self.shapes[fibres.tensor])
                sums[fibres.tensor] = sums[fibres.tensor] + found
        filled = [
            total.expand(-1, *shape, -1, -1).reshape(len(states), count, -1)
            for total, shape, count in zip(sums, self.shapes, self.counts, strict=True)
        ]
        return torch.cat(filled, dim=1)

    def _cut(self, values: Tensor) -> list[Tensor]:
        """``(B, N, C)`` to ``(B, *sizes, H, c)`` for every tensor."""
        parts = values.unflatten(-1, (self.heads, -1)).split(self.counts, dim=1)
        return [
            part.reshape(len(values), *shape, *part.shape[-2:])
            for part, shape in zip(parts, self.shapes, strict=True)
        ]


def _attention(tokens: Sequence[Tensor]) -> Tensor:
    """Queries, keys and values of tokens that are vectors, ``(B, H, T, n, c)`` each, to as much."""
    query, key, value = (part.flatten(-2) for part in tokens)
    return scaled_dot_product_attention(query, key, value).unflatten(-1, tokens[0].shape[-2:])


def _mean(part: Tensor) -> Tensor:
    """``(B, *sizes, H, c)`` to ``(B, H, c)``."""
    return part.reshape(len(part), -1, *part.shape[-2:]).mean(1)


def _group_fibres(tensors: Sequence[tuple[str, ...]], families: Families) -> list[list[_Fibres]]:
    """For every axis its fibres in all tensors."""
    groups: dict[str, list[_Fibres]] = {}
    for i, axes in enumerate(tensors):
        for dim, axis in enumerate(axes):
            outer = tuple(axes.index(name) for name in families.get(axis, ()))
            others = tuple(d for d in range(len(axes)) if d != dim and d not in outer)
            pooled = tuple(d for d in others if axis in families.get(axes[d], ()))
            groups.setdefault(axis, []).append(_Fibres(i, (*outer, *others, dim), len(outer), pooled))
    return list(groups.values())


def _read(tensor: Tensor, fibres: _Fibres) -> Tensor:
    """``(B, *sizes, H, c)`` to its fibres: ``(B * outer, H, T, n, c)``."""
    if fibres.pooled:
        tensor = tensor.mean([dim + 1 for dim in fibres.pooled], keepdim=True)
    dims = [dim + 1 for dim in fibres.order]
    moved = tensor.permute(0, *dims[: fibres.outer], -2, *dims[fibres.outer :], -1)
    outer = moved.shape[: fibres.outer + 1].numel()
    return moved.reshape(outer, tensor.shape[-2], -1, *moved.shape[-2:])


def _write(tokens: Tensor, fibres: _Fibres, shape: tuple[int, ...]) -> Tensor:
    """The inverse: ``(B * outer, H, T, n, c)`` to ``(B, *sizes, H, c)``; pooled dimensions have size 1."""
    sizes = [1 if dim in fibres.pooled else shape[dim] for dim in fibres.order]
    heads, width = tokens.shape[1], tokens.shape[-1]
    apart = tokens.reshape(-1, *sizes[: fibres.outer], heads, *sizes[fibres.outer :], width)
    places = {dim: i + 1 + (i >= fibres.outer) for i, dim in enumerate(fibres.order)}
    return apart.permute(0, *(places[dim] for dim in range(len(shape))), fibres.outer + 1, -1)
