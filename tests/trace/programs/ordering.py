"""Steps whose result depends on an order, or reduces: sorts, scans, shifts, indices, moments, transforms."""

import torch
import torch.nn.functional as F
from torch import Tensor

from programs.program import Program, Steps


def either(p: Program) -> int:
    """Tokens or channels."""
    return p.draw.choice((1, 2))


def largest_gathered(p: Program, a: Tensor, b: Tensor) -> Tensor:
    value, index = a.max(-1, keepdim=True)
    return b.gather(-1, index) + value + a


def kept_largest(p: Program, a: Tensor, b: Tensor) -> Tensor:
    kept = a.topk(min(2, a.shape[-1]), -1).indices
    return torch.zeros_like(a).scatter(-1, kept, a.gather(-1, kept))


def counted(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """Channels added up at places that a constant says."""
    index = torch.arange(a.shape[-1]).remainder(5).expand(a.shape)
    return a.new_zeros(*a.shape[:2], 5).scatter_add(-1, index, a)


STEPS: Steps = {
    "cumsum": lambda p, a, b: a.cumsum(either(p)),
    "cumprod": lambda p, a, b: a.cumprod(either(p)),
    "cummax": lambda p, a, b: a.cummax(either(p)).values,
    "logcumsumexp": lambda p, a, b: a.logcumsumexp(either(p)),
    "flip": lambda p, a, b: a.flip(either(p)),
    "roll": lambda p, a, b: a.roll(1, either(p)),
    "diff": lambda p, a, b: a.diff(dim=-1, prepend=a[..., -1:]),
    "sort": lambda p, a, b: a.sort(either(p)).values,
    "median": lambda p, a, b: a - a.median(-1, keepdim=True).values,
    "topk": lambda p, a, b: a.topk(min(3, a.shape[-1]), -1).values,
    "kept_largest": kept_largest,
    "argsort_gather": lambda p, a, b: b.gather(-1, a.argsort(-1)),
    "largest_gathered": largest_gathered,
    "take_along": lambda p, a, b: a.take_along_dim(b.argsort(1), 1),
    "counted": counted,
    "scattered": lambda p, a, b: torch.zeros_like(a).scatter(-1, b.argsort(-1), a),
    "bucketed": lambda p, a, b: a * torch.searchsorted(b.sort(-1).values.contiguous(), a.contiguous()),
    "unfold": lambda p, a, b: a.unfold(-1, 2, 1).sum(-1) if a.shape[-1] > 2 else None,
    "unfold_tokens": lambda p, a, b: F.pad(a, (0, 0, 0, 1)).unfold(1, 2, 1).flatten(2),
    "mean": lambda p, a, b: a + a.mean(either(p), keepdim=True),
    "product": lambda p, a, b: a + a.prod(-1, keepdim=True),
    "largest": lambda p, a, b: a - a.amax(either(p), keepdim=True),
    "logsumexp": lambda p, a, b: a - a.logsumexp(either(p), keepdim=True),
    "deviation": lambda p, a, b: a / (1 + a.std(either(p), keepdim=True)),
    "group_mean": lambda p, a, b: (
        None
        if a.shape[-1] % 2
        else (a.unflatten(-1, (2, -1)) - a.unflatten(-1, (2, -1)).mean(either(p) + 1, keepdim=True)).flatten(
            2
        )
    ),
    "normalize": lambda p, a, b: F.normalize(a, dim=either(p)),
    "pool_tokens": lambda p, a, b: F.max_pool1d(a.transpose(1, 2), 3, 1, 1).transpose(1, 2),
    "pool_channels": lambda p, a, b: F.avg_pool1d(a, 3, 1, 1),
    "resized": lambda p, a, b: F.interpolate(a.transpose(1, 2), size=a.shape[1]).transpose(1, 2),
    "fft_tokens": lambda p, a, b: torch.fft.fft(a, dim=1).real,
    "fft_channels": lambda p, a, b: torch.fft.irfft(torch.fft.rfft(a, dim=-1), n=a.shape[-1], dim=-1),
    "spectrum": lambda p, a, b: torch.fft.rfft(a, dim=1).abs().sum(1, keepdim=True) + a,
}
