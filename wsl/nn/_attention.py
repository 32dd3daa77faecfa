"""Attention by fused kernels that can be differentiated more than once."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """``softmax(q k^T / sqrt(C)) v`` by torch's fused kernel, with derivatives of any order.

    The gradients of fused kernels have no gradients themselves. So where a gradient is to be differentiated,
    as in meta-learning, it is that of the written-out product, which keeps all ``n * m`` weights; else that
    of the kernel, which runs a second time for it and keeps none. Compiled code calls the kernel itself:
    compilers of gradients do not differentiate them again.

    Shapes: ``(..., n, C)``, ``(..., m, C)`` and ``(..., m, C)`` to ``(..., n, C)``.
    """
    if torch.compiler.is_compiling():
        return scaled_dot_product_attention(query, key, value)
    attended: Tensor = _Attention.apply(query, key, value)
    return attended


class _Attention(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return scaled_dot_product_attention(query, key, value)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        # Gradients are recorded while a gradient is computed only if it shall be differentiated.
        function = _written_out if torch.is_grad_enabled() else scaled_dot_product_attention
        return torch.func.vjp(function, *ctx.saved_tensors)[1](*grad_outputs)


def _written_out(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
    return scores.softmax(-1) @ value
