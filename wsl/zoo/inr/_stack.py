"""Many networks of one architecture as one matrix, a row a network, and what fitting needs of them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor

from wsl.zoo.inr._points import Points


class NetworkStack(ABC):
    """Computes with M networks at once, whose parameters are the rows of an ``(M, P)`` matrix.

    Args:
        widths: input features of the first layer, hidden widths, output channels. Parameters are the weights
            ``(n_out, n_in)`` and biases ``(n_out,)`` of the layers in turn, as in the state dict.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        self.widths = tuple(widths)
        self.shapes: list[tuple[int, ...]] = []
        for n_in, n_out in zip(self.widths, self.widths[1:], strict=False):
            self.shapes += [(n_out, n_in), (n_out,)]
        self.parameters = sum(math.prod(shape) for shape in self.shapes)

    def tensors(self, rows: Tensor) -> list[Tensor]:
        """Views of an ``(M, P)`` matrix, one a parameter: ``(M, *shape)``."""
        views, start = [], 0
        for shape in self.shapes:
            stop = start + math.prod(shape)
            views.append(rows[:, start:stop].unflatten(1, shape))
            start = stop
        return views

    @abstractmethod
    def outputs(self, rows: Tensor, points: Points) -> Tensor:
        """Outputs at points: ``(M, C, points)``."""

    @abstractmethod
    def gradient(self, rows: Tensor, points: Points, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Mean squared error of each network and its gradient.

        Args:
            rows: ``(M, P)``.
            targets: ``(M, C, points)``.

        Returns:
            Errors ``(M,)`` and gradients ``(M, P)``; each network's error only depends on its own row.
        """
