"""Dropout of stacked networks, each with a probability and a random stream of its own."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_LEVELS = 2**16


class StackedDropout:
    """Chooses the values that M networks drop; what one network drops depends on it alone.

    Args:
        probabilities: one for each network, multiples of 1/65,536.
        seeds: words of the seed of each network's stream.
    """

    def __init__(self, probabilities: Sequence[float], seeds: Sequence[Sequence[int]]) -> None:
        self._thresholds = [round(p * _LEVELS) for p in probabilities]
        self._streams = [np.random.SFC64(np.random.SeedSequence(list(seed))) for seed in seeds]

    def scales(self, networks: int) -> list[float]:
        """What the first networks multiply the values by that they keep."""
        return [_LEVELS / (_LEVELS - threshold) for threshold in self._thresholds[:networks]]

    def dropped(self, x: Tensor, networks: int) -> Tensor | None:
        """Which values the first ``networks`` of the stack drop now; None if none of them drops any.

        Args:
            x: ``(B, networks * C, ...)``, channels last in memory.

        Returns:
            Booleans of the shape and layout of ``x``.
        """
        if not any(self._thresholds[:networks]):
            return None
        B, C, *spatial = x.shape
        mask = torch.zeros((B, *spatial, networks, C // networks), dtype=torch.bool)
        for network in range(networks):
            if self._thresholds[network]:
                drawn = _uniform(self._streams[network], (B, *spatial, C // networks))
                mask[..., network, :] = torch.from_numpy(drawn < self._thresholds[network])
        return mask.flatten(-2).movedim(-1, 1)


def _uniform(stream: np.random.SFC64, shape: Sequence[int]) -> np.ndarray:
    """16-bit integers of some shape, four from each draw of the generator."""
    count = int(np.prod(shape))
    return stream.random_raw(-(-count // 4)).view(np.uint16)[:count].reshape(shape)
