"""The costly part of message passing on a dense block, with hand-derived gradients that keep memory low."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_CHUNK_BYTES = 1 << 20


def update_edges(
    edges: Tensor, weight: Tensor, terms: list[Tensor], gates: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Update the edges of a block from their ends, and pool them into a message for every end.

    ``e' = relu(e W + sum_a t_a)`` and, for every axis ``a``, the mean over all other axes of
    ``e' (1 + sum_{b != a} g_b)``.

    Args:
        edges: ``(B, n_1, ..., n_k, C)`` with ``k >= 2``.
        weight: ``(C, C)``, from the left: ``e @ weight``.
        terms: for every axis ``(B, n_a, C)``.
        gates: for every axis ``(B, n_a, C)``.

    Returns:
        ``e'``, shaped as ``edges``, and for every axis the message ``(B, n_a, C)``.
    """
    if len(terms) == 2:
        new, *messages = _EdgeUpdate.apply(edges, weight, *terms, *gates)
        return new, messages
    return update_hyperedges(edges, weight, terms, gates)


def update_hyperedges(
    edges: Tensor, weight: Tensor, terms: list[Tensor], gates: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """:func:`update_edges` in plain operators, for any number of axes; differentiable any number of times."""
    k = len(terms)
    new = (edges @ weight + sum(_spread(term, a, k) for a, term in enumerate(terms))).relu()
    total = 1 + sum(_spread(gate, a, k) for a, gate in enumerate(gates))
    messages = [
        (new * (total - _spread(gate, a, k))).mean([b + 1 for b in range(k) if b != a])
        for a, gate in enumerate(gates)
    ]
    return new, messages


def _spread(nodes: Tensor, axis: int, k: int) -> Tensor:
    shape = [nodes.shape[0], *(1,) * k, nodes.shape[-1]]
    shape[axis + 1] = nodes.shape[1]
    return nodes.reshape(shape)


class _EdgeUpdate(torch.autograd.Function):
    """:func:`update_edges` for two axes; saves only edge states, which are inputs or outputs anyway.

    Works on a few networks at a time, so that edges stay in the processor's cache between operators.
    """

    @staticmethod
    def forward(ctx: Any, edges: Tensor, weight: Tensor, *ends: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        term0, term1, gate0, gate1 = ends
        new = torch.empty_like(edges, memory_format=torch.contiguous_format)
        message0, message1 = torch.empty_like(gate0), torch.empty_like(gate1)
        for rows in _chunks(edges):
            part = new[rows]
            torch.mm(edges[rows].flatten(0, -2), weight, out=part.flatten(0, -2))
            part += term0[rows].unsqueeze(2)
            part += term1[rows].unsqueeze(1)
            part.relu_()
            scaled = part * (1 + gate1[rows]).unsqueeze(1)
            torch.mean(scaled, 2, out=message0[rows])
            torch.mul(part, (1 + gate0[rows]).unsqueeze(2), out=scaled)
            torch.mean(scaled, 1, out=message1[rows])
        ctx.save_for_backward(edges, weight, new, gate0, gate1)
        ctx.set_materialize_grads(False)
        return new, message0, message1

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        edges, weight, new, gate0, gate1 = ctx.saved_tensors
        grad_new, grad0, grad1 = grads
        n0, n1 = new.shape[1:3]
        grad0 = torch.zeros_like(gate0) if grad0 is None else grad0 / n1
        grad1 = torch.zeros_like(gate1) if grad1 is None else grad1 / n0
        grad_edges = torch.empty_like(new) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight)
        grad_term0, grad_term1 = torch.empty_like(gate0), torch.empty_like(gate1)
        grad_gate0, grad_gate1 = torch.empty_like(gate0), torch.empty_like(gate1)
        for rows in _chunks(new):
            left, right = grad0[rows].unsqueeze(2), grad1[rows].unsqueeze(1)
            buffer = new[rows] * left
            torch.sum(buffer, 1, out=grad_gate1[rows])
            torch.mul(new[rows], right, out=buffer)
            torch.sum(buffer, 2, out=grad_gate0[rows])
            before = (1 + gate1[rows]).unsqueeze(1) * left
            torch.mul((1 + gate0[rows]).unsqueeze(2), right, out=buffer)
            before += buffer
            if grad_new is not None:
                before += grad_new[rows]
            torch.ops.aten.threshold_backward.grad_input(before, new[rows], 0, grad_input=before)
            torch.sum(before, 2, out=grad_term0[rows])
            torch.sum(before, 1, out=grad_term1[rows])
            flat = before.flatten(0, -2)
            grad_weight.addmm_(edges[rows].flatten(0, -2).T, flat)
            if grad_edges is not None:
                torch.mm(flat, weight.T, out=grad_edges[rows].flatten(0, -2))
        return grad_edges, grad_weight, grad_term0, grad_term1, grad_gate0, grad_gate1


def _chunks(edges: Tensor) -> list[slice]:
    count = edges.shape[0]
    if edges.device.type != "cpu":
        return [slice(0, count)]
    size = max(1, _CHUNK_BYTES * count // max(1, edges.numel() * edges.element_size()))
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
