"""The costly part of message passing on a dense block, with hand-derived gradients that keep memory low."""

from typing import Any

import torch
from torch import Tensor

from wsl.nn._autocast import autocast_type

_CHUNK_BYTES = 1 << 20


def update_edges(edges: Tensor, weight: Tensor, terms: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Update the edges of a block from their ends, and average them into a message for each end.

    ``e'_ij = relu(e_ij W + s_i + t_j)``, the mean of ``e'`` over ``j``, and that over ``i``.

    Args:
        edges: ``(B, n, m, F)``.
        weight: ``(F, C)``, from the left: ``e @ weight``.
        terms: ``s`` ``(B, n, C)`` and ``t`` ``(B, m, C)``.

    Returns:
        ``e'`` ``(B, n, m, C)``, and the messages ``(B, n, C)`` and ``(B, m, C)``. Differentiable any
        number of times. Under autocast all are of its type.
    """
    edges, weight, terms = _autocast(edges, weight, terms)
    new, *messages = _EdgeUpdate.apply(edges, weight, *terms)
    return new, messages


def update_hyperedges(
    edges: Tensor, weight: Tensor, terms: list[Tensor], dims: list[tuple[int, ...]]
) -> tuple[Tensor, list[Tensor]]:
    """:func:`update_edges` in plain operators, for any number of dimensions and of ends.

    Args:
        edges: ``(B, n_1, ..., n_k, C)``.
        weight: ``(C, C)``, from the left: ``e @ weight``.
        terms: for every end ``(B, n, C)`` with ``n`` the product of its dimensions.
        dims: for every end, which dimensions index it, ascending from 0.

    Returns:
        ``e'``, shaped as ``edges``, and for every end the mean over all other dimensions, ``(B, n, C)``.
    """
    edges, weight, terms = _autocast(edges, weight, terms)
    sizes = edges.shape[1:-1]
    new = edges @ weight
    for term, own in zip(terms, dims, strict=True):
        spread = [size if d in own else 1 for d, size in enumerate(sizes)]
        new = new + term.reshape(len(term), *spread, term.shape[-1])
    new = new.relu()
    messages = []
    for term, own in zip(terms, dims, strict=True):
        others = [d + 1 for d in range(len(sizes)) if d not in own]
        messages.append((new.mean(others) if others else new).reshape(term.shape))
    return new, messages


def _autocast(edges: Tensor, weight: Tensor, terms: list[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
    kind = autocast_type(edges)
    if kind is None:
        return edges, weight, terms
    return edges.to(kind), weight.to(kind), [term.to(kind) for term in terms]


class _EdgeUpdate(torch.autograd.Function):
    """:func:`update_edges` for two axes; saves only edge states, which are inputs or outputs anyway.

    Works on a few networks at a time, so that edges stay in the processor's cache between operators.
    """

    @staticmethod
    def forward(
        ctx: Any, edges: Tensor, weight: Tensor, term0: Tensor, term1: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        new = edges.new_empty(*edges.shape[:-1], weight.shape[1])
        message0, message1 = torch.empty_like(term0), torch.empty_like(term1)
        for rows in rows_in_cache(edges):
            part = new[rows]
            torch.mm(edges[rows].flatten(0, -2), weight, out=part.flatten(0, -2))
            part += term0[rows].unsqueeze(2)
            part += term1[rows].unsqueeze(1)
            part.relu_()
            torch.mean(part, 2, out=message0[rows])
            torch.mean(part, 1, out=message1[rows])
        ctx.save_for_backward(edges, weight, new)
        ctx.set_materialize_grads(False)
        return new, message0, message1

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        edges, weight, new = ctx.saved_tensors
        grad_new, grad0, grad1 = grads
        count, n0, n1, channels = new.shape
        grad0 = new.new_zeros(count, n0, channels) if grad0 is None else grad0 / n1
        grad1 = new.new_zeros(count, n1, channels) if grad1 is None else grad1 / n0
        if torch.is_grad_enabled():  # the gradients will be differentiated, so nothing may be in place
            before = grad0.unsqueeze(2) + grad1.unsqueeze(1)
            before = (before if grad_new is None else before + grad_new) * (new > 0)
            grad_weight = edges.flatten(0, -2).T @ before.flatten(0, -2)
            return before @ weight.T, grad_weight, before.sum(2), before.sum(1)
        grad_edges = edges.new_empty(edges.shape) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight)
        grad_term0, grad_term1 = torch.empty_like(grad0), torch.empty_like(grad1)
        for rows in rows_in_cache(new):
            before = grad0[rows].unsqueeze(2) + grad1[rows].unsqueeze(1)
            if grad_new is not None:
                before += grad_new[rows]
            torch.ops.aten.threshold_backward.grad_input(before, new[rows], 0, grad_input=before)
            torch.sum(before, 2, out=grad_term0[rows])
            torch.sum(before, 1, out=grad_term1[rows])
            flat = before.flatten(0, -2)
            grad_weight.addmm_(edges[rows].flatten(0, -2).T, flat)
            if grad_edges is not None:
                torch.mm(flat, weight.T, out=grad_edges[rows].flatten(0, -2))
        return grad_edges, grad_weight, grad_term0, grad_term1


def rows_in_cache(entries: Tensor) -> list[slice]:
    """Cut the networks of ``(B, ...)`` into groups whose entries fit a processor's cache; at least one."""
    count = entries.shape[0]
    if entries.device.type != "cpu":
        return [slice(0, count)]
    size = max(1, _CHUNK_BYTES * count // max(1, entries.numel() * entries.element_size()))
    return [slice(start, min(start + size, count)) for start in range(0, max(1, count), size)]
