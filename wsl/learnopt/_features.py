"""What learned optimizers see of each weight: its gradients so far, itself, and how far the training is."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from wsl.learnopt._entries import Entries
from wsl.learnopt._types import State

TIMESCALES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000)
"""Of :func:`step_encoding`, in updates."""


class Seen(NamedTuple):
    """The features of one update.

    Args:
        entries: of every weight ``(L, E, N)``, with the ``N`` weights as :class:`Entries` has them.
        shared: the same for all weights of a lane, ``(L, S)``.
        state: what the next update needs to know.
    """

    entries: Tensor
    shared: Tensor
    state: State


class OptimizerFeatures(nn.Module, ABC):
    """Base of all features; permuted along with the weights, as nothing is said of where a weight is.

    Args:
        entry_channels: how many of them every weight has.
    """

    shared_channels = len(TIMESCALES)

    def __init__(self, entry_channels: int) -> None:
        super().__init__()
        self.entry_channels = entry_channels

    @abstractmethod
    def init(self, entries: Entries, row: Tensor) -> State:
        """The state before the first update of weights ``(L, N)``."""

    @abstractmethod
    def forward(self, entries: Entries, values: Tensor, grads: Tensor, state: State, step: Tensor) -> Seen:
        """The features of an update.

        Args:
            values, grads: of all weights, ``(L, N)``.
            step: updates so far, ``(L,)``.
        """


class MomentumFeatures(OptimizerFeatures):
    """Gradient, value, and means of gradients over several times: 19 channels, 11 of them encode the step.

    Each over its root mean square over a block of one lane, so that neither the scale of the loss nor that of
    the weights matters.

    Args:
        decays: of the means; constants.
        floor: what mean squares are increased by.

    Source: Metz et al. 2020 (arXiv:2009.11243), as learned_optimization's ``MLPLOpt`` has them: their number
    is that of Zhou et al. 2024 (arXiv:2402.05232, appendix C.1). Deviates: a smaller floor.
    """

    decays: Tensor

    def __init__(
        self, decays: Sequence[float] = (0.1, 0.5, 0.9, 0.99, 0.999, 0.9999), floor: float = 1e-9
    ) -> None:
        super().__init__(2 + len(decays))
        check_decays(decays)
        self.floor = floor
        self.register_buffer("decays", torch.tensor(decays, dtype=torch.float64))

    def init(self, entries: Entries, row: Tensor) -> State:
        return {"momenta": row.new_zeros(len(row), len(self.decays), entries.count)}

    def forward(self, entries: Entries, values: Tensor, grads: Tensor, state: State, step: Tensor) -> Seen:
        momenta = moving_means(tensor_of(state, "momenta"), grads, self.decays)
        seen = torch.cat([grads.unsqueeze(1), values.unsqueeze(1), momenta], dim=1)
        return Seen(entries.normalise(seen, self.floor), step_encoding(step, values), {"momenta": momenta})


def step_encoding(step: Tensor, like: Tensor) -> Tensor:
    """``tanh(t / s - 1)`` for every timescale ``s``: ``(L,)`` to ``(L, 11)`` in the type of ``like``."""
    return torch.tanh(step.to(like.dtype).unsqueeze(1) / like.new_tensor(TIMESCALES) - 1)


def moving_means(means: Tensor, news: Tensor, decays: Tensor) -> Tensor:
    """``d m + (1 - d) x``: of ``(L, K, N)`` and ``(L, N)``, for all decays ``(K)`` or ``(L, K)``."""
    weights = decays.to(news.dtype).reshape(-1, decays.shape[-1], 1)
    return torch.lerp(news.unsqueeze(1), means, weights)


def tensor_of(state: State, name: str) -> Tensor:
    """The tensor of this name in a state."""
    found = state[name]
    assert isinstance(found, Tensor)
    return found


def state_of(state: State, name: str) -> State:
    """The state of this name in a state."""
    found = state[name]
    assert isinstance(found, dict)
    return found


def check_decays(decays: Sequence[float]) -> None:
    """Refuse decays that are not between 0 and 1, or none."""
    if not decays or not all(0 < decay < 1 for decay in decays):
        raise ValueError(f"decays are between 0 and 1, and at least one; got {list(decays)}.")
