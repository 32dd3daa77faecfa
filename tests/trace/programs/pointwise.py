"""Steps that act on each entry alone, or on two entries of the same place; constants and branches."""

import torch
import torch.nn.functional as F

from programs.program import Steps

STEPS: Steps = {
    "relu": lambda p, a, b: torch.relu(a),
    "leaky_relu": lambda p, a, b: F.leaky_relu(a, 0.1),
    "tanh": lambda p, a, b: torch.tanh(a),
    "sin": lambda p, a, b: torch.sin(a),
    "gelu": lambda p, a, b: F.gelu(a),
    "silu": lambda p, a, b: F.silu(a),
    "sigmoid": lambda p, a, b: torch.sigmoid(a),
    "square": lambda p, a, b: a * a,
    "cube": lambda p, a, b: a.pow(3),
    "abs": lambda p, a, b: a.abs(),
    "negative": lambda p, a, b: -a,
    "sign": lambda p, a, b: a.sign() + a,
    "clamp": lambda p, a, b: a.clamp(-0.5, 1.0),
    "prelu": lambda p, a, b: F.prelu(a.transpose(1, 2), p.weight(a.shape[-1])).transpose(1, 2),
    "add": lambda p, a, b: a + b,
    "multiply": lambda p, a, b: a * b,
    "divide": lambda p, a, b: a / (1 + b.abs()),
    "where": lambda p, a, b: torch.where(a > 0, b, a),
    "where_larger": lambda p, a, b: torch.where(a > b, a, -b),
    "maximum": lambda p, a, b: torch.maximum(a, b),
    "masked_fill": lambda p, a, b: a.masked_fill(b < 0, 0.25),
    "gated_by_mask": lambda p, a, b: a * (b > 0),
    "lerp": lambda p, a, b: torch.lerp(a, b, torch.sigmoid(a)),
    "addcmul": lambda p, a, b: torch.addcmul(a, b, b, value=0.5),
    "bias": lambda p, a, b: a + p.weight(a.shape[-1]),
    "gain": lambda p, a, b: a * p.weight(a.shape[-1]),
    "positions": lambda p, a, b: a + p.weight(a.shape[1], a.shape[-1]),
    "constant": lambda p, a, b: a * torch.linspace(0.5, 1, a.shape[-1], dtype=a.dtype),
    "constant_tokens": lambda p, a, b: a * torch.linspace(0.5, 1, a.shape[1], dtype=a.dtype)[:, None],
    "dropout": lambda p, a, b: F.dropout(a, 0.5, training=False),
    "branch": lambda p, a, b: a + 1 if a.sum() > 0.1 else a * 2,  # norms make sums of 0
    "item": lambda p, a, b: a * b.mean().item(),
    "numpy": lambda p, a, b: a + torch.from_numpy(a.detach().numpy().copy()),
    "float32": lambda p, a, b: a + a.to(torch.float64).square().to(a.dtype),
}
