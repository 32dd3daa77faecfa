"""Mean and standard deviation of each block of weights, or kind of blocks, over the networks of a split."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from wsl.encoders import WEIGHT_KINDS, weight_kinds
from wsl.spec import WeightSpec
from wsl.zoo import Zoo

_ROUNDING = 1e-13  # what float64 leaves of the deviations of equal entries, as a share of their mean


@dataclass(frozen=True)
class WeightStatistics:
    """One mean and one standard deviation for each block of a spec (each tensor, if it is no concatenation).

    A whole block shares them: statistics of single entries would break the permutation symmetry.

    Attributes:
        mean: by block key.
        std: by block key; 0 where all entries are equal. Encoders only centre such a block.
    """

    mean: Mapping[str, float]
    std: Mapping[str, float]


def weight_statistics(batches: Iterable[Mapping[str, Tensor]]) -> WeightStatistics:
    """Statistics of all entries of each block, in one pass and in float64.

    Args:
        batches: blocks ``(B, *view)`` by key, as ``spec.split`` cuts them; their sizes ``B`` may differ.

    Returns:
        Mean and population standard deviation (the divisor is the number of entries).

    Raises:
        ValueError: there are no networks, or a block holds values that are not finite.

    Source: Chan, Golub, LeVeque 1979, pairwise update of mean and squared deviations.
    """
    return _statistics(_moments(batches))


def mixed_statistics(groups: Iterable[tuple[WeightSpec, Mapping[str, Tensor]]]) -> WeightStatistics:
    """Statistics of each kind of blocks (:func:`wsl.encoders.weight_kinds`) over any architectures.

    Kinds that do not occur have those of their role, or else of all weights: they may occur elsewhere.

    Args:
        groups: specifications, and raw weights ``(B, *shape)`` by name.

    Returns:
        Mean and population standard deviation by kind, of all :data:`wsl.encoders.WEIGHT_KINDS`.

    Raises:
        ValueError: as :func:`weight_statistics`.
    """
    found = _moments(
        {kind: block}
        for spec, weights in groups
        for kind, block in zip(weight_kinds(spec), spec.split(weights).values(), strict=True)
    )
    filled = {}
    for kind in WEIGHT_KINDS if found else ():
        role = kind.partition(" ")[0]
        alike = [own for other, own in found.items() if other.partition(" ")[0] == role]
        filled[kind] = found[kind] if kind in found else reduce(_merge, alike or found.values())
    return _statistics(filled)


def by_block(spec: WeightSpec, statistics: WeightStatistics) -> WeightStatistics:
    """Statistics by kind as those of the blocks of one architecture."""
    kinds = dict(zip((ref.key for ref in spec.blocks), weight_kinds(spec), strict=True))
    return WeightStatistics(
        {key: statistics.mean[kind] for key, kind in kinds.items()},
        {key: statistics.std[kind] for key, kind in kinds.items()},
    )


def zoo_statistics(zoo: Zoo, rows: np.ndarray, chunk: int = 1024) -> WeightStatistics:
    """:func:`weight_statistics` of some rows of a zoo, read ``chunk`` networks at a time."""
    parts = (rows[i : i + chunk] for i in range(0, len(rows), chunk))
    return weight_statistics(zoo.spec.split(zoo.weights(part)) for part in parts)


_Moments = tuple[
    int, float, float
]  # of a set of numbers: how many, their mean, the sum of squared deviations


def _moments(batches: Iterable[Mapping[str, Tensor]]) -> dict[str, _Moments]:
    moments: dict[str, _Moments] = {}
    for blocks in batches:
        for name, block in blocks.items():
            values = block.detach().to(torch.float64)
            count, mean = values.numel(), float(values.mean())
            if not np.isfinite(mean):
                raise ValueError(
                    f"{name} holds values that are not finite, so it has no mean and deviation.\n"
                    "  Find the networks with `python -m wsl zoo verify FILE` and build the zoo anew "
                    "without them."
                )
            deviations = float((values - mean).square().sum())
            moments[name] = _merge(moments.get(name, (0, 0.0, 0.0)), (count, mean, deviations))
    return moments


def _statistics(moments: Mapping[str, _Moments]) -> WeightStatistics:
    if not moments:
        raise ValueError("there are no networks to take statistics of; the train split is empty.")
    means = {name: average for name, (_, average, _) in moments.items()}
    stds = {name: (squares / entries) ** 0.5 for name, (entries, _, squares) in moments.items()}
    return WeightStatistics(
        means, {name: std if std > _ROUNDING * abs(means[name]) else 0.0 for name, std in stds.items()}
    )


def _merge(a: _Moments, b: _Moments) -> _Moments:
    count = a[0] + b[0]
    delta = b[1] - a[1]
    return count, a[1] + delta * b[0] / count, a[2] + b[2] + delta * delta * a[0] * b[0] / count
