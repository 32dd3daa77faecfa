"""Four optimizers as one rule whose constants differ from network to network."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class _Constants(NamedTuple):
    """``m = decay * m + gain * g``; ``v = square_decay * v + (1 - square_decay) * g^2``;
    ``w -= rate * m' / (adaptive * sqrt(v') + offset)``; primes correct the start from 0 if ``corrected``.
    """

    decay: float
    gain: float
    square_decay: float
    adaptive: float
    offset: float
    corrected: bool


OPTIMIZERS = {
    "sgd": _Constants(0.0, 1.0, 1.0, 0.0, 1.0, False),
    "momentum": _Constants(0.9, 1.0, 1.0, 0.0, 1.0, False),
    "adam": _Constants(0.9, 1 - 0.9, 0.999, 1.0, 1e-8, True),
    "rmsprop": _Constants(0.0, 1.0, 0.99, 1.0, 1e-8, False),
}
"""Name -> constants; each rule equals the class of ``torch.optim`` with its defaults, momentum 0.9."""


class StackedOptimizer:
    """Steps M networks, the rows of an ``(M, P)`` matrix, each with its own rule, rate and weight decay.

    Args:
        optimizers: a name of :data:`OPTIMIZERS` for each row.
        learning_rates, weight_decays: one for each row.
        rows: the matrix that :meth:`step` changes in place.
    """

    def __init__(
        self,
        optimizers: Sequence[str],
        learning_rates: Sequence[float],
        weight_decays: Sequence[float],
        rows: Tensor,
    ) -> None:
        self._rows = rows
        self._mean, self._square = torch.zeros_like(rows), torch.zeros_like(rows)
        rules = [OPTIMIZERS[name] for name in optimizers]

        def column(values: Sequence[float]) -> Tensor:
            return torch.tensor(values, dtype=torch.float64)[:, None]

        self._rate, self._weight_decay = column(learning_rates), column(weight_decays).to(rows)
        self._decay = column([rule.decay for rule in rules])
        self._square_decay = column([rule.square_decay for rule in rules])
        self._gain = column([rule.gain for rule in rules]).to(rows)
        self._square_gain = (1 - self._square_decay).to(rows)
        self._adaptive = column([rule.adaptive for rule in rules])
        self._offset = column([rule.offset for rule in rules]).to(rows)
        self._corrected = torch.tensor([rule.corrected for rule in rules])[:, None]
        self._step = 0

    def step(self, gradient: Tensor) -> None:
        """Step the first ``n`` networks by their gradient ``(n, P)``, which it overwrites; ``n`` may fall."""
        self._step += 1
        n = len(gradient)
        rows, mean, square = self._rows[:n], self._mean[:n], self._square[:n]
        one = torch.ones((), dtype=torch.float64)
        first = torch.where(self._corrected[:n], 1 - self._decay[:n] ** self._step, one)
        second = torch.where(self._corrected[:n], 1 - self._square_decay[:n] ** self._step, one)
        gradient.addcmul_(rows, self._weight_decay[:n])
        mean.mul_(self._decay[:n].to(rows)).addcmul_(gradient, self._gain[:n])
        square.mul_(self._square_decay[:n].to(rows)).addcmul_(gradient.square_(), self._square_gain[:n])
        scale = (self._adaptive[:n] / second.sqrt()).to(rows)
        divisor = torch.sqrt(square, out=gradient).mul_(scale).add_(self._offset[:n])
        rows.sub_(torch.div(mean, divisor, out=gradient).mul_((self._rate[:n] / first).to(rows)))
