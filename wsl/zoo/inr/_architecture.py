"""Architectures of INRs that the builder fits: SIREN and ReLU networks on Fourier features."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from wsl.models import FourierMLP, Siren
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.inr._fourier_stack import FourierStack
from wsl.zoo.inr._siren_stack import SirenStack
from wsl.zoo.inr._stack import NetworkStack


class InrArchitecture(ABC):
    """One architecture of coordinate networks. The signal is ``output * output_scale + output_offset``."""

    output_offset: float
    output_scale: float
    module: ClassVar[type[Siren] | type[FourierMLP]]

    def forward_definition(
        self, grid: tuple[int, ...], channels: int, *, clipped: bool = True
    ) -> ForwardDefinition:
        """How a zoo rebuilds these networks, and renders them on a grid."""
        return ForwardDefinition(
            f"wsl.models:{self.module.__name__}",
            self.arguments(len(grid), channels),
            grid,
            self.output_offset,
            self.output_scale,
            channels,
            clipped=clipped,
        )

    def outputs_of(self, signals: Tensor) -> Tensor:
        """What networks must say to hold these signals."""
        return (signals - self.output_offset) / self.output_scale

    @abstractmethod
    def arguments(self, inputs: int, channels: int) -> dict[str, Any]:
        """Of the module, for points of ``inputs`` coordinates and signals of ``channels``."""

    @abstractmethod
    def stack(self, inputs: int, channels: int) -> NetworkStack:
        """Computes with many of these networks at once."""

    @abstractmethod
    def initial_rows(self, seeds: Sequence[int], inputs: int, channels: int) -> Tensor:
        """Initial parameters ``(len(seeds), P)``; each row depends on its own seed alone."""


@dataclass(frozen=True)
class SirenConfig(InrArchitecture):
    """SIREN, see :class:`wsl.models.Siren`.

    Args:
        hidden: widths of the hidden layers.
        w0, first_w0: factors inside the sines; ``first_w0`` is ``w0`` if not given.
        initial_scale: multiplies the initial weights of all layers but the first; 1 is the paper's. Below 1,
            what a network learned outweighs what it was drawn with: encoders read such weights more easily.
        initial_bias_scale: multiplies all initial biases, to the same end; by default they start at 0.
        output_offset, output_scale: the signal is ``output * output_scale + output_offset``.

    Raises:
        ZooError: a value outside its range.
    """

    hidden: tuple[int, ...] = (32, 32)
    w0: float = 20.0
    first_w0: float | None = None
    initial_scale: float = 0.3
    initial_bias_scale: float = 0.0
    output_offset: float = 0.5
    output_scale: float = 1.0
    module = Siren

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", _checked_widths(self.hidden))
        for name in ("w0", "first_w0", "initial_scale", "output_scale"):
            _check_positive(name, getattr(self, name))
        if not (self.initial_bias_scale >= 0 and math.isfinite(self.initial_bias_scale)):
            raise ZooError(
                f"architecture.initial_bias_scale is {self.initial_bias_scale}, expected 0 or more."
            )

    def stack(self, inputs: int, channels: int) -> SirenStack:
        return SirenStack(inputs, self.hidden, channels, self.w0, self._first_w0)

    def initial_rows(self, seeds: Sequence[int], inputs: int, channels: int) -> Tensor:
        rows = _drawn_rows(Siren(**self.arguments(inputs, channels)), seeds)
        tensors = self.stack(inputs, channels).tensors(rows)
        for weight in tensors[2::2]:
            weight.mul_(self.initial_scale)
        for bias in tensors[1::2]:
            bias.mul_(self.initial_bias_scale)
        return rows

    @property
    def _first_w0(self) -> float:
        return self.w0 if self.first_w0 is None else self.first_w0

    def arguments(self, inputs: int, channels: int) -> dict[str, Any]:
        return {
            "in_features": inputs,
            "hidden": list(self.hidden),
            "out_features": channels,
            "w0": self.w0,
            "first_w0": self._first_w0,
        }


@dataclass(frozen=True)
class FourierConfig(InrArchitecture):
    """ReLU network on Fourier features, see :class:`wsl.models.FourierMLP`.

    Args:
        hidden: widths of the hidden layers.
        frequencies, frequency_scale, frequency_seed: the constant frequencies, the same for a whole zoo.
        output_offset, output_scale: the signal is ``output * output_scale + output_offset``.

    Raises:
        ZooError: a value outside its range.
    """

    hidden: tuple[int, ...] = (32, 32)
    frequencies: int = 16
    frequency_scale: float = 1.0
    frequency_seed: int = 0
    output_offset: float = 0.5
    output_scale: float = 1.0
    module = FourierMLP

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", _checked_widths(self.hidden))
        for name in ("frequencies", "frequency_scale", "output_scale"):
            _check_positive(name, getattr(self, name))

    def stack(self, inputs: int, channels: int) -> FourierStack:
        frequencies = FourierMLP(**self.arguments(inputs, channels)).frequency_matrix
        return FourierStack(frequencies, self.hidden, channels)

    def initial_rows(self, seeds: Sequence[int], inputs: int, channels: int) -> Tensor:
        return _drawn_rows(FourierMLP(**self.arguments(inputs, channels)), seeds)

    def arguments(self, inputs: int, channels: int) -> dict[str, Any]:
        return {
            "in_features": inputs,
            "hidden": list(self.hidden),
            "out_features": channels,
            "frequencies": self.frequencies,
            "frequency_scale": self.frequency_scale,
            "frequency_seed": self.frequency_seed,
        }


def _drawn_rows(module: Siren | FourierMLP, seeds: Sequence[int]) -> Tensor:
    rows, generator = [], torch.Generator()
    for seed in seeds:
        module.reset_parameters(generator.manual_seed(int(seed)))
        rows.append(torch.cat([parameter.detach().flatten() for parameter in module.parameters()]))
    return torch.stack(rows)


def _checked_widths(hidden: Sequence[int]) -> tuple[int, ...]:
    if not hidden or any(width < 1 for width in hidden):
        raise ZooError(f"architecture.hidden is {tuple(hidden)}, expected at least one positive width.")
    return tuple(hidden)


def _check_positive(name: str, value: float | None) -> None:
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise ZooError(f"architecture.{name} is {value}, expected a positive number.")
