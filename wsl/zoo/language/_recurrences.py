"""Recurrent layers of M stacked networks whose gradients are derived by hand.

In all of them ``inputs`` ``(M, L, B, gates * H)`` are what each of L steps takes from outside, for B
sequences of each network, with the biases; ``weight`` ``(M, gates * H, H)`` is what the states are multiplied
by; and the result is the states ``(M, L, B, H)`` after each step, from zeros on. Gates are ordered as in
torch. Backwards, all that does not depend on later steps is computed at once, and so are the gradients of the
weights.
"""

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
        h = c = inputs.new_zeros(M, B, weight.shape[2])
        for t in range(L):
            before = torch.baddbmm(inputs[:, t], h, turned)
            now = torch.sigmoid(before, out=gates[:, t])
            i, f, g, o = now.chunk(4, -1)
            torch.tanh(before.chunk(4, -1)[2], out=g)
            c = torch.mul(f, c, out=cells[:, t]).addcmul_(i, g)
            h = torch.mul(o, torch.tanh(c, out=squashed[:, t]), out=states[:, t])
        ctx.save_for_backward(gates, cells, squashed, states, weight)
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        gates, cells, squashed, states, weight = ctx.saved_tensors
        back = torch.empty_like(gates).unflatten(-1, (4, -1))
        i, f, g, o = gates.unflatten(-1, (4, -1)).unbind(-2)
        earlier = torch.cat([torch.zeros_like(cells[:, :1]), cells[:, :-1]], 1)
        torch.mul(i * g, 1 - i, out=back[..., 0, :])
        torch.mul(earlier.mul_(f), 1 - f, out=back[..., 1, :])
        torch.mul(i, 1 - g.square(), out=back[..., 2, :])
        torch.mul(squashed * o, 1 - o, out=back[..., 3, :])
        to_cells = (1 - squashed.square()).mul_(o)
        grads, kept, slopes = grad.unbind(1), f.unbind(1), to_cells.unbind(1)
        h, c = grads[-1], torch.zeros_like(grads[-1])
        for t in reversed(range(len(grads))):
            c = torch.addcmul(c, h, slopes[t])
            now = back[:, t]
            now[..., :3, :].mul_(c.unsqueeze(2))
            now[..., 3, :].mul_(h)
            if t:
                h = torch.baddbmm(grads[t - 1], now.flatten(2), weight)
                c.mul_(kept[t])
        return back.flatten(-2), _weight_gradient(back.flatten(-2), states)


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
        h = inputs.new_zeros(M, B, H)
        for t in range(L):
            given, now = inputs[:, t], gates[:, t]
            r, z, n = now.chunk(3, -1)
            before = torch.baddbmm(bias, h, turned)
            torch.add(given[..., : 2 * H], before[..., : 2 * H], out=now[..., : 2 * H]).sigmoid_()
            q = inner[:, t].copy_(before[..., 2 * H :])
            torch.addcmul(given[..., 2 * H :], r, q, out=n).tanh_()
            h = torch.lerp(n, h, z, out=states[:, t])
        ctx.save_for_backward(gates, inner, states, weight)
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, inner, states, weight = ctx.saved_tensors
        r, z, n = gates.chunk(3, -1)
        back = gates.new_empty(*states.shape[:3], 4, states.shape[3])  # of n, r, z and q
        earlier = torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], 1)
        torch.mul(1 - z, 1 - n.square(), out=back[..., 0, :])
        torch.mul(back[..., 0, :], r, out=back[..., 3, :])
        torch.mul(back[..., 3, :] * inner, 1 - r, out=back[..., 1, :])
        torch.mul(earlier.sub_(n).mul_(z), 1 - z, out=back[..., 2, :])
        grads, kept = grad.unbind(1), z.unbind(1)
        h = grads[-1]
        for t in reversed(range(len(grads))):
            now = back[:, t].mul_(h.unsqueeze(2))
            if t:
                passed = torch.baddbmm(grads[t - 1], now[..., 1:, :].flatten(2), weight)
                h = passed.addcmul_(h, kept[t])
        to_inputs = torch.cat([back[..., 1:3, :], back[..., :1, :]], -2).flatten(-2)
        to_gates = back[..., 1:, :].flatten(-2)
        return to_inputs, _weight_gradient(to_gates, states), to_gates.sum((1, 2))


def _weight_gradient(back: Tensor, states: Tensor) -> Tensor:
    """From gradients of what enters the gates ``(M, L, B, G)`` and the states: that of ``weight``."""
    B = states.shape[2]
    return back.flatten(1, 2)[:, B:].mT @ states.flatten(1, 2)[:, :-B]
