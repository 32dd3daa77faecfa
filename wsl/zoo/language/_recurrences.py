"""Recurrent layers of M stacked networks whose gradients are derived by hand.

In all of them ``inputs`` ``(M, L, B, gates * H)`` are what each of L steps takes from outside, for B
sequences of each network, with the biases; ``weight`` ``(M, gates * H, H)`` is what the states are multiplied
by; and the result is the states ``(M, L, B, H)`` after each step, from zeros on. Gates are ordered as in
torch. Backwards, all that does not depend on later steps is computed at once, and so are the gradients of the
weights.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


class TanhStates(Function):
    """``h = tanh(inputs + W h)``."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor) -> Tensor:
        states, turned = torch.empty_like(inputs), weight.mT
        h = inputs.new_zeros(inputs[:, 0].shape)
        for now, out in zip(inputs.unbind(1), states.unbind(1), strict=True):
            h = torch.tanh(torch.baddbmm(now, h, turned), out=out)
        ctx.save_for_backward(states, weight)
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        states, weight = ctx.saved_tensors
        back = 1 - states.square()
        slopes, grads = back.unbind(1), grad.unbind(1)
        h = grads[-1]
        for t in reversed(range(len(slopes))):
            pulled = slopes[t].mul_(h)
            if t:
                h = torch.baddbmm(grads[t - 1], pulled, weight)
        return back, _weight_gradient(back, states)


class LstmStates(Function):
    """``i, f, g, o = inputs + W h``; ``c = s(f) c + s(i) tanh(g)``; ``h = s(o) tanh(c)``; s the sigmoid."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor) -> Tensor:
        M, L, B, _ = inputs.shape
        gates, turned = torch.empty_like(inputs), weight.mT
        cells, squashed, states = inputs.new_empty(3, M, L, B, weight.shape[2]).unbind(0)
        i, f, g, o = _gates(gates)
        h = c = inputs.new_zeros(M, B, weight.shape[2])
        for given, now, keep, write, new, show, *out in _steps(
            inputs, gates, f, i, g, o, cells, squashed, states
        ):
            before = torch.baddbmm(given, h, turned)
            torch.sigmoid(before, out=now)
            torch.tanh(before.chunk(4, -1)[2], out=new)
            c = torch.mul(keep, c, out=out[0]).addcmul_(write, new)
            h = torch.mul(show, torch.tanh(c, out=out[1]), out=out[2])
        ctx.save_for_backward(gates, cells, squashed, states, weight)
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        gates, cells, squashed, states, weight = ctx.saved_tensors
        i, f, g, o = _gates(gates)
        back = torch.empty_like(gates)
        to_i, to_f, to_g, to_o = _gates(back)
        torch.addcmul(i, i, i, value=-1, out=to_i).mul_(g)
        torch.addcmul(f, f, f, value=-1, out=to_f)[:, 1:].mul_(cells[:, :-1])
        to_f[:, 0] = 0
        torch.addcmul(i.new_ones(()), g, g, value=-1, out=to_g).mul_(i)
        torch.addcmul(states, states, o, value=-1, out=to_o)  # tanh(c) o (1 - o)
        to_cells = torch.addcmul(o, states, squashed, value=-1)  # o (1 - tanh(c)^2)
        grads = grad.unbind(1)
        h, c = grads[-1], torch.zeros_like(grads[-1])
        steps = _steps(back, back.unflatten(-1, (4, -1))[..., :3, :], to_o, to_cells, f)
        for t, (whole, of_cells, of_o, slope, keep) in reversed(list(enumerate(steps))):
            c = torch.addcmul(c, h, slope)
            of_cells.mul_(c.unsqueeze(2))
            of_o.mul_(h)
            if t:
                h = torch.baddbmm(grads[t - 1], whole, weight)
                c.mul_(keep)
        return back, _weight_gradient(back, states)


class GruStates(Function):
    """``r, z, q = W h + bias`` with the sigmoid of ``r`` and ``z``, of which ``inputs`` have a share too;
    ``n = tanh(inputs_n + r q)``; ``h = n + z (h - n)``. Here ``bias`` is ``(M, 3 H)``.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        M, L, B, _ = inputs.shape
        H = weight.shape[2]
        gates, turned, bias = torch.empty_like(inputs), weight.mT, bias[:, None]
        inner, states = inputs.new_empty(2, M, L, B, H).unbind(0)
        r, z, n = _gates(gates, 3)
        h = inputs.new_zeros(M, B, H)
        given = inputs.split([2 * H, H], -1)
        for gate, new, both, reset, keep, fresh, q, out in _steps(
            *given, gates[..., : 2 * H], r, z, n, inner, states
        ):
            before = torch.baddbmm(bias, h, turned)
            torch.add(gate, before[..., : 2 * H], out=both).sigmoid_()
            q.copy_(before[..., 2 * H :])
            torch.addcmul(new, reset, q, out=fresh).tanh_()
            h = torch.lerp(fresh, h, keep, out=out)
        ctx.save_for_backward(gates, inner, states, weight)
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, inner, states, weight = ctx.saved_tensors
        r, z, n = _gates(gates, 3)
        back = gates.new_empty(*states.shape[:3], 4, states.shape[3])
        to_n, to_r, to_z, to_q = back.unbind(-2)
        torch.addcmul(n.new_ones(()), n, n, value=-1, out=to_n)
        to_n.addcmul_(to_n, z, value=-1)
        torch.mul(to_n, r, out=to_q)
        torch.mul(to_q, inner, out=to_r)
        to_r.addcmul_(to_r, r, value=-1)
        torch.sub(states, n, out=to_z)  # z times the earlier state's lead over n
        to_z.addcmul_(to_z, z, value=-1)
        to_gates = back[..., 1:, :].flatten(-2)
        grads = grad.unbind(1)
        h = grads[-1]
        for t, (whole, of_gates, keep) in reversed(list(enumerate(_steps(back, to_gates, z)))):
            whole.mul_(h.unsqueeze(2))
            if t:
                h = torch.baddbmm(grads[t - 1], of_gates, weight).addcmul_(h, keep)
        to_inputs = torch.cat([back[..., 1:3, :].flatten(-2), to_n], -1)
        return to_inputs, _weight_gradient(to_gates, states), to_gates.sum((1, 2))


def _gates(x: Tensor, count: int = 4) -> tuple[Tensor, ...]:
    """``(M, L, B, count * H)`` as one tensor a gate."""
    return x.chunk(count, -1)


def _steps(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """What the tensors ``(M, L, B, ...)`` hold of each step."""
    return zip(*(tensor.unbind(1) for tensor in tensors), strict=True)


def _weight_gradient(back: Tensor, states: Tensor) -> Tensor:
    """From gradients of what enters the gates ``(M, L, B, G)`` and the states: that of ``weight``."""
    B = states.shape[2]
    return back.flatten(1, 2)[:, B:].mT @ states.flatten(1, 2)[:, :-B]
