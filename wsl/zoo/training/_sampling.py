"""Hyperparameters that are drawn anew for every network."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TypeVar

import numpy as np

from wsl.zoo._errors import ZooError

T = TypeVar("T", int, float, str)


@dataclass(frozen=True)
class Range:
    """Numbers drawn evenly from ``low`` to ``high``.

    Args:
        low, high: the ends.
        log: draw their logarithms evenly; the ends are then positive.

    Raises:
        ZooError: ends that are not finite, in the wrong order, or not positive with ``log``.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ZooError(f"A range goes from {self.low} to {self.high}, expected finite ends in order.")
        if self.log and self.low <= 0:
            raise ZooError(f"A logarithmic range starts at {self.low}, expected a positive number.")

    def draw(self, generator: np.random.Generator) -> float:
        share = float(generator.random())
        if self.log:
            return float(math.exp(math.log(self.low) * (1 - share) + math.log(self.high) * share))
        return self.low * (1 - share) + self.high * share


Number = float | list[float] | Range
"""One value for all networks, a list to choose from, or a range to draw from."""


def draw_number(value: Number, generator: np.random.Generator) -> float:
    """A value for one network; takes one draw from the generator whatever ``value`` is."""
    if isinstance(value, Range):
        return value.draw(generator)
    return float(draw_choice(value, generator))


def draw_choice(value: T | Sequence[T], generator: np.random.Generator) -> T:
    """``value`` itself, or an entry of a list; takes one draw from the generator either way."""
    share = float(generator.random())
    if isinstance(value, int | float | str):
        return value
    return value[int(share * len(value))]


def check_number(name: str, value: Number, low: float, high: float, *, open_low: bool = False) -> None:
    """Raise ZooError unless all that can be drawn lies in [``low``, ``high``], without ``low`` if open."""
    ends = [value.low, value.high] if isinstance(value, Range) else _entries(value)
    fine = all(isinstance(end, int | float) and low <= end <= high for end in ends)
    if not ends or not fine or (open_low and low in ends):
        bracket = "(" if open_low else "["
        raise ZooError(f"{name} is {value}, expected numbers in {bracket}{low:g}, {high:g}].")


def check_whole(name: str, value: int | Sequence[int], low: int, high: float = math.inf) -> None:
    """Raise ZooError unless all that can be chosen are whole numbers in [``low``, ``high``]."""
    if not all_whole(value, low, high):
        above = "" if high == math.inf else f" to {high:g}"
        raise ZooError(f"{name} is {value}, expected whole numbers from {low}{above or ' on'}.")


def all_whole(value: object, low: int, high: float = math.inf) -> bool:
    """Whether this is a whole number in [``low``, ``high``], or some of them."""
    entries = _entries(value)
    return bool(entries) and all(isinstance(one, Integral) and low <= int(one) <= high for one in entries)


def check_choice(name: str, value: str | Sequence[str], allowed: Sequence[str]) -> None:
    """Raise ZooError unless every entry is one of ``allowed``."""
    if not (entries := _entries(value)) or any(entry not in allowed for entry in entries):
        raise ZooError(f"{name} is {value}, expected one or several of {', '.join(allowed)}.")


def as_list(value: T | Sequence[T]) -> list[T]:
    """A list of what can be chosen."""
    return [value] if isinstance(value, int | float | str) else list(value)


def _entries(value: object) -> list[object]:
    """The same of what may be anything."""
    return list(value) if isinstance(value, list | tuple) else [value]
