"""Work on a few networks at a time, and if wanted keep nothing but inputs and outputs for the gradient."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from wsl.nn._autocast import autocast_to, autocast_type

Function = Callable[[Sequence[Tensor], Sequence[Tensor]], tuple[Tensor, ...]]

_CHUNK_BYTES = 1 << 20
_LARGE_BYTES = 1 << 28  # where memory is not slower than a cache


def chunked(
    function: Function, batched: Sequence[Tensor], shared: Sequence[Tensor], checkpoint: bool = False
) -> tuple[Tensor, ...]:
    """``function(batched, shared)``, a few rows at a time, so that values stay in the processor's cache.

    Args:
        function: pure, and independent for all rows of ``batched``; reads no other tensor with gradients.
        batched: tensors with equal sizes of dimension 0; chunks are measured by the first.
        shared: tensors that every row reads, such as parameters.
        checkpoint: keep only inputs and outputs for the gradient, and run the function again in the backward
            pass, chunk by chunk: a third more operations, for a small part of the memory.

    Returns:
        The outputs, with that dimension 0. Differentiable any number of times. Under autocast all tensors
        are of its type.
    """
    if lower := autocast_type(batched[0]):
        batched, shared = [x.to(lower) for x in batched], [x.to(lower) for x in shared]
        with autocast_to(batched[0], None):
            return chunked(function, batched, shared, checkpoint)
    if torch.compiler.is_compiling():  # it fuses by itself, and sees no autograd inside of a backward pass
        return function(batched, shared)
    if checkpoint:
        outputs: tuple[Tensor, ...] = _Checkpointed.apply(function, len(batched), *batched, *shared)
        return outputs
    sizes = [rows.stop - rows.start for rows in _chunks(batched[0])]
    if len(sizes) == 1:
        return function(batched, shared)
    chunks = zip(*(x.split(sizes) for x in batched), strict=True)
    parts = [function(chunk, shared) for chunk in chunks]
    return tuple(torch.cat(outputs) for outputs in zip(*parts, strict=True))


class _Checkpointed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Function, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.function, ctx.count = function, count
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        batched, shared = tensors[:count], tensors[count:]
        outputs: list[Tensor] = []
        for rows in _chunks(batched[0]):
            parts = function([x[rows] for x in batched], shared)
            if not outputs:
                outputs = [part.new_empty(len(batched[0]), *part.shape[1:]) for part in parts]
            for output, part in zip(outputs, parts, strict=True):
                output[rows] = part
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        with autocast_to(ctx.saved_tensors[0], None):
            results = _backward(ctx.function, ctx.count, ctx.saved_tensors, ctx.needs_input_grad[2:], grads)
        return (None, None, *results)


def _backward(
    function: Function,
    count: int,
    tensors: Sequence[Tensor],
    needs: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    needed = [i for i, need in enumerate(needs) if need]
    results: list[Tensor | None] = [None] * len(tensors)
    if torch.is_grad_enabled():  # the gradients will be differentiated
        # Views: where one tensor was made from another, its gradient must not pass through to that one.
        found = _differentiate(
            function, [x.view_as(x) for x in tensors], count, needed, grads, create_graph=True
        )
        for i, grad in zip(needed, found, strict=True):
            results[i] = grad
        return results
    for rows in _chunks(tensors[0]):
        inputs = [(x[rows] if i < count else x).detach() for i, x in enumerate(tensors)]
        for i in needed:
            inputs[i].requires_grad_()
        with torch.enable_grad():
            own = [grad if grad is None else grad[rows] for grad in grads]
            found = _differentiate(function, inputs, count, needed, own)
        for i, grad in zip(needed, found, strict=True):
            total = results[i]
            if grad is None:
                continue
            if total is None:  # every chunk fills its rows
                new = torch.empty_like if i < count else torch.zeros_like
                total = results[i] = new(tensors[i])
            if i < count:
                total[rows] = grad
            else:
                total += grad
    return results


def _differentiate(
    function: Function,
    tensors: Sequence[Tensor],
    count: int,
    needed: Sequence[int],
    grads: Sequence[Tensor | None],
    create_graph: bool = False,
) -> Sequence[Tensor | None]:
    """Gradients of the inputs numbered in ``needed``."""
    outputs = function(tensors[:count], tensors[count:])
    used = [
        (output, grad)
        for output, grad in zip(outputs, grads, strict=True)
        if grad is not None and output.requires_grad
    ]
    if not used:
        return [None] * len(needed)
    return torch.autograd.grad(
        [output for output, _ in used],
        [tensors[i] for i in needed],
        [grad for _, grad in used],
        create_graph=create_graph,
        allow_unused=True,
    )


def _chunks(x: Tensor) -> Iterator[slice]:
    count = len(x)
    limit = _CHUNK_BYTES if x.device.type == "cpu" else _LARGE_BYTES
    size = max(1, limit * count // max(1, x.numel() * x.element_size()))
    for start in range(0, max(1, count), size):
        yield slice(start, min(start + size, count))
