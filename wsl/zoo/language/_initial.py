"""Initial weights of language models."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

INITIALISATIONS = ("default", "normal", "orthogonal")
"""``default`` is torch's own. With the others embeddings have the standard deviation 0.02 and biases are 0;
``normal`` weights have 0.02 too, as in GPT-2, and each gate's ``orthogonal`` weights are orthogonal."""

_NORMAL = 0.02


def initial_row(
    shapes: Mapping[str, tuple[int, ...]], initialisation: str, scale: float, generator: torch.Generator
) -> Tensor:
    """``(P,)`` float32: initial parameters of one network, one tensor after another.

    Args:
        shapes: of the parameters by their names in the modules of :mod:`wsl.models`.
        initialisation: one of :data:`INITIALISATIONS`.
        scale: multiplies all but the factors of normalisations, which start at 1.
    """
    parts = []
    for name, shape in shapes.items():
        tensor = torch.zeros(shape)
        if "norm" in name:
            tensor.fill_(float(name.endswith("weight")))
        elif initialisation == "default":
            _draw_default(name, tensor, shapes, generator)
        elif name.endswith(("embedding.weight", "position.weight")) or initialisation == "normal":
            if tensor.ndim > 1:
                tensor.normal_(std=_NORMAL, generator=generator)
        elif tensor.ndim > 1:
            for gate in tensor.split(_gate_rows(name, shapes)):
                nn.init.orthogonal_(gate, generator=generator)
        parts.append(tensor.flatten() if "norm" in name else tensor.flatten() * scale)
    return torch.cat(parts)


def _draw_default(
    name: str, tensor: Tensor, shapes: Mapping[str, tuple[int, ...]], generator: torch.Generator
) -> None:
    if name.startswith(("embedding", "position")):
        tensor.normal_(generator=generator)
    elif name.startswith("rnn."):
        bound = 1 / math.sqrt(shapes["rnn.weight_hh_l0"][1])
        tensor.uniform_(-bound, bound, generator=generator)
    elif name.endswith("in_proj_weight"):
        nn.init.xavier_uniform_(tensor, generator=generator)
    elif tensor.ndim > 1:
        nn.init.kaiming_uniform_(tensor, a=math.sqrt(5), generator=generator)
    elif "self_attn" not in name:  # torch starts the biases of attention at 0
        bound = 1 / math.sqrt(shapes[name.removesuffix("bias") + "weight"][1])
        tensor.uniform_(-bound, bound, generator=generator)


def _gate_rows(name: str, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Rows of a weight that belong together: those of one gate, of the queries, keys or values, or all."""
    if name.startswith("rnn."):
        return shapes["rnn.weight_hh_l0"][1]
    return shapes[name][1] if name.endswith("in_proj_weight") else shapes[name][0]
