"""Initial weights of classifiers."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

INITIALISATIONS = ("default", "he_normal", "glorot_normal", "normal", "truncated_normal", "orthogonal")
"""``default`` is torch's own, biases included; the standard deviation of both normal ones is 0.05."""

_NORMAL, _EMBEDDING = 0.05, 0.02


def initial_row(
    shapes: Mapping[str, tuple[int, ...]], initialisation: str, scale: float, generator: torch.Generator
) -> Tensor:
    """``(P,)`` float32: initial parameters of one network, one tensor after another.

    Args:
        shapes: of the parameters by name. ``x.bias`` goes with ``x.weight``; a weight of one dimension is a
            factor and starts at 1; those with other names, such as position embeddings, start as normal
            values of standard deviation 0.02.
        initialisation: one of :data:`INITIALISATIONS`.
        scale: multiplies all but factors.
    """
    parts = []
    for name, shape in shapes.items():
        tensor = torch.zeros(shape)
        if not name.endswith(("weight", "bias")):
            tensor.normal_(std=_EMBEDDING, generator=generator)
        elif len(shape) > 1:
            _draw_weight(tensor, initialisation, generator)
        elif name.endswith("weight"):
            parts.append(torch.ones(shape))
            continue
        elif initialisation == "default":
            weight = shapes[name.removesuffix("bias") + "weight"]
            if len(weight) > 1:
                bound = 1 / math.sqrt(math.prod(weight[1:]))
                tensor.uniform_(-bound, bound, generator=generator)
        parts.append(tensor.flatten() * scale)
    return torch.cat(parts)


def _draw_weight(weight: Tensor, initialisation: str, generator: torch.Generator) -> None:
    if initialisation == "default":
        nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
    elif initialisation == "he_normal":
        nn.init.kaiming_normal_(weight, nonlinearity="relu", generator=generator)
    elif initialisation == "glorot_normal":
        nn.init.xavier_normal_(weight, generator=generator)
    elif initialisation == "orthogonal":
        nn.init.orthogonal_(weight, generator=generator)
    elif initialisation == "truncated_normal":
        bound = 2 * _NORMAL
        nn.init.trunc_normal_(weight, std=_NORMAL, a=-bound, b=bound, generator=generator)
    else:
        assert initialisation == "normal"
        weight.normal_(std=_NORMAL, generator=generator)
