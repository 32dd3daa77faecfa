"""Steps with parameters: layers, convolutions, norms, embeddings; parameters that are cut, viewed or tied."""

import torch
import torch.nn.functional as F
from torch import Tensor

from programs.program import TOKENS, Program, Steps, small


def grouped_convolution(p: Program, a: Tensor, b: Tensor) -> Tensor | None:
    groups = p.divisor(a.shape[-1])
    if groups is None:
        return None
    weight = p.weight(3 * groups, a.shape[-1] // groups, 3)
    return F.conv1d(a.transpose(1, 2), weight, padding=1, groups=groups).transpose(1, 2)


def transposed_convolution(p: Program, a: Tensor, b: Tensor) -> Tensor:
    return F.conv_transpose1d(a.transpose(1, 2), p.weight(a.shape[-1], 6, 3), padding=1).transpose(1, 2)


def grouped_linear(p: Program, a: Tensor, b: Tensor) -> Tensor | None:
    groups = p.divisor(a.shape[-1])
    if groups is None:
        return None
    weight = p.weight(groups, 3, a.shape[-1] // groups)
    return torch.einsum("btki,koi->btko", a.unflatten(-1, (groups, -1)), weight).flatten(2)


def experts(p: Program, a: Tensor, b: Tensor) -> Tensor:
    channels = a.shape[-1]
    hidden = torch.relu(torch.einsum("btc,ech->bteh", a, p.weight(3, channels, 4)))
    gates = F.linear(a, p.weight(3, channels)).softmax(-1)
    return torch.einsum("bteh,ehc,bte->btc", hidden, p.weight(3, 4, channels), gates)


def group_norm(p: Program, a: Tensor, b: Tensor) -> Tensor:
    channels = a.shape[-1]
    groups = p.divisor(channels) or 1
    return F.group_norm(a.transpose(1, 2), groups, p.weight(channels), p.weight(channels)).transpose(1, 2)


def batch_norm(p: Program, a: Tensor, b: Tensor) -> Tensor:
    channels = a.shape[-1]
    statistics = p.weight(channels), 0.5 + p.weight(channels).square()
    return F.batch_norm(
        a.transpose(1, 2), *statistics, p.weight(channels), p.weight(channels), training=False
    ).transpose(1, 2)


def batch_statistics(p: Program, a: Tensor, b: Tensor) -> Tensor:
    return F.batch_norm(a.transpose(1, 2), None, None, p.weight(a.shape[-1]), training=True).transpose(1, 2)


def embedding(p: Program, a: Tensor, b: Tensor) -> Tensor:
    return a + F.embedding(torch.tensor([[0, 2, 1, 2]]), p.weight(3, a.shape[-1]))


def one_hot(p: Program, a: Tensor, b: Tensor) -> Tensor:
    return a + F.one_hot(torch.tensor([1, 0, 2, 1]), 3).to(a.dtype) @ p.weight(3, a.shape[-1])


def tied(p: Program, a: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(a @ p.weight(6, a.shape[-1]).t()) @ p.weight(6, a.shape[-1])


def low_rank(p: Program, a: Tensor, b: Tensor) -> Tensor:
    return a @ p.weight(a.shape[-1], 2) @ p.weight(2, 5)


def square_weight(p: Program, a: Tensor) -> Tensor:
    return p.weight(a.shape[-1], a.shape[-1])


STEPS: Steps = {
    "linear": lambda p, a, b: F.linear(a, p.weight(6, a.shape[-1]), p.weight(6)),
    "wide": lambda p, a, b: F.linear(a, p.weight(8, a.shape[-1])),
    "residual": lambda p, a, b: a + torch.tanh(F.linear(a, square_weight(p, a))),
    "low_rank": low_rank,
    "tied": tied,
    "gram": lambda p, a, b: a @ (square_weight(p, a) @ square_weight(p, a).t()),
    "triangle": lambda p, a, b: a @ square_weight(p, a).triu(),
    "symmetric": lambda p, a, b: a @ (square_weight(p, a) + square_weight(p, a).t()),
    "diagonal": lambda p, a, b: a * square_weight(p, a).diagonal(),
    "parts": lambda p, a, b: a * p.weight(2 * a.shape[-1])[: a.shape[-1]] + p.weight(2 * a.shape[-1])[-1],
    "viewed_weight": lambda p, a, b: F.linear(a, p.weight(6 * a.shape[-1]).view(6, a.shape[-1])),
    "normed_weight": lambda p, a, b: F.linear(a, F.normalize(p.weight(6, a.shape[-1]), dim=1)),
    "soft_weight": lambda p, a, b: F.linear(a, p.weight(6, a.shape[-1]).softmax(p.draw.choice((0, 1)))),
    "grouped_linear": grouped_linear,
    "experts": experts,
    "tokens": lambda p, a, b: F.linear(a.transpose(1, 2), p.weight(TOKENS, TOKENS)).transpose(1, 2),
    "conv": lambda p, a, b: F.conv1d(a.transpose(1, 2), p.weight(6, a.shape[-1], 3), padding=1).transpose(
        1, 2
    ),
    "grouped": grouped_convolution,
    "depthwise": lambda p, a, b: F.conv1d(
        a.transpose(1, 2), p.weight(a.shape[-1], 1, 3), padding=1, groups=a.shape[-1]
    ).transpose(1, 2),
    "transposed_convolution": transposed_convolution,
    "kernel_over_channels": lambda p, a, b: F.conv1d(a, p.weight(TOKENS, TOKENS, 3), padding=1),
    "bilinear": small(8, lambda p, a, b: F.bilinear(a, b, p.weight(4, a.shape[-1], a.shape[-1]))),
    "layer_norm": lambda p, a, b: F.layer_norm(a, a.shape[-1:], p.weight(a.shape[-1]), p.weight(a.shape[-1])),
    "layer_norm_tokens": lambda p, a, b: F.layer_norm(a, a.shape[1:]),
    "rms_norm": lambda p, a, b: F.rms_norm(a, a.shape[-1:], p.weight(a.shape[-1])),
    "group_norm": group_norm,
    "instance_norm": lambda p, a, b: F.instance_norm(a.transpose(1, 2)).transpose(1, 2),
    "batch_norm": batch_norm,
    "batch_statistics": batch_statistics,
    "embedding": embedding,
    "one_hot": one_hot,
}
