"""Maps of coordinates, absorbed by the first layer of a coordinate network."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from wsl.augment._base import AugmentError, Weights
from wsl.models import FourierMLP, Siren

_TOLERANCE = 1e-5  # of the frequencies, which are float32


def move_coordinates(
    module: nn.Module, weights: Mapping[str, Tensor], matrix: Tensor, shift: Tensor
) -> Weights:
    """Weights of networks that compute ``f(M x + t)`` where those given compute ``f(x)``, exactly.

    A SIREN's first layer takes any affine map: ``W (M x + t) + b = (W M) x + (W t + b)``. The frequencies
    ``F`` of a :class:`wsl.models.FourierMLP` are no weights. A shift turns each pair of sine and cosine by
    the angle ``2 pi F t``, which the first layer absorbs; a matrix must map the frequencies to themselves,
    up to order and signs, as the point reflection ``-1`` always does, and the matrices of a lattice do.

    Args:
        module: a network of the architecture; its weights do not matter.
        weights: ``(B, *shape)`` by name.
        matrix: ``M``, ``(B, n, n)`` for ``n`` coordinates.
        shift: ``t``, ``(B, n)``.

    Raises:
        AugmentError: no first layer of ``module`` can absorb the map, or its sizes do not fit.
    """
    count, size = coordinates_of(module), len(next(iter(weights.values())))
    if matrix.shape != (size, count, count) or shift.shape != (size, count):
        raise AugmentError(
            f"the map has a matrix {tuple(matrix.shape)} and a shift {tuple(shift.shape)}; expected "
            f"{(size, count, count)} and {(size, count)}: networks, then coordinates."
        )
    first = weights["layers.0.weight"]
    matrix, shift = matrix.to(first), shift.to(first)
    if isinstance(module, FourierMLP):
        turned = _turned(module.frequency_matrix.to(first), first, matrix, shift)
        return {**weights, "layers.0.weight": turned}
    moved = {**weights, "layers.0.weight": first @ matrix}
    if "layers.0.bias" in weights:
        moved["layers.0.bias"] = weights["layers.0.bias"] + (first @ shift.unsqueeze(2)).squeeze(2)
    elif shift.any():
        raise AugmentError(
            "SIRENs whose first layer has no bias cannot absorb a shift of their coordinates.\n"
            "  Leave TranslateInputs out; rotations and scalings need no bias."
        )
    return moved


def coordinates_of(module: nn.Module | None) -> int:
    """How many coordinates a network of this module reads.

    Raises:
        AugmentError: it is no coordinate network that this package knows.
    """
    if isinstance(module, Siren):
        first = module.layers[0]
        assert isinstance(first, nn.Linear)
        return first.in_features
    if isinstance(module, FourierMLP):
        return module.frequency_matrix.shape[1]
    given = "no module" if module is None else f"a {type(module).__name__}"
    raise AugmentError(
        f"maps of coordinates need a Siren or a FourierMLP and were given {given}.\n"
        "  Leave RotateInputs, TranslateInputs and ScaleInputs out for other networks."
    )


def _turned(frequencies: Tensor, first: Tensor, matrix: Tensor, shift: Tensor) -> Tensor:
    """Weights ``(B, h, 2 f)`` of sines and cosines of ``F (M x + t)``, as weights of those of ``F x``.

    Row ``i`` of ``F M`` is ``s_i`` times row ``p_i`` of ``F``; with the angle ``u_i = 2 pi (F t)_i``::

        sin(s θ + u) = s sin θ cos u + cos θ sin u        cos(s θ + u) = cos θ cos u - s sin θ sin u
    """
    wanted = frequencies @ matrix  # (B, f, n)
    count = len(frequencies)
    signed = torch.cat([frequencies, -frequencies]).expand(len(wanted), -1, -1)
    distance, nearest = (wanted.unsqueeze(2) - signed.unsqueeze(1)).abs().amax(3).min(2)
    if (distance > _TOLERANCE * frequencies.abs().max()).any():
        raise AugmentError(
            "FourierMLP cannot absorb this map of its coordinates: its frequencies are a constant that no "
            "weight changes, and the matrix does not map them to themselves.\n"
            "  Use TranslateInputs, which any Fourier features absorb, or SIRENs."
        )
    sign = torch.where(nearest < count, 1.0, -1.0).to(first).unsqueeze(1)
    place = nearest.remainder(count).unsqueeze(1).expand(-1, first.shape[1], -1)
    angle = 2 * math.pi * (shift @ frequencies.T).unsqueeze(1)  # (B, 1, f)
    cos, sin = angle.cos(), angle.sin()
    of_sines, of_cosines = first.split(count, dim=2)
    parts = (sign * (of_sines * cos - of_cosines * sin), of_sines * sin + of_cosines * cos)
    return torch.cat([torch.zeros_like(part).scatter_add(2, place, part) for part in parts], dim=2)
