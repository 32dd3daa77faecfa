"""Steps that move entries: concatenations, slices, stacks, repeats, padding, indices."""

import torch
import torch.nn.functional as F
from torch import Tensor

from programs.program import Program, Steps, even


def shuffled(p: Program, a: Tensor, b: Tensor) -> Tensor | None:
    groups = p.divisor(a.shape[-1])
    return None if groups is None else a.unflatten(-1, (groups, -1)).transpose(-1, -2).flatten(2)


def stacked(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """A pair of values in one tensor, which is summed, flattened, mixed, or taken apart again."""
    pair = torch.stack([a, b], 2)
    way = p.draw.randrange(5)
    if way == 0:
        first, second = pair.unbind(2)
        return F.linear(first, p.weight(8, a.shape[-1])) + F.linear(second, p.weight(8, a.shape[-1]))
    if way == 1:
        return pair.flatten(2)
    if way == 2:
        return pair.softmax(2).flatten(2)
    if way == 3:
        return pair[:, :, 0] * pair[:, :, 1]
    return (pair * p.weight(2, 1)).sum(2)


def stacked_anywhere(p: Program, a: Tensor, b: Tensor) -> Tensor | None:
    summed = torch.stack([a, b], p.draw.randrange(4)).sum(p.draw.randrange(4))
    batch, tokens, _ = a.shape
    return None if summed.numel() % (batch * tokens) else summed.reshape(batch, tokens, -1)


def flattened(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """All tokens at once, read by a linear layer."""
    read = F.linear(a.flatten(1), p.weight(5, a.shape[1] * a.shape[2]))
    return read[:, None].expand(-1, a.shape[1], -1)


def constant_places(p: Program, a: Tensor, b: Tensor) -> Tensor:
    return a[..., torch.tensor([0, a.shape[-1] - 1])] * a[..., :1]


STEPS: Steps = {
    "cat": lambda p, a, b: torch.cat([a, b], -1),
    "cat_input": lambda p, a, b: torch.cat([a, torch.ones_like(a[..., :1]), b], -1),
    "cat_tokens": lambda p, a, b: torch.cat([a[:, :2], b[:, 2:]], 1),
    "slice": lambda p, a, b: a[..., 1 : 1 + max(1, a.shape[-1] // 2)],
    "stride": lambda p, a, b: a[..., ::2],
    "select": lambda p, a, b: a * a[..., p.draw.randrange(a.shape[-1]), None],
    "first_token": lambda p, a, b: a + b[:, :1],
    "halves": even(lambda p, a, b: torch.cat(a.chunk(2, -1)[::-1], -1)),
    "halves_added": even(lambda p, a, b: a.chunk(2, -1)[0] + torch.tanh(a.chunk(2, -1)[1])),
    "shuffle": shuffled,
    "stack": stacked,
    "stack_anywhere": stacked_anywhere,
    "unbind_tokens": lambda p, a, b: torch.stack([torch.tanh(t) for t in a.unbind(1)][::-1], 1),
    "flattened": flattened,
    "pad": lambda p, a, b: F.pad(a, (1, 2), value=1.0),
    "pad_tokens": lambda p, a, b: F.pad(a, (0, 0, 1, 0))[:, :-1],
    "pad_circular": lambda p, a, b: F.pad(a, (1, 1), mode="circular"),
    "repeat": lambda p, a, b: a.repeat(1, 1, 2),
    "repeat_interleave": lambda p, a, b: a.repeat_interleave(2, -1),
    "expand": lambda p, a, b: a[..., None].expand(*a.shape, 2).reshape(*a.shape[:2], -1),
    "expand_outside": lambda p, a, b: a[..., None, :].expand(*a.shape[:2], 2, -1).flatten(2),
    "constant_places": constant_places,
    "index_select": lambda p, a, b: a.index_select(1, torch.tensor([3, 1, 0, 1])),
    "masked_places": lambda p, a, b: a[..., torch.arange(a.shape[-1]) % 3 != 1],
    "tril": lambda p, a, b: torch.tril(a),
    "movedim": lambda p, a, b: a.movedim(-1, 0).reshape(a.shape[-1], -1).t().reshape(a.shape),
    "reshaped": even(lambda p, a, b: a.reshape(a.shape[0], 2 * a.shape[1], -1)[:, : a.shape[1]]),
}
