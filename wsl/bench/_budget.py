"""How long a run trains: minutes of processor time, epochs or steps, all turned into a number of steps."""

from dataclasses import dataclass
from math import ceil
from typing import Literal

from wsl.bench._errors import BenchError

VALIDATIONS = 10
VALIDATIONS_OF_AN_EPOCH = 4  # more would cost slow encoders as much as their training


@dataclass(frozen=True)
class Length:
    """A run's number of steps, and how many lie between validations; the last step is validated."""

    steps: int
    interval: int


@dataclass(frozen=True)
class Budget:
    """What each run may use for training.

    Args:
        amount: how much; minutes are of processor time.
        unit: of what.

    Raises:
        BenchError: nothing, or a fraction of what cannot be divided.
    """

    amount: float
    unit: Literal["minutes", "epochs", "steps"]

    def __post_init__(self) -> None:
        if self.unit == "minutes" and not 0 < self.amount < float("inf"):
            raise BenchError(f"minutes is {self.amount}; expected processor time of training above 0.")
        if self.unit != "minutes" and (self.amount < 1 or self.amount != int(self.amount)):
            raise BenchError(f"{self.unit} is {self.amount}; expected a whole number from 1 on.")

    def __str__(self) -> str:
        unit = {"minutes": "CPU minutes"}.get(self.unit, self.unit)
        return f"{self.amount:g} {unit}"

    @property
    def measuring(self) -> float:
        """Processor time in seconds to time steps for: a fiftieth of the budget, from 1 to 10 s."""
        return min(10.0, max(1.0, self.amount * 60 / 50)) if self.unit == "minutes" else 0.0

    def length(self, seconds: float, batches: int) -> Length:
        """Steps that fit, given the seconds of a step and the steps of an epoch; at least one.

        Rounded down to a multiple of the interval between validations.
        """
        steps = {
            "minutes": self.amount * 60 / seconds,
            "epochs": self.amount * batches,
            "steps": self.amount,
        }[self.unit]
        whole = max(1, int(steps))
        often = max(2, ceil(VALIDATIONS_OF_AN_EPOCH * whole / batches))
        interval = whole // min(VALIDATIONS, often, whole)
        return Length(whole // interval * interval, interval)
