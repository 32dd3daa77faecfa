"""Stacked Transformer language models."""

from collections.abc import Callable, Mapping

from torch import Tensor
from torch.nn import functional as F

from wsl.zoo.language._stack import LanguageStack, stacked_linear, stacked_rows
from wsl.zoo.training import StackedDropout

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu}


class TransformerStack(LanguageStack):
    """Stacked :class:`wsl.models.CharTransformer`."""

    def arrange(self, tokens: Tensor) -> Tensor:
        return tokens.contiguous()

    def features(
        self, parameters: Mapping[str, Tensor], tokens: Tensor, dropout: StackedDropout | None = None
    ) -> Tensor:
        M, B, L = tokens.shape
        p, activation = parameters, _ACTIVATIONS[self.arguments["activation"]]

        def drop(x: Tensor) -> Tensor:
            if dropout is None or not dropout.drops(M):
                return x
            return x * dropout.factors(M, x.shape[1:], x.dtype)

        x = stacked_rows(p["embedding.weight"], tokens) + p["position.weight"][:, None, :L]
        x = drop(x.flatten(1, 2))
        for block in range(self.arguments["blocks"]):
            name = f"blocks.{block}."
            attention = f"{name}self_attn."
            qkv = _linear_of_norm(
                x, p, f"{name}norm1", p[f"{attention}in_proj_weight"], p[f"{attention}in_proj_bias"]
            )
            parts = qkv.view(M * B, L, 3, self.arguments["heads"], -1).permute(2, 0, 3, 1, 4)
            query, key, value = parts.unbind(0)
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            mixed = mixed.transpose(1, 2).reshape(x.shape)
            out = stacked_linear(mixed, p[f"{attention}out_proj.weight"], p[f"{attention}out_proj.bias"])
            x = x + drop(out)
            h = _linear_of_norm(x, p, f"{name}norm2", p[f"{name}linear1.weight"], p[f"{name}linear1.bias"])
            out = stacked_linear(activation(h), p[f"{name}linear2.weight"], p[f"{name}linear2.bias"])
            x = x + drop(out)
        normal = F.layer_norm(x, x.shape[-1:])
        return normal * p["norm.weight"][:, None] + p["norm.bias"][:, None]


def _linear_of_norm(
    x: Tensor, parameters: Mapping[str, Tensor], norm: str, weight: Tensor, bias: Tensor
) -> Tensor:
    """A linear layer of a layer normalisation, whose factors and offsets are taken into the layer."""
    factor, offset = parameters[f"{norm}.weight"], parameters[f"{norm}.bias"]
    bias = bias + (weight @ offset[..., None]).squeeze(-1)
    return stacked_linear(F.layer_norm(x, x.shape[-1:]), weight * factor[:, None], bias)
