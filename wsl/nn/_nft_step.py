"""The computations of attention among weights, with hand-derived gradients that keep memory low."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wsl.nn._autocast import autocast_type
from wsl.nn._edge_update import rows_in_cache
from wsl.nn._fibres import FibreGroup

_EPSILON = 1e-5


@dataclass(frozen=True, eq=False)
class AttentionPlan:
    """Which entries attend to one another.

    Args:
        heads: number of attention heads.
        counts: number of entries of each tensor; after them lie the means of all tensors.
        groups: the vectors along every axis, and those means.
    """

    heads: int
    counts: tuple[int, ...]
    groups: tuple[FibreGroup, ...]

    def cut(self, values: Tensor, kinds: int) -> list[Tensor]:
        """``(B, kinds * C, N + tensors)`` to views ``(B, kinds, H, c, *sizes)`` of each tensor, and means."""
        apart = values.unflatten(1, (kinds, self.heads, -1))
        parts = apart.split([*self.counts, len(self.counts)], dim=-1)
        return [
            part.reshape(*part.shape[:-1], *shape)
            for part, shape in zip(parts, self.groups[0].shapes, strict=True)
        ]

    def split(self, values: Tensor) -> tuple[Tensor, ...]:
        """``(B, C, N)``, or with more after it, to views ``(B, C, n)`` of each tensor."""
        return values[..., : sum(self.counts)].split(list(self.counts), dim=-1)

    def means(self, values: Tensor) -> list[Tensor]:
        """``(B, C, N)`` to the mean of each tensor, ``(B, C, 1)``."""
        return [part.mean(-1, keepdim=True) for part in self.split(values)]


def attention_step(plan: AttentionPlan, states: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """Attention and MLP, both normalised and residual.

    Args:
        plan: which entries attend to one another.
        states: ``(B, C, N)``.
        parameters: weight and bias of three linear maps: to queries, keys and values, to the hidden layer
            of the MLP, and from it.

    Returns:
        ``(B, C, N)``. Differentiable any number of times.
    """
    if torch.compiler.is_compiling() or autocast_type(states) is not None:
        return _step(plan, states, *parameters)
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in (states, *parameters))
    out: Tensor = _AttentionStep.apply(plan, keep, states, *parameters)
    return out


def normalise_channels(states: Tensor) -> Tensor:
    """Layer norm of ``(B, C, N)`` over the channels, without gains."""
    centred = states - states.mean(1, keepdim=True)
    return centred * (centred.square().mean(1, keepdim=True) + _EPSILON).rsqrt()


def _step(
    plan: AttentionPlan,
    states: Tensor,
    weight: Tensor,
    bias: Tensor,
    weight_in: Tensor,
    bias_in: Tensor,
    weight_out: Tensor,
    bias_out: Tensor,
) -> Tensor:
    """In plain operators."""
    normed = normalise_channels(states)
    projected = weight @ torch.cat([normed, *plan.means(normed)], dim=-1) + bias.unsqueeze(1)
    entries = plan.cut(projected, 3)
    sums = [torch.zeros_like(part[:, 2:]) for part in entries]
    for group in plan.groups:
        query, key, value = group.read(entries)
        scores = query @ key.mT * query.shape[-1] ** -0.5
        for i, found in group.write((scores.softmax(-1) @ value).unsqueeze(0), sums):
            sums[i] = sums[i] + found
    flat = [part.reshape(*states.shape[:2], math.prod(part.shape[4:])) for part in sums]
    parts = [part + total for part, total in zip(flat[:-1], flat[-1].split(1, dim=-1), strict=True)]
    states = states + torch.cat(parts, dim=-1)
    hidden = (weight_in @ normalise_channels(states) + bias_in.unsqueeze(1)).relu()
    return states + (weight_out @ hidden + bias_out.unsqueeze(1))


class _AttentionStep(torch.autograd.Function):
    """:func:`_step`, a few networks at a time, so that entries stay in the processor's cache.

    Saves what is multiplied, so that no product is computed again, and statistics of the norms.
    """

    @staticmethod
    def forward(ctx: Any, plan: AttentionPlan, keep: bool, states: Tensor, *parameters: Tensor) -> Tensor:
        weight, bias, weight_in, bias_in, weight_out, bias_out = parameters
        ctx.plan, ctx.chunks = plan, rows_in_cache(states)
        out = torch.empty_like(states, memory_format=torch.contiguous_format)
        kept: list[list[Tensor]] = []
        for rows in ctx.chunks:
            x, y = states[rows], out[rows]
            size = len(x)
            normed, *stats = _normed(plan, x)
            projected = torch.baddbmm(bias.unsqueeze(1), weight.expand(size, -1, -1), normed)
            attended, probabilities = _attend(plan, projected)
            middle = attended.add_(x)
            normed, *stats_in = _normed(None, middle)
            hidden = torch.baddbmm(bias_in.unsqueeze(1), weight_in.expand(size, -1, -1), normed).relu_()
            torch.baddbmm(middle, weight_out.expand(size, -1, -1), hidden, out=y).add_(bias_out.unsqueeze(1))
            if keep:
                kept.append([*stats, projected, *probabilities, middle, *stats_in, hidden])
        if keep:
            ctx.save_for_backward(states, *parameters, *(x for chunk in kept for x in chunk))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        plan, saved = ctx.plan, ctx.saved_tensors
        states, parameters, kept = saved[0], saved[1:7], saved[7:]
        if torch.is_grad_enabled():  # the gradients will be differentiated
            needed = [i for i, need in enumerate(ctx.needs_input_grad[2:]) if need]
            inputs = [x.view_as(x) for x in saved[:7]]  # on their own, not as functions of one another
            out = _step(plan, *inputs)
            found = torch.autograd.grad(out, [inputs[i] for i in needed], grad, create_graph=True)
            grads: list[Tensor | None] = [None] * 7
            for i, one in zip(needed, found, strict=True):
                grads[i] = one
            return None, None, *grads
        grad_states = torch.empty_like(states, memory_format=torch.contiguous_format)
        totals = [torch.zeros_like(parameter) for parameter in parameters]
        width = len(kept) // len(ctx.chunks)
        for i, rows in enumerate(ctx.chunks):
            own = kept[i * width : (i + 1) * width]
            grad_states[rows] = _backward(plan, states[rows], grad[rows], parameters, own, totals)
        return None, None, grad_states, *totals


def _normed(
    plan: AttentionPlan | None, states: Tensor, stats: Sequence[Tensor] | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalised ``(B, C, N)``, with a plan also the means of tensors, and mean and inverse deviation."""
    count = states.shape[-1]
    whole = states.new_empty(*states.shape[:2], count + (0 if plan is None else len(plan.counts)))
    normed = whole[..., :count]
    if stats is None:
        mean = states.mean(1, keepdim=True)
        torch.sub(states, mean, out=normed)
        scale = (normed * normed).mean(1, keepdim=True).add_(_EPSILON).rsqrt_()
    else:
        mean, scale = stats
        torch.sub(states, mean, out=normed)
    normed.mul_(scale)
    if plan is not None:
        torch.cat(plan.means(normed), dim=-1, out=whole[..., count:])
    return whole, mean, scale


