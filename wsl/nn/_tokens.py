"""Weights as a sequence of tokens of one size, each a part of one neuron's weights."""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from wsl.graph import GraphLayout
from wsl.nn._fourier import sinusoids
from wsl.spec import WeightSpec

_GLOBAL, _LAYER, _WITHIN = 16, 8, 12


class TokenTable(NamedTuple):
    """Where every weight of an architecture lies in its token sequence; see :func:`token_table`.

    Args:
        entries: ``(T, size)``, the number of each weight in the concatenation of all flattened tensors;
            their number ``P`` where there is no weight.
        positions: ``(T, 3)``, of every token its place in the sequence, its layer, and its place in that.
        slots: ``(P,)``, the place of each weight in the flattened ``entries``.
    """

    entries: Tensor
    positions: Tensor
    slots: Tensor


@lru_cache(maxsize=256)
def token_table(spec: WeightSpec, size: int) -> TokenTable:
    """Cut the weights of ``spec`` into tokens of ``size`` weights.

    Tensors of one module with the same first dimension, as its weight and its bias, are a layer: a row for
    each index of that dimension. Rows are filled up to a multiple of the token size and cut.

    Source: Schürholt et al. 2024, section 3.1 (arXiv:2406.09997).
    """
    layers: dict[tuple[str, int], list[Tensor]] = {}
    start = 0
    for name, tensor in spec.tensors.items():
        rows, count = tensor.shape[0] if tensor.shape else 1, math.prod(tensor.shape)
        numbers = torch.arange(start, start + count).reshape(rows, -1)
        layers.setdefault((name.rpartition(".")[0], rows), []).append(numbers)
        start += count
    parts, places = [], []
    for layer, columns in enumerate(layers.values()):
        row = torch.cat(columns, dim=1)
        tokens = nn.functional.pad(row, (0, -row.shape[1] % size), value=start).reshape(-1, size)
        within = torch.arange(len(tokens))
        parts.append(tokens)
        places.append(torch.stack([torch.full_like(within, layer), within], dim=1))
    entries, place = torch.cat(parts), torch.cat(places)
    order = torch.arange(len(place)).unsqueeze(1)
    return TokenTable(entries, torch.cat([order, place], dim=1), entries.flatten().argsort()[:start])


def block_slots(layout: GraphLayout, table: TokenTable) -> Tensor:
    """``(P,)`` slots, block by block as the graph orders their weights, ``(n_1, ..., n_k, K)`` each."""
    sizes = {name: math.prod(tensor.shape) for name, tensor in layout.spec.tensors.items()}
    parts = zip(layout.spec.tensors.items(), table.slots.split(list(sizes.values())), strict=True)
    blocks = layout.spec.split({name: part.reshape(1, *tensor.shape) for (name, tensor), part in parts})
    return torch.cat([block.to_graph(blocks[block.key]).flatten() for block in layout.blocks])


class TokenEmbedding(nn.Module):
    """Weights to tokens: linear in the weights, with embeddings of positions and of padding.

    Positions are sinusoids of a token's place in the sequence, its layer, and its place in the layer, through
    a linear map; which entries are padding is added likewise: a padded entry is no weight of zero.

    Args:
        size: weights in a token.
        channels: width of the states.

    Shapes: flattened weights ``(B, P)`` to ``(B, T, channels)``.
    """

    def __init__(self, size: int, channels: int) -> None:
        super().__init__()
        if size < 1:
            raise ValueError(f"a token holds at least one weight, got token_size={size}.")
        self.values = nn.Linear(size, channels)
        self.padding = nn.Linear(size, channels, bias=False)
        self.positions = nn.Linear(2 * (_GLOBAL + _LAYER + _WITHIN), channels, bias=False)

    def forward(self, weights: Tensor, entries: Tensor, positions: Tensor) -> Tensor:
        """Embed weights, given the table's ``entries`` and ``positions`` on their device."""
        padded = torch.cat([weights, weights.new_zeros(len(weights), 1)], dim=1)
        tokens = padded.index_select(1, entries.flatten()).reshape(len(weights), *entries.shape)
        places = positions.to(weights.dtype)
        features = [sinusoids(places[:, i], count) for i, count in enumerate((_GLOBAL, _LAYER, _WITHIN))]
        empty = (entries == weights.shape[1]).to(weights.dtype)
        constant = self.positions(torch.cat(features, dim=1)) + self.padding(empty)
        out: Tensor = self.values(tokens) + constant
        return out
