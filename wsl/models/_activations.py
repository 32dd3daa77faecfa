"""Activations by the names that model zoos give them."""

from collections.abc import Callable

from torch import nn

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "leaky_relu": nn.LeakyReLU,
    "none": nn.Identity,
    "relu": nn.ReLU,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


def activation_module(name: str) -> nn.Module:
    """The activation of this name, with torch's default constants; raises ValueError for an unknown one."""
    if name not in ACTIVATIONS:
        raise ValueError(f"there is no activation {name!r}; choose one of {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[name]()
