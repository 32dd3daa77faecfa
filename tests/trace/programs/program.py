"""A module that runs a list of named steps on tensors ``(B, T, C)``."""

import random
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BATCH, TOKENS, INPUTS, OUTPUTS = 2, 4, 3, 3
LARGEST = 24


class Program(nn.Module):
    """Applies steps; each reads the newest value and an earlier one, and may reuse parameters.

    A step that does not apply to its operands is skipped. The last two values are the outputs, each after a
    linear layer; of some a sum over tokens (not of what is centred, which is zero but for rounding).

    Args:
        steps: the step of each place.
        seed: of the choice of operands and parameters.
    """

    def __init__(self, steps: Sequence["Step"], seed: int) -> None:
        super().__init__()
        self.steps, self.seed = steps, seed
        self.weights = nn.ParameterList()
        self.building = True
        with torch.no_grad():
            self(torch.randn(BATCH, TOKENS, INPUTS))
        self.building = False

    def forward(self, x: Tensor) -> list[Tensor]:
        self.draw, self.used = random.Random(self.seed), 0
        values = [F.linear(x, self.weight(8, INPUTS), self.weight(8))]
        for step in self.steps:
            like = [value for value in values if value.shape == values[-1].shape]
            value = step(self, values[-1], self.draw.choice(like))
            if value is not None and 1 <= value.shape[-1] <= LARGEST:
                values.append(value / 2)
        outputs = [F.linear(value, self.weight(OUTPUTS, value.shape[-1])) for value in values[-2:]]
        return [
            (output + output.square()).sum(1) if self.draw.random() < 0.5 else output for output in outputs
        ]

    def weight(self, *shape: int) -> Tensor:
        """A parameter: an earlier one of this shape, or else the next."""
        fitting = [w for w in list(self.weights)[: self.used] if w.shape == shape]
        if fitting and self.draw.random() < 0.3:
            return self.draw.choice(fitting)
        if self.building:
            self.weights.append(nn.Parameter(torch.randn(shape) / shape[-1] ** 0.5))
        self.used += 1
        return self.weights[self.used - 1]

    def divisor(self, size: int) -> int | None:
        """A random divisor of ``size`` that is neither 1 nor ``size``."""
        found = [k for k in range(2, size) if size % k == 0]
        return self.draw.choice(found) if found else None


Step = Callable[[Program, Tensor, Tensor], Tensor | None]
Steps = Mapping[str, Step]


def even(step: Step) -> Step:
    """``step``, skipped where the number of channels is odd."""
    return lambda p, a, b: None if a.shape[-1] % 2 else step(p, a, b)


def small(channels: int, step: Step) -> Step:
    """``step``, skipped where there are more than ``channels``."""
    return lambda p, a, b: None if a.shape[-1] > channels else step(p, a, b)