def _norm_gradient(grad: Tensor, normed: Tensor, scale: Tensor) -> Tensor:
    """Of the normalised states to that of the states, in place."""
    along = (grad * normed).mean(1, keepdim=True).neg_()
    grad.sub_(grad.mean(1, keepdim=True)).addcmul_(normed, along)
    return grad.mul_(scale)


def _attend(plan: AttentionPlan, projected: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Queries, keys and values ``(B, 3 C, N + tensors)`` to what entries read ``(B, C, N)``, and weights."""
    entries, sums = plan.cut(projected, 3), _Sums(plan, projected, 1)
    kept = []
    for group in plan.groups:
        query, key, value = group.read(entries)
        kept.append(torch.bmm(query, key.mT).mul_(query.shape[-1] ** -0.5).softmax(-1))
        found = torch.empty_like(query)
        _product(kept[-1], value, found)
        sums.add(group.write(found.unsqueeze(0), entries))
    whole = sums.whole()
    start = whole.shape[-1] - len(plan.counts)
    for i, part in enumerate(plan.split(whole)):
        part += whole[..., start + i, None]
    return whole[..., :start], kept


def _attention_gradient(
    plan: AttentionPlan, grad: Tensor, projected: Tensor, probabilities: Sequence[Tensor]
) -> Tensor:
    """Of what entries read ``(B, C, N)`` to queries, keys and values ``(B, 3 C, N + tensors)``."""
    totals = [part.sum(-1, keepdim=True) for part in plan.split(grad)]
    grads = plan.cut(torch.cat([grad, *totals], dim=-1), 1)
    entries, sums = plan.cut(projected, 3), _Sums(plan, projected, 3)
    for group, weights in zip(plan.groups, probabilities, strict=True):
        tokens = group.read(entries)
        query, key, value = tokens
        own = group.read(grads, total=True)[0]
        before = torch.bmm(own, value.mT)
        before = torch.ops.aten._softmax_backward_data(before, weights, -1, before.dtype)
        before.mul_(query.shape[-1] ** -0.5)
        found = torch.empty_like(tokens)
        for pairs, read, out in zip((before, before.mT, weights.mT), (key, query, own), found, strict=True):
            _product(pairs, read, out)
        sums.add(group.write(found, entries, share=True))
    return sums.whole()


def _product(pairs: Tensor, tokens: Tensor, out: Tensor) -> None:
    """``pairs @ tokens``, into rows or columns."""
    if out.is_contiguous():
        torch.bmm(pairs, tokens, out=out)
    else:
        torch.bmm(tokens.mT, pairs.mT, out=out.mT)


class _Sums:
    """Sums by entry, ``(B, kinds * C, N + tensors)``; what comes first is copied, so nothing is filled."""

    def __init__(self, plan: AttentionPlan, projected: Tensor, kinds: int) -> None:
        size, width, count = projected.shape
        self._whole = projected.new_empty(size, width // 3 * kinds, count)
        self._parts = plan.cut(self._whole, kinds)
        self._empty = set(range(len(self._parts)))

    def add(self, found: Sequence[tuple[int, Tensor]]) -> None:
        for i, values in found:
            if i in self._empty:
                self._parts[i].copy_(values)
                self._empty.remove(i)
            else:
                self._parts[i].add_(values)

    def whole(self) -> Tensor:
        for i in self._empty:  # tensors without axes
            self._parts[i].zero_()
        return self._whole


def _backward(
    plan: AttentionPlan,
    states: Tensor,
    grad: Tensor,
    parameters: Sequence[Tensor],
    kept: Sequence[Tensor],
    totals: Sequence[Tensor],
) -> Tensor:
    """The gradient of some networks' states; those of the parameters are added to ``totals``."""
    weight, _, weight_in, _, weight_out, _ = parameters
    mean, scale, projected, *probabilities, middle, mean_in, scale_in, hidden = kept
    size = len(states)

    def to_parameters(i: int, outputs: Tensor, inputs: Tensor) -> None:
        totals[i].add_(torch.bmm(outputs, inputs.mT).sum(0))
        totals[i + 1].add_(outputs.sum((0, 2)))

    to_parameters(4, grad, hidden)
    for_hidden = torch.bmm(weight_out.mT.expand(size, -1, -1), grad)
    torch.ops.aten.threshold_backward.grad_input(for_hidden, hidden, 0, grad_input=for_hidden)
    normed = _normed(None, middle, (mean_in, scale_in))[0]
    to_parameters(2, for_hidden, normed)
    for_normed = torch.bmm(weight_in.mT.expand(size, -1, -1), for_hidden)
    for_middle = _norm_gradient(for_normed, normed, scale_in).add_(grad)
    for_projected = _attention_gradient(plan, for_middle, projected, probabilities)
    whole = _normed(plan, states, (mean, scale))[0]
    to_parameters(0, for_projected, whole)
    for_whole = torch.bmm(weight.mT.expand(size, -1, -1), for_projected)
    count = states.shape[-1]
    for i, part in enumerate(plan.split(for_whole)):
        part.add_(for_whole[..., count + i, None], alpha=1 / part.shape[-1])
    return _norm_gradient(for_whole[..., :count], whole[..., :count], scale).add_(for_middle)
