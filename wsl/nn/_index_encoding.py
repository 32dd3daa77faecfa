"""Encodings of the indices of axes that may not be permuted."""

import math
from functools import lru_cache

import torch
from torch import Tensor

from wsl.spec import WeightSpec

_FASTEST = 5.0


@lru_cache(maxsize=1024)
def index_encoding(spec: WeightSpec, key: str, count: int) -> Tensor:
    """Sinusoids of the indices of a block's input, output and fixed axes; zero where it has none.

    An index is a number ``p`` from -1 to 1, encoded as ``sin(pi f p)``, ``cos(pi f p)`` and ``p``. Where a
    block has several such axes their encodings are added, each rolled by one channel, to tell them apart.

    Args:
        spec: the specification.
        key: the block.
        count: number of frequencies ``f``, evenly from 1 to 5.

    Returns:
        ``(*view, 2 * count + 1)`` in float64, with size 1 along all dimensions of other kinds; a cached
        value, not to be changed.

    Source: IO-encoding of Zhou et al. 2023 (arXiv:2302.14040).
    """
    block = spec.block(key).block
    total = torch.zeros(*(1 for _ in block.view), 2 * count + 1, dtype=torch.float64)
    dims = [dim for dim in block.neuron_dims if spec.axes[block.axes[dim]].kind != "hidden"]
    for number, dim in enumerate(dims):
        position = torch.linspace(-1, 1, block.view[dim], dtype=torch.float64).unsqueeze(-1)
        phase = math.pi * position * torch.linspace(1, _FASTEST, count, dtype=torch.float64)
        encoding = torch.cat([phase.sin(), phase.cos(), position], dim=-1).roll(number, -1)
        shape = [size if d == dim else 1 for d, size in enumerate(block.view)]
        total = total + encoding.reshape(*shape, -1)
    return total
