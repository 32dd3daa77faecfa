"""Memory that one step of a training hands to the next."""

import math
from collections.abc import Sequence

from torch import Tensor


class Workspace:
    """Tensors by name, whose memory is kept: fresh memory costs a small step more than what it computes."""

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    def take(self, name: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """A contiguous tensor of the type of ``like``, without values, until the name is taken again."""
        count = math.prod(shape)
        kept = self._kept.get(name)
        if kept is None or kept.numel() < count or kept.dtype != like.dtype:
            kept = self._kept[name] = like.new_empty(count)
        return kept[:count].view(tuple(shape))
