"""What scale equivariant message passing does on edges, with hand-derived gradients."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from wsl.nn._autocast import autocast_to, autocast_type
from wsl.nn._characters import Message
from wsl.nn._chunked import chunked
from wsl.nn._connections import Connection, Terminal
from wsl.nn._edge_update import rows_in_cache


class ScaleRoutes(NamedTuple):
    """What goes along the edges of a connection.

    Args:
        connection: the edges.
        flips: whether they change sign.
        messages: what each terminal receives; ``None`` if nothing at all, ``"nothing"`` if only invariants.
    """

    connection: Connection
    flips: bool
    messages: tuple[Message | None, ...]


def scale_step(
    routes: ScaleRoutes, batched: Sequence[Tensor], shared: Sequence[Tensor], checkpoint: bool = False
) -> tuple[Tensor, ...]:
    """New states of edges, and what they send.

    Args:
        routes: what goes where.
        batched: edges ``(B, *sizes, C)``; for each terminal, ``(B, *terminal.shape, C)`` that it adds, and
            beside it ``C`` that it sends, if it does.
        shared: weights of the maps of edges and of their gates, and the bias of the gates.
        checkpoint: as :func:`chunked` says.

    Returns:
        Edges, then for each terminal that receives something the mean of the invariants, and the messages,
        ``(B, *sizes[dims], C)``. Differentiable any number of times. Under autocast all are of its type.
    """
    if lower := autocast_type(batched[0]):
        batched, shared = [x.to(lower) for x in batched], [x.to(lower) for x in shared]
        with autocast_to(batched[0], None):
            return scale_step(routes, batched, shared, checkpoint)
    if checkpoint or len(routes.connection.uses) != 1 or torch.compiler.is_compiling():
        return chunked(partial(_run, routes), batched, shared, checkpoint)
    return _run(routes, batched, shared)


def _run(routes: ScaleRoutes, batched: Sequence[Tensor], shared: Sequence[Tensor]) -> tuple[Tensor, ...]:
    tensors = (*batched, *shared)
    if len(routes.connection.uses) != 1 or torch.compiler.is_compiling():
        return _step(routes, *tensors)
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    outputs: tuple[Tensor, ...] = _ScaleStep.apply(routes, keep, *tensors)
    return outputs


def edge_invariants(connection: Connection, flips: bool, odd: Tensor, ends: Sequence[Tensor]) -> Tensor:
    """``relu(t_i + s_j + |z_ij|)``, with the mean of the terms over all uses.

    Args:
        connection: the edges.
        flips: whether they change sign.
        odd: ``z``, ``(B, *sizes, C)``.
        ends: for each terminal, ``(B, *terminal.shape, C)``.
    """
    total = odd.abs() if flips else odd
    for end in ends:
        total = total + (end if len(connection.uses) == 1 else end / len(connection.uses))
    return total.relu()


def _step(routes: ScaleRoutes, edges: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    """In plain operators."""
    connection, flips, received = routes
    *ends, weight, gate_weight, gate_bias = tensors
    channels = edges.shape[-1]
    odd = linear(edges, weight)
    terms, values = (
        zip(*(end.tensor_split([channels], dim=-1) for end in ends), strict=True) if ends else ((), ())
    )
    known = edge_invariants(connection, flips, odd[..., :channels], terms)
    gates = linear(known, gate_weight, gate_bias)
    parts = odd[..., channels:]
    outputs = [torch.addcmul(edges, parts[..., :channels], gates[..., :channels])]
    carried = parts * gates[..., channels:]
    number = 0
    for use in connection.uses:
        for side, terminal in enumerate(use):
            route = received[number + side]
            if route is None:
                continue
            outputs.append(known.mean(terminal.others) if terminal.others else known)
            if route != "nothing":
                message = carried[..., :channels] if terminal.end.target else carried[..., channels:]
                if route == "product" and len(use) == 2:
                    message = message * values[number + 1 - side]
                outputs.append(
                    message.sum(terminal.others) * _share(terminal) if terminal.others else message
                )
        number += len(use)
    return tuple(outputs)


def _share(terminal: Terminal) -> float:
    """``1 / sqrt(n)`` for the ``n`` edges of a node."""
    return (math.prod(terminal.shape) / math.prod(terminal.sizes)) ** 0.5


class _Way(NamedTuple):
    """One direction of messages: its number, who receives, and the terminal whose values are multiplied."""

    number: int
    terminal: Terminal
    values: int | None
    even: int
    odd: int | None


def _ways(routes: ScaleRoutes) -> list[_Way]:
    """Those of a connection with one use; ``even`` and ``odd`` number the outputs of the step."""
    ways, place = [], 1
    (use,) = routes.connection.uses
    for side, (terminal, route) in enumerate(zip(use, routes.messages, strict=True)):
        if route is not None:
            other = 1 - side if route == "product" and len(use) == 2 else None
            sends = route != "nothing"
            ways.append(
                _Way(int(not terminal.end.target), terminal, other, place, place + 1 if sends else None)
            )
            place += 1 + int(sends)
    return ways


class _ScaleStep(torch.autograd.Function):
    """:func:`_step` for connections with one use, a few networks at a time, in the processor's cache.

    Keeps what is multiplied, so that no product is computed again.
    """

    @staticmethod
    def forward(
        ctx: Any, routes: ScaleRoutes, keep: bool, edges: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        *ends, weight, gate_weight, gate_bias = tensors
        channels, ways = edges.shape[-1], _ways(routes)
        maps, gates = weight.split(channels), gate_weight.split(channels)
        shifts = gate_bias.split(channels)
        outputs = [edges.new_empty(edges.shape)]
        for way in ways:
            shape = (len(edges), *(way.terminal.sizes[d] for d in way.terminal.dims), channels)
            outputs += [edges.new_empty(shape) for _ in range(1 + int(way.odd is not None))]
        ctx.routes, ctx.chunks = routes, rows_in_cache(edges)
        kept: list[Tensor] = []
        for rows in ctx.chunks:
            own = edges[rows]
            flat = own.reshape(-1, channels)
            sign = flat @ maps[0].T
            known = sign.abs() if routes.flips else sign
            whole = known.view(own.shape)
            for end in ends:
                whole += end[rows][..., :channels]
            known.relu_()
            odd = flat @ maps[1].T
            gate = torch.addmm(shifts[0], known, gates[0].T)
            torch.addcmul(own, odd.view(own.shape), gate.view(own.shape), out=outputs[0][rows])
            saved = [known, *([sign.sign_()] if routes.flips else []), odd, gate]
            for way in ways:
                _mean(whole, way.terminal, outputs[way.even][rows])
                if way.odd is not None:
                    if way.number:
                        odd = flat @ maps[2].T
                    gate = torch.addmm(shifts[1 + way.number], known, gates[1 + way.number].T)
                    message = (odd * gate).view(own.shape)
                    if way.values is not None:
                        message *= ends[way.values][rows][..., channels:]
                    _sum(message, way.terminal, outputs[way.odd][rows])
                    saved += [odd, gate]
            if keep:
                kept += saved
        if keep:
            ctx.save_for_backward(edges, *tensors, *kept)
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        count = 4 + len(ctx.routes.connection.terminals)
        inputs, kept = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        if torch.is_grad_enabled():  # the gradients will be differentiated
            needed = [i for i, need in enumerate(ctx.needs_input_grad[2:]) if need]
            views = [x.view_as(x) for x in inputs]  # on their own, not as functions of one another
            pairs = [
                (out, grad)
                for out, grad in zip(_step(ctx.routes, *views), grads, strict=True)
                if grad is not None
            ]
            found = torch.autograd.grad(
                [out for out, _ in pairs],
                [views[i] for i in needed],
                [grad for _, grad in pairs],
                create_graph=True,
                allow_unused=True,
            )
            results: list[Tensor | None] = [None] * count
            for i, one in zip(needed, found, strict=True):
                results[i] = one
            return None, None, *results
        totals = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in inputs[:-3]] + [
            torch.zeros_like(x) for x in inputs[-3:]
        ]
        width = len(kept) // len(ctx.chunks)
        for i, rows in enumerate(ctx.chunks):
            own = [None if grad is None else grad[rows] for grad in grads]
            _backward(
                ctx.routes,
                [*(x[rows] for x in inputs[:-3]), *inputs[-3:]],
                kept[i * width : (i + 1) * width],
                own,
                [*(x[rows] for x in totals[:-3]), *totals[-3:]],
            )
        return None, None, *totals


def _backward(
    routes: ScaleRoutes,
    inputs: Sequence[Tensor],
    kept: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    totals: Sequence[Tensor],
) -> None:
    """Gradients of some networks into ``totals``, to which those of the parameters are added."""
    edges, *ends, weight, gate_weight, _ = inputs
    grad_edges, *grad_ends, grad_weight, grad_gate_weight, grad_gate_bias = totals
    shape, channels = edges.shape, edges.shape[-1]
    flat = edges.reshape(-1, channels)
    rest = iter(kept)
    known, sign = next(rest), next(rest) if routes.flips else None
    odd, gate = next(rest), next(rest)
    for_odd: list[Tensor | None] = [None] * (len(weight) // channels - 1)
    for_gates: list[tuple[int, Tensor]] = []
    for grad_end in grad_ends:
        grad_end[..., channels:] = 0
    before = edges.new_zeros(shape)
    for way in _ways(routes):
        even = grads[way.even]
        if even is not None:
            before += _widen(even / (math.prod(shape[1:-1]) / math.prod(way.terminal.shape)), way.terminal)
        if way.odd is None:
            continue
        odd_here, gate_here = next(rest), next(rest)
        received = grads[way.odd]
        if received is None:
            continue
        received = _widen(received * _share(way.terminal), way.terminal)
        through = odd_here.view(shape) * received
        if way.values is None:
            to_odd = gate_here.view(shape) * received
        else:
            values, product = ends[way.values][..., channels:], gate_here.view(shape) * through
            term = routes.connection.terminals[way.values]
            grad_ends[way.values][..., channels:] = _total(product, term)
            to_odd = torch.mul(gate_here.view(shape), received * values, out=product)
            through *= values
        for_odd[way.number] = to_odd.view(-1, channels)
        for_gates.append((1 + way.number, through.view(-1, channels)))
    grad_new = grads[0]
    if grad_new is not None:
        grad_new = grad_new.reshape(-1, channels)
        for_gates.append((0, odd * grad_new))
        first = for_odd[0]
        for_odd[0] = gate * grad_new if first is None else first.addcmul_(gate, grad_new)
    flat_before = before.view(-1, channels)
    for number, grad in for_gates:
        rows = slice(number * channels, (number + 1) * channels)
        grad_gate_weight[rows].addmm_(grad.T, known)
        grad_gate_bias[rows] += grad.sum(0)
        flat_before.addmm_(grad, gate_weight[rows])
    torch.ops.aten.threshold_backward.grad_input(flat_before, known, 0, grad_input=flat_before)
    for grad_end, terminal in zip(grad_ends, routes.connection.terminals, strict=True):
        grad_end[..., :channels] = _total(before, terminal)
    if sign is not None:
        flat_before *= sign
    to_edges = grad_edges.view(-1, channels)
    start = grad_new
    for number, part in enumerate([flat_before, *for_odd]):
        if part is not None:
            rows = slice(number * channels, (number + 1) * channels)
            grad_weight[rows].addmm_(part.T, flat)
            if start is None:
                torch.mm(part, weight[rows], out=to_edges)
            else:
                torch.addmm(start, part, weight[rows], out=to_edges)
            start = to_edges


def _mean(values: Tensor, terminal: Terminal, out: Tensor) -> None:
    if terminal.others:
        torch.mean(values, terminal.others, out=out)
    else:
        out.copy_(values)


def _sum(values: Tensor, terminal: Terminal, out: Tensor) -> None:
    if terminal.others:
        torch.sum(values, terminal.others, out=out)
        out *= _share(terminal)
    else:
        out.copy_(values)


def _total(values: Tensor, terminal: Terminal) -> Tensor:
    """``(B, *sizes, C)`` to ``(B, *terminal.shape, C)``."""
    return values.sum(terminal.others, keepdim=True) if terminal.others else values


def _widen(values: Tensor, terminal: Terminal) -> Tensor:
    """``(B, *sizes[dims], C)`` to ``(B, *terminal.shape, C)``."""
    return values.reshape(-1, *terminal.shape, values.shape[-1])
