"""The costly part of message passing on lists of edges, with hand-derived gradients that keep memory low."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

_CHUNK = 2048  # edges whose states fit a processor's cache


class EdgeLists(NamedTuple):
    """Where edges end, and whose they are.

    Args:
        target, source: ``(E,)``, the slots at their ends.
        entry: ``(E,)``, the entry whose state each edge shares; ``None`` if they are the entries, in order.
    """

    target: Tensor
    source: Tensor
    entry: Tensor | None


class Slots(NamedTuple):
    """What the slots of one side add to their edges, and what they send along weights: ``(S, C)`` each."""

    terms: Tensor
    values: Tensor


def exchange_edges(
    edges: Tensor, matrix: Tensor, contents: Tensor, target: Slots, source: Slots, lists: EdgeLists
) -> tuple[Tensor, ...]:
    """Update the states of entries from the ends of their edges, and sum messages at both ends.

    ``e' = relu(e W + sum over edges (t + s))``, with ``t`` and ``s`` the terms of the slots at the ends; sums
    of ``e'`` over the edges of each slot; and sums of ``contents`` times the values at the other end.

    Args:
        edges: ``(W, C)``, states of entries.
        matrix: ``(C, C)``, from the left: ``e @ matrix``.
        contents: ``(W, C)``, or ``(W, 1)`` if it is the same for all channels.
        target, source: of the slots at both sides.
        lists: the edges.

    Returns:
        ``e'``; the sums of states at targets and at sources; the sums of values at targets and at sources.
        Differentiable any number of times. Under autocast all are of the type of the terms.
    """
    edges, matrix, contents = (x.to(target.terms.dtype) for x in (edges, matrix, contents))
    if lists.entry is not None:
        return _plainly(edges, matrix, contents, target, source, lists)
    found: tuple[Tensor, ...] = _Exchange.apply(edges, matrix, contents, *target, *source, lists)
    return found


def _plainly(
    edges: Tensor, matrix: Tensor, contents: Tensor, target: Slots, source: Slots, lists: EdgeLists
) -> tuple[Tensor, ...]:
    """:func:`exchange_edges` in plain operators, also for entries with several edges."""
    there, here, entry = lists
    added = target.terms.index_select(0, there) + source.terms.index_select(0, here)
    new = edges @ matrix
    new = (new + added if entry is None else new.index_add(0, entry, added)).relu()
    on_edges = new if entry is None else new.index_select(0, entry)
    contents = contents if entry is None else contents.index_select(0, entry)
    none_t, none_s = torch.zeros_like(target.terms), torch.zeros_like(source.terms)
    return (
        new,
        none_t.index_add(0, there, on_edges),
        none_s.index_add(0, here, on_edges),
        none_t.index_add(0, there, contents * source.values.index_select(0, here)),
        none_s.index_add(0, here, contents * target.values.index_select(0, there)),
    )


class _Exchange(torch.autograd.Function):
    """:func:`exchange_edges` for entries with one edge each; saves only inputs and the new states.

    Works on some edges at a time, so that they stay in the processor's cache between operators.
    """

    @staticmethod
    def forward(
        ctx: Any,
        edges: Tensor,
        matrix: Tensor,
        contents: Tensor,
        term_t: Tensor,
        value_t: Tensor,
        term_s: Tensor,
        value_s: Tensor,
        lists: EdgeLists,
    ) -> tuple[Tensor, ...]:
        new = edges.new_empty(len(edges), matrix.shape[1])
        state_t, state_s, sent_t, sent_s = (torch.zeros_like(x) for x in (term_t, term_s, term_t, term_s))
        for rows in _chunks(edges):
            target, source, part = lists.target[rows], lists.source[rows], new[rows]
            torch.mm(edges[rows], matrix, out=part)
            part += term_t.index_select(0, target)
            part += term_s.index_select(0, source)
            part.relu_()
            state_t.index_add_(0, target, part)
            state_s.index_add_(0, source, part)
            sent_t.index_add_(0, target, value_s.index_select(0, source).mul_(contents[rows]))
            sent_s.index_add_(0, source, value_t.index_select(0, target).mul_(contents[rows]))
        ctx.save_for_backward(edges, matrix, contents, term_t, value_t, term_s, value_s, new)
        ctx.lists = lists
        return new, state_t, state_s, sent_t, sent_s

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, new = ctx.saved_tensors
        edges, matrix, contents, _, value_t, _, value_s = inputs
        if torch.is_grad_enabled():  # the gradients will be differentiated, so nothing may be in place
            return *_differentiate(inputs, ctx.lists, grads), None
        grad_new, state_t, state_s, sent_t, sent_s = grads
        grad_edges = torch.empty_like(edges) if ctx.needs_input_grad[0] else None
        grad_contents = torch.empty_like(contents) if ctx.needs_input_grad[2] else None
        grad_matrix = torch.zeros_like(matrix)
        grad_term_t, grad_value_t, grad_term_s, grad_value_s = (torch.zeros_like(x) for x in inputs[3:])
        for rows in _chunks(edges):
            target, source = ctx.lists.target[rows], ctx.lists.source[rows]
            before = state_t.index_select(0, target)
            before += state_s.index_select(0, source)
            before += grad_new[rows]
            torch.ops.aten.threshold_backward.grad_input(before, new[rows], 0, grad_input=before)
            grad_term_t.index_add_(0, target, before)
            grad_term_s.index_add_(0, source, before)
            grad_matrix.addmm_(edges[rows].T, before)
            if grad_edges is not None:
                torch.mm(before, matrix.T, out=grad_edges[rows])
            to_target, to_source = sent_t.index_select(0, target), sent_s.index_select(0, source)
            if grad_contents is not None:
                both = to_target * value_s.index_select(0, source)
                both += to_source * value_t.index_select(0, target)
                grad_contents[rows] = both if contents.shape[1] > 1 else both.sum(1, keepdim=True)
            grad_value_s.index_add_(0, source, to_target.mul_(contents[rows]))
            grad_value_t.index_add_(0, target, to_source.mul_(contents[rows]))
        return (
            grad_edges,
            grad_matrix,
            grad_contents,
            grad_term_t,
            grad_value_t,
            grad_term_s,
            grad_value_s,
            None,
        )


def _differentiate(
    inputs: list[Tensor], lists: EdgeLists, grads: tuple[Tensor, ...]
) -> tuple[Tensor | None, ...]:
    """Gradients of :func:`_plainly` that can be differentiated again."""
    # Views: where one tensor was made from another, its gradient must not pass through to that one.
    inputs = [x.view_as(x) for x in inputs]
    edges, matrix, contents, term_t, value_t, term_s, value_s = inputs
    outputs = _plainly(edges, matrix, contents, Slots(term_t, value_t), Slots(term_s, value_s), lists)
    used, wanted = zip(
        *(pair for pair in zip(outputs, grads, strict=True) if pair[0].requires_grad), strict=True
    )
    needed = [x for x in inputs if x.requires_grad]
    found = iter(torch.autograd.grad(used, needed, wanted, create_graph=True, allow_unused=True))
    return tuple(next(found) if x.requires_grad else None for x in inputs)


def _chunks(edges: Tensor) -> list[slice]:
    size = _CHUNK if edges.device.type == "cpu" else max(1, len(edges))
    return [slice(start, start + size) for start in range(0, len(edges), size)]
