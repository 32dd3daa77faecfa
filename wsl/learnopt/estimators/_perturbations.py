"""Perturbed copies of meta-parameters, and the gradient that differences of losses give."""

import torch
from torch import Generator, Tensor

from wsl.learnopt._types import Tensors


def draw(theta: Tensors, pairs: int, sigma: float, generator: Generator) -> Tensors:
    """Perturbations ``(P, *shape)`` of each parameter, normal with standard deviation ``sigma``."""
    return {
        name: (sigma * torch.randn(pairs, *p.shape, generator=generator, dtype=p.dtype)).to(p.device)
        for name, p in theta.items()
    }


def antithetic(theta: Tensors, noise: Tensors) -> Tensors:
    """``(2 P, *shape)``: the parameters plus each perturbation, then minus each."""
    return {name: torch.cat([theta[name] + e, theta[name] - e]) for name, e in noise.items()}


def differences(counted: Tensor, pairs: int) -> Tensor:
    """``(K, P)``: what the losses ``(K, L)`` of the lanes with plus count for, less those with minus."""
    return counted[:, :pairs] - counted[:, pairs : 2 * pairs]


def weighted(noise: Tensors, weights: Tensor, sigma: float) -> Tensors:
    """``sum_p weights_p noise_p / (2 P sigma^2)``: perturbations ``(P, *shape)``, weights ``(P,)``."""
    scale = weights / (2 * len(weights) * sigma**2)
    return {name: torch.tensordot(scale.to(e.dtype), e, 1) for name, e in noise.items()}
