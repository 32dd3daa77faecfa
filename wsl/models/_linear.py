"""Stacks of linear layers, drawn from an explicit generator."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn
from torch.nn.utils import skip_init


def checked_widths(in_features: int, hidden: Sequence[int], out_features: int) -> list[int]:
    """All widths, first to last; raises ValueError unless they are positive and one of them is hidden."""
    widths = [in_features, *hidden, out_features]
    if not hidden or any(n < 1 for n in widths):
        raise ValueError(f"expected positive widths and at least one hidden layer, got {widths}.")
    return widths


def linear_layers(widths: Sequence[int]) -> nn.ModuleList:
    """A layer from each width to the next, without values."""
    # skip_init leaves torch's global generator alone: the caller's generator draws every value.
    return nn.ModuleList(skip_init(nn.Linear, n_in, n_out) for n_in, n_out in pairwise(widths))


def draw_uniform(layer: nn.Linear, bound: float, generator: torch.Generator | None) -> None:
    """Weights within ``bound``, biases like ``nn.Linear``'s."""
    layer.weight.uniform_(-bound, bound, generator=generator)
    layer.bias.uniform_(-(layer.in_features**-0.5), layer.in_features**-0.5, generator=generator)
