"""What the parts of learned optimization hand to one another."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

Tensors: TypeAlias = dict[str, Tensor]
"""Parameters or gradients of ``L`` lanes, by name: each ``(L, *shape)``."""

State: TypeAlias = "dict[str, Tensor | State]"
"""State of an optimizer: nested dictionaries of tensors ``(L, ...)`` and of nothing else."""


def map_state(function: Callable[..., Tensor], state: State, *others: State) -> State:
    """The state of what a function makes of the tensors of one or several states of equal structure."""
    found: State = {}
    for name, value in state.items():
        rest: list[Any] = [other[name] for other in others]
        found[name] = map_state(function, value, *rest) if isinstance(value, dict) else function(value, *rest)
    return found


def under(thetas: Tensors, prefix: str) -> Tensors:
    """Those of the parameters of one part of a module, by their names in it."""
    return {name.removeprefix(prefix): theta for name, theta in thetas.items() if name.startswith(prefix)}


def flatten_lanes(tensors: Tensors) -> Tensor:
    """``(L, P)``: the values of each lane side by side, in the order of the dictionary."""
    return torch.cat([lane_rows(tensor) for tensor in tensors.values()], 1)


def lane_rows(tensor: Tensor) -> Tensor:
    """``(L, *shape)`` to ``(L, n)``, numbers ``(L,)`` to ``(L, 1)``."""
    return tensor.flatten(1) if tensor.ndim > 1 else tensor.unsqueeze(1)


def split_lanes(flat: Tensor, like: Tensors) -> Tensors:
    """Views of ``(L, P)`` by the names and shapes of ``like``: the inverse of :func:`flatten_lanes`."""
    sizes = [tensor[0].numel() for tensor in like.values()]
    return {
        name: part.view(tensor.shape)
        for (name, tensor), part in zip(like.items(), flat.split(sizes, 1), strict=True)
    }
