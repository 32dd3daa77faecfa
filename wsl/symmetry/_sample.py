"""Random elements of the symmetry group."""

import math

import torch
from torch import Tensor

from wsl.spec import WeightSpec
from wsl.symmetry._action import Action, sizes_of


def sample(
    spec: WeightSpec,
    batch: int,
    *,
    permute: bool = True,
    scale: bool = False,
    linear: bool = False,
    bound: float = 4.0,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Action:
    """Draw ``batch`` independent group elements.

    Args:
        permute: draw a uniform permutation of every hidden axis, for each member of a family.
        scale: draw factors of every scaling: signs with equal odds, positive factors log-uniform in
            ``[1 / bound, bound]``; for linear ones, these with random signs.
        linear: draw matrices for linear scalings: rotations times factors as above times rotations.
        bound: largest factor, at least 1.
        generator: source of randomness, on ``device``; torch's global generator of that device if not given.
        device: where the element lives; the generator's device, else the CPU, if not given.
        dtype: of the scales; torch's default if not given. The group laws hold to this precision.
    """
    if bound < 1:
        raise ValueError(f"bound is {bound}; positive factors are drawn from [1 / bound, bound], bound >= 1.")
    device = device or (generator.device if generator is not None else "cpu")
    dtype = dtype or torch.get_default_dtype()

    def signs(shape: tuple[int, ...]) -> Tensor:
        return (1 - 2 * torch.randint(0, 2, shape, generator=generator, device=device)).to(dtype)

    def factors(shape: tuple[int, ...]) -> Tensor:
        uniform = torch.rand(shape, generator=generator, device=device, dtype=dtype)
        return ((2 * uniform - 1) * math.log(bound)).exp()

    def rotations(shape: tuple[int, ...]) -> Tensor:
        normal = torch.randn(
            (*shape, shape[-1]), generator=generator, device=device, dtype=torch.float64
        )  # linear algebra needs this precision, whatever the dtype of the weights
        return torch.linalg.qr(normal).Q

    permutations: dict[str, Tensor] = {}
    scales: dict[int, Tensor] = {}
    for axis in spec.hidden_axes if permute else ():
        # float64 keys: ties, which would favour the identity, do not occur
        shape = (batch, *sizes_of(spec, axis.name))
        keys = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
        permutations[axis.name] = keys.argsort(dim=-1)
    for index, scaling in enumerate(spec.scalings):
        shape = (batch, *sizes_of(spec, scaling.axis))
        if scaling.kind == "linear" and linear:
            left, right = rotations(shape), rotations(shape)
            scales[index] = (left * factors(shape).double().unsqueeze(-2) @ right).to(dtype)
        elif scale and scaling.kind == "linear":
            scales[index] = signs(shape) * factors(shape)
        elif scale:
            scales[index] = signs(shape) if scaling.kind == "sign" else factors(shape)
    return Action(permutations, scales)
