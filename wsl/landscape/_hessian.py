"""Curvature of the loss at networks: trace and top eigenvalue of the Hessian, without the Hessian."""

from collections.abc import Callable

import torch
from torch import Tensor

Loss = Callable[[Tensor], Tensor]
"""``(M, P)`` to ``(M,)``: the loss of each of M networks by its own row alone, with a graph of autograd."""


def hessian_product(loss: Loss, rows: Tensor) -> Callable[[Tensor], Tensor]:
    """A function that multiplies the Hessians of M losses by M vectors: ``(M, P)`` to ``(M, P)``.

    The loss and its gradient are computed once, whatever the number of products.

    Args:
        rows: ``(M, P)``, where the Hessians are taken.

    Raises:
        ValueError: the loss does not give one value a row.
    """
    leaf = rows.detach().clone().requires_grad_()
    with torch.enable_grad():
        losses = loss(leaf)
        if losses.shape != rows.shape[:1]:
            raise ValueError(f"the loss gives {tuple(losses.shape)} for {len(rows)} rows, expected one each.")
        (gradient,) = torch.autograd.grad(losses.sum(), leaf, create_graph=True)

    def product(vectors: Tensor) -> Tensor:
        if not gradient.requires_grad:  # the loss is linear
            return torch.zeros_like(rows)
        (made,) = torch.autograd.grad(gradient, leaf, vectors, retain_graph=True, materialize_grads=True)
        return made

    return product


def hessian_trace(loss: Loss, rows: Tensor, *, samples: int, generator: torch.Generator) -> Tensor:
    """``(M,)``: estimates of the traces, means of ``v H v`` over vectors of random signs.

    Args:
        rows: ``(M, P)``.
        samples: vectors for each network.
        generator: of the signs.

    Source: Hutchinson's estimator. Its variance is twice the sum of the squared off-diagonal entries of the
    Hessian, by the number of samples.
    """
    product, total = hessian_product(loss, rows), rows.new_zeros(len(rows))
    for _ in range(samples):
        signs = torch.randint(0, 2, rows.shape, generator=generator).to(rows).mul_(2).sub_(1)
        total += (signs * product(signs)).sum(1)
    return total / samples


def hessian_top(
    loss: Loss, rows: Tensor, *, iterations: int, generator: torch.Generator, tolerance: float = 1e-3
) -> Tensor:
    """``(M,)``: the eigenvalues of largest magnitude, with their signs, by power iteration.

    Args:
        rows: ``(M, P)``.
        iterations: products at most. A network whose two largest eigenvalues are close needs many.
        generator: of the first vectors.
        tolerance: a network is done when a product changes its eigenvalue by less than this share.
    """
    product = hessian_product(loss, rows)
    vectors = torch.randn(rows.shape, generator=generator, dtype=rows.dtype).to(rows)
    found, done = rows.new_zeros(len(rows)), rows.new_zeros(len(rows), dtype=torch.bool)
    tiny = torch.finfo(rows.dtype).tiny
    for _ in range(iterations):
        vectors = vectors / vectors.norm(dim=1, keepdim=True).clamp_min(tiny)
        images = product(vectors)
        values = torch.where(done, found, (vectors * images).sum(1))
        done |= ~((values - found).abs() > tolerance * values.abs())  # so that NaN is done too
        found, vectors = values, images
        if done.all():
            break
    return found
