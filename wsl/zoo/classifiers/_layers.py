"""Layers of M stacked networks: feature maps ``(B, M * C, H, W)`` with channels last in memory."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from wsl.zoo.training import StackedDropout

_aten = torch.ops.aten


class Activation(NamedTuple):
    """One of :data:`wsl.models.ACTIVATIONS` with its derivative."""

    apply: Callable[[Tensor], Tensor]
    """May overwrite its argument where ``pull`` does not read that."""
    pull: Callable[[Tensor, Tensor, Tensor], Tensor]
    """Gradients of outputs, inputs and outputs of ``apply`` -> gradients of inputs; overwrites the first."""
    closed: bool = False
    """Whether the derivative is 0 wherever the output is 0."""


ACTIVATIONS = {
    "elu": Activation(F.elu, lambda g, x, y: _aten.elu_backward(g, 1, 1, 1, True, y, grad_input=g)),
    "gelu": Activation(F.gelu, lambda g, x, y: _aten.gelu_backward(g, x, grad_input=g)),
    "leaky_relu": Activation(
        F.leaky_relu, lambda g, x, y: _aten.leaky_relu_backward(g, y, 0.01, True, grad_input=g)
    ),
    "none": Activation(lambda x: x, lambda g, x, y: g),
    "relu": Activation(torch.relu_, lambda g, x, y: _aten.threshold_backward(g, y, 0, grad_input=g), True),
    "sigmoid": Activation(torch.sigmoid_, lambda g, x, y: _aten.sigmoid_backward(g, y, grad_input=g), True),
    "silu": Activation(F.silu, lambda g, x, y: _aten.silu_backward(g, x, grad_input=g)),
    "tanh": Activation(torch.tanh_, lambda g, x, y: _aten.tanh_backward(g, y, grad_input=g)),
}


def stacked_kernel(weight: Tensor) -> Tensor:
    """``(M, O, C, kh, kw)`` as the kernel of a grouped convolution."""
    return weight.flatten(0, 1).contiguous(memory_format=torch.channels_last)


def stacked_conv(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int = 0) -> Tensor:
    """Convolutions: ``(B, M * C, H, W)``, ``(M, O, C, kh, kw)``, ``(M, O)`` to ``(B, M * O, h, w)``."""
    return F.conv2d(x, stacked_kernel(weight), bias.flatten(), stride, padding, groups=len(weight))


def stacked_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``(M, B, I)``, ``(M, O, I)`` and ``(M, O)`` to ``(M, B, O)``."""
    return torch.baddbmm(bias[:, None], x, weight.mT)


def pixel_mean(x: Tensor, networks: int) -> Tensor:
    """``(B, M * C, H, W)`` to the mean over pixels ``(M, B, C)``."""
    B, C, H, W = x.shape
    means = x.permute(0, 2, 3, 1).reshape(B, H * W, C).mean(1)
    return means.unflatten(1, (networks, C // networks)).transpose(0, 1)


def drop(x: Tensor, networks: int, dropout: StackedDropout | None) -> Tensor:
    """Dropout of ``(B, M * C, H, W)``; without one, ``x`` itself."""
    if dropout is None or not dropout.drops(networks):
        return x
    B, C, H, W = x.shape
    factors = dropout.factors(networks, (B, H, W, C // networks), x.dtype)
    return x * factors.permute(1, 2, 3, 0, 4).flatten(3).permute(0, 3, 1, 2)
