"""Dropout of stacked networks, each with a probability and a random stream of its own."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

DROPOUT_LEVELS = 256


class StackedDropout:
    """Chooses the values that M networks drop; what one network drops depends on it alone.

    Args:
        probabilities: one for each network, multiples of 1/256.
        seeds: words of the seed of each network's stream.
    """

    def __init__(self, probabilities: Sequence[float], seeds: Sequence[Sequence[int]]) -> None:
        self._thresholds = torch.tensor([round(p * DROPOUT_LEVELS) for p in probabilities], dtype=torch.uint8)
        self._streams = [np.random.SFC64(np.random.SeedSequence(list(seed))) for seed in seeds]

    def drops(self, networks: int) -> bool:
        """Whether one of the first networks drops any value."""
        return bool(self._thresholds[:networks].any())

    def scales(self, networks: int, dtype: torch.dtype) -> Tensor:
        """``(networks,)``: what the first networks multiply the values by that they keep."""
        kept = DROPOUT_LEVELS - self._thresholds[:networks].to(torch.float64)
        return (DROPOUT_LEVELS / kept).to(dtype)

    def kept(self, networks: int, shape: Sequence[int]) -> Tensor:
        """Which values of ``(networks, *shape)`` the first networks keep now: 1 or 0 as uint8."""
        count = math.prod(shape)
        drawn = np.zeros((networks, -(-count // 8)), dtype=np.uint64)
        for row, stream, threshold in zip(drawn, self._streams, self._thresholds.tolist(), strict=False):
            if threshold:
                row[:] = stream.random_raw(len(row))
        # By numpy, and not as booleans: many times faster than torch's comparison and conversion.
        kept = drawn.view(np.uint8)[:, :count] >= self._thresholds[:networks, None].numpy()
        return torch.from_numpy(kept.view(np.uint8)).view(networks, *shape)

    def factors(self, networks: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """``(networks, *shape)``: the first networks multiply by these, 0 for dropped values."""
        scales = self.scales(networks, dtype).view(networks, *(1 for _ in shape))
        return self.kept(networks, shape).to(dtype) * scales
