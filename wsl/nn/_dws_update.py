"""The costly part of a DWS-layer, on the entries of a matrix, with hand-derived gradients."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from wsl.nn._autocast import autocast_type
from wsl.nn._edge_update import rows_in_cache

_EPSILON = 1e-5

Updated = tuple[Tensor, Tensor, Tensor]


def update_matrix(
    matrix: Tensor, weight: Tensor, terms: list[Tensor], gain: Tensor, offset: Tensor
) -> Updated:
    """New entries of a matrix from all that is known of them, and their maxima along rows and columns.

    ``e'_ij = relu(norm(e_ij W + s_i + t_j))``, the maximum of ``e'`` over ``j``, and that over ``i``. Where
    several entries are the maximum they share its gradient evenly, as in :func:`torch.amax`.

    Args:
        matrix: ``(B, n, m, F)``.
        weight: ``(F, k * C)``, from the left: ``e @ weight``.
        terms: ``s`` ``(B, n, k * C)`` and ``t`` ``(B, m, k * C)``.
        gain, offset: of the layer norm, ``(C,)``: each of ``k`` groups of channels is normalised by itself.

    Returns:
        ``e'`` ``(B, n, m, k * C)``, and the maxima ``(B, n, k * C)`` and ``(B, m, k * C)``. Differentiable
        any number of times. Under autocast all are of its type.
    """
    given = [matrix, weight, *terms, gain, offset]
    if kind := autocast_type(matrix):
        given = [tensor.to(kind) for tensor in given]
    updated: Updated = _MatrixUpdate.apply(*given)
    return updated


def normalise(features: Tensor, gain: Tensor, offset: Tensor) -> Tensor:
    """A layer norm for each group of ``C`` of the ``k * C`` channels, then ReLU."""
    channels = len(gain)
    groups = features.unflatten(-1, (features.shape[-1] // channels, channels))
    return F.layer_norm(groups, (channels,), gain, offset, _EPSILON).relu().reshape(features.shape)


def _plainly(
    matrix: Tensor, weight: Tensor, rows: Tensor, columns: Tensor, gain: Tensor, offset: Tensor
) -> Updated:
    new = normalise(matrix @ weight + rows.unsqueeze(2) + columns.unsqueeze(1), gain, offset)
    return new, new.amax(2), new.amax(1)


class _MatrixUpdate(torch.autograd.Function):
    """:func:`_plainly`, a few networks at a time, so that entries stay in the processor's cache."""

    @staticmethod
    def forward(
        ctx: Any,
        matrix: Tensor,
        weight: Tensor,
        term0: Tensor,
        term1: Tensor,
        gain: Tensor,
        offset: Tensor,
    ) -> Updated:
        before = matrix.new_empty(*matrix.shape[:-1], weight.shape[1])
        new, tops = torch.empty_like(before), (torch.empty_like(term0), torch.empty_like(term1))
        means, scales = [], []
        for rows in rows_in_cache(before):
            part = before[rows]
            torch.mm(matrix[rows].flatten(0, -2), weight, out=part.flatten(0, -2))
            part += term0[rows].unsqueeze(2)
            part += term1[rows].unsqueeze(1)
            normal, mean, scale = torch.native_layer_norm(
                part.view(-1, len(gain)), [len(gain)], gain, offset, _EPSILON
            )
            torch.clamp_min(normal.view(part.shape), 0, out=new[rows])
            for dim, top in zip((2, 1), tops, strict=True):
                torch.amax(new[rows], dim, out=top[rows])
            means.append(mean)
            scales.append(scale)
        statistics = torch.cat(means), torch.cat(scales)
        ctx.save_for_backward(matrix, weight, term0, term1, gain, offset, before, new, *statistics, *tops)
        ctx.set_materialize_grads(False)
        return new, *tops

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        *given, before, new, mean, scale, top0, top1 = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradients will be differentiated, so nothing may be in place
            return _differentiate(given, grads)
        matrix, weight, term0, term1, gain, offset = given
        grad_matrix = matrix.new_empty(matrix.shape) if ctx.needs_input_grad[0] else None
        grad_weight, grad_gain, grad_offset = (torch.zeros_like(x) for x in (weight, gain, offset))
        grad_term0, grad_term1 = torch.empty_like(term0), torch.empty_like(term1)
        groups = len(mean) // max(1, len(before))
        for rows in rows_in_cache(before):
            grad = torch.zeros_like(new[rows])
            if grads[0] is not None:  # in whatever order of memory
                grad += grads[0][rows]
            is_top = torch.empty_like(grad)
            for dim, top, grad_top in ((2, top0, grads[1]), (1, top1, grads[2])):
                if grad_top is not None:
                    torch.eq(new[rows], top[rows].unsqueeze(dim), out=is_top)
                    share = grad_top[rows] / is_top.sum(dim)
                    grad.addcmul_(is_top, share.unsqueeze(dim))
            torch.ops.aten.threshold_backward.grad_input(grad, new[rows], 0, grad_input=grad)
            own = slice(rows.start * groups, rows.stop * groups)
            grad, in_gain, in_offset = torch.ops.aten.native_layer_norm_backward(
                grad.view(-1, len(gain)),
                before[rows].view(-1, len(gain)),
                [len(gain)],
                mean[own],
                scale[own],
                gain,
                offset,
                [True, True, True],
            )
            grad_gain += in_gain
            grad_offset += in_offset
            grad = grad.view(before[rows].shape)
            torch.sum(grad, 2, out=grad_term0[rows])
            torch.sum(grad, 1, out=grad_term1[rows])
            flat = grad.flatten(0, -2)
            grad_weight.addmm_(matrix[rows].flatten(0, -2).T, flat)
            if grad_matrix is not None:
                torch.mm(flat, weight.T, out=grad_matrix[rows].flatten(0, -2))
        return grad_matrix, grad_weight, grad_term0, grad_term1, grad_gain, grad_offset


def _differentiate(given: list[Tensor], grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """Gradients of :func:`_plainly` that can be differentiated again."""
    # Views: where one tensor was made from another, its gradient must not pass through to that one.
    given = [tensor.view_as(tensor) for tensor in given]
    needed = [tensor for tensor in given if tensor.requires_grad]
    outputs = zip(_plainly(*given), grads, strict=True)
    used, wanted = zip(*((out, grad) for out, grad in outputs if grad is not None), strict=True)
    found = iter(torch.autograd.grad(used, needed, wanted, create_graph=True, allow_unused=True))
    return tuple(next(found) if tensor.requires_grad else None for tensor in given)
