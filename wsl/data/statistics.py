"""Mean and standard deviation of each block of weights over the networks of a split."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

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
    moments: dict[str, tuple[int, float, float]] = {}
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
    if not moments:
        raise ValueError("there are no networks to take statistics of; the train split is empty.")
    means = {name: average for name, (_, average, _) in moments.items()}
    stds = {name: (squares / entries) ** 0.5 for name, (entries, _, squares) in moments.items()}
    return WeightStatistics(
        means, {name: std if std > _ROUNDING * abs(means[name]) else 0.0 for name, std in stds.items()}
    )


def zoo_statistics(zoo: Zoo, rows: np.ndarray, chunk: int = 1024) -> WeightStatistics:
    """:func:`weight_statistics` of some rows of a zoo, read ``chunk`` networks at a time."""
    parts = (rows[i : i + chunk] for i in range(0, len(rows), chunk))
    return weight_statistics(zoo.spec.split(zoo.weights(part)) for part in parts)


def _merge(a: tuple[int, float, float], b: tuple[int, float, float]) -> tuple[int, float, float]:
    count = a[0] + b[0]
    delta = b[1] - a[1]
    return count, a[1] + delta * b[0] / count, a[2] + b[2] + delta * delta * a[0] * b[0] / count
