"""Random weights of a specification."""

import torch
from torch import Tensor

from wsl.spec import WeightSpec


def random_weights(
    spec: WeightSpec,
    batch: int = 1,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float64,
) -> dict[str, Tensor]:
    """Standard normal weights ``(batch, *shape)``; running variances are uniform in [0.5, 1.5]."""
    weights = {}
    for name, tensor in spec.tensors.items():
        draw = torch.rand if name.endswith("running_var") else torch.randn
        weights[name] = draw((batch, *tensor.shape), generator=generator, dtype=dtype)
        if name.endswith("running_var"):
            weights[name] += 0.5
    return weights
