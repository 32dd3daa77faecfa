"""What is compared: optimizers tuned on a grid of rates and schedules, and learned ones as they are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wsl.learnopt import SGD, Adam, AdamW, Muon, Optimizer, Schedule, State, Tensors, constant, cosine, linear

_RATE = "log_rate"
_WARMUP = 20  # a twentieth of the horizon

SCHEDULES: Mapping[str, Callable[[int], Schedule]] = {
    "constant": lambda horizon: constant(),
    "cosine": lambda horizon: cosine(horizon),
    "linear": lambda horizon: linear(horizon, horizon // _WARMUP),
}
"""From the horizon to the factors of the rate; ``linear`` begins with a warm-up."""


class Scheduled(Optimizer):
    """An optimizer whose lanes have rates and schedules of their own.

    Where its parts have rates, too, they move in proportion.

    Args:
        optimizer: with a ``log_rate``, and without a schedule.
        rates: ``(L,)``.
        schedules: of each lane.
    """

    def __init__(self, optimizer: Optimizer, rates: Tensor, schedules: Sequence[Schedule]) -> None:
        super().__init__()
        own = dict(optimizer.named_parameters())
        names = [name for name in own if name.rpartition(".")[2] == _RATE]
        shift = rates.double().log() - own[_RATE].detach()
        self.optimizer, self.schedules = optimizer, list(schedules)
        self.thetas = {name: own[name].detach() + shift for name in names}

    def init(self, params: Tensors) -> State:
        return self.optimizer.init(params)

    def update(
        self, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        kinds = list(dict.fromkeys(self.schedules))
        each = torch.stack([kind(step) for kind in kinds])
        lanes = torch.arange(len(step))
        factors = each[torch.tensor([kinds.index(kind) for kind in self.schedules]), lanes].log()
        thetas = {name: value + factors for name, value in self.thetas.items()}
        return self.optimizer.update_each(thetas, grads, state, params, step, loss)


@dataclass(frozen=True)
class TunedRival:
    """An optimizer, and what its rate and schedule are chosen from on each task.

    Args:
        name: in tables.
        make: gives it.
        rates: in rising order.
        schedules: names in :data:`SCHEDULES`.
    """

    name: str
    make: Callable[[], Optimizer]
    rates: tuple[float, ...]
    schedules: tuple[str, ...] = tuple(SCHEDULES)

    @property
    def grid(self) -> list[tuple[float, str]]:
        """All choices."""
        return [(rate, schedule) for schedule in self.schedules for rate in self.rates]

    @property
    def config(self) -> dict[str, object]:
        """What tells this rival from others of its name."""
        optimizer = self.make()
        values = {name: float(value.detach()) for name, value in optimizer.named_parameters()}
        return {"kind": type(optimizer).__name__, "values": values, "grid": self.grid}

    def at(self, settings: Sequence[tuple[float, str]], horizon: int) -> Optimizer:
        """The optimizer with a rate and a schedule for each lane."""
        made = {name: SCHEDULES[name](horizon) for name in {name for _, name in settings}}
        rates = torch.tensor([rate for rate, _ in settings], dtype=torch.float64)
        return Scheduled(self.make(), rates, [made[name] for _, name in settings])

    def coarse(self) -> "TunedRival":
        """Three rates and two schedules of the grid, for smoke tests."""
        rates = self.rates[:: max(1, len(self.rates) // 3)][:3]
        return TunedRival(self.name, self.make, rates, self.schedules[:2])


@dataclass(frozen=True)
class LearnedRival:
    """A learned optimizer.

    Args:
        name: in tables.
        optimizer: on the architecture that it was trained on.
        source: where it comes from, for messages.
        digest: of its file.
    """

    name: str
    optimizer: Optimizer
    source: str
    digest: str

    @property
    def config(self) -> dict[str, object]:
        """What tells this rival from others of its name."""
        return {"file": self.digest}


Rival = TunedRival | LearnedRival


def _rates(first: int, last: int) -> tuple[float, ...]:
    """Three in each power of ten, from ``10^first`` to ``10^last``."""
    return tuple(float(f"{10 ** (third / 3):.2g}") for third in range(3 * first, 3 * last + 1))


TUNED: Mapping[str, TunedRival] = {
    rival.name: rival
    for rival in (
        TunedRival("SGDM", lambda: SGD(0.1, momentum=0.9), _rates(-4, 1)),
        TunedRival("Adam", Adam, _rates(-4, 1)),
        TunedRival("AdamW", AdamW, _rates(-4, 1)),
        TunedRival("Muon", Muon, _rates(-4, 1)),
    )
}
