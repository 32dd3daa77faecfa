"""How to run a zoo's weights again: the module that they belong to, and the coordinates that it is run on."""

import importlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from wsl.models import coordinate_grid
from wsl.zoo._errors import ZooError
from wsl.zoo._json import dump_json, load_json

# A zoo file is data: it may name a class of these modules, and nothing else, to be imported and called.
ALLOWED_MODULES = ("wsl.models",)
UNKNOWN = "unknown:unknown"
# Entries that a file holds only where they differ from their defaults.
_OPTIONAL = {"column_first": False, "clipped": True}


@dataclass(frozen=True)
class ForwardDefinition:
    """The network that a row's weights are loaded into, and how its output becomes the stored signal.

    ``signal = module(grid coordinates) * output_scale + output_offset``, see :func:`wsl.zoo.render`.

    Args:
        factory: ``"module:Class"``, e.g. ``"wsl.models:Siren"``; ``UNKNOWN`` if the source did not say it.
        arguments: keyword arguments of the class; JSON values only.
        grid: ``(H, W)`` of the coordinate grid that an INR is run on; ``None`` for other networks.
        output_offset, output_scale: from the module's output to the signal; a number, or one for each
            channel.
        channels: output channels of the signal.
        column_first: whether the network's first coordinate runs along the columns of the grid.
        clipped: whether the signal lies in [0, 1], to which rendering clips it, as that of images.

    Raises:
        ZooError: a value that cannot be stored.
    """

    factory: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] | None = None
    output_offset: float | tuple[float, ...] = 0.0
    output_scale: float | tuple[float, ...] = 1.0
    channels: int = 1
    column_first: bool = False
    clipped: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.factory, str) or not re.fullmatch(r"[\w.]+:\w+", self.factory):
            raise ZooError(f"The forward definition's factory is {self.factory!r}, expected 'module:Class'.")
        if not isinstance(self.arguments, Mapping):
            raise ZooError(f"The forward definition's arguments are {self.arguments!r}, expected a mapping.")
        arguments = load_json("forward arguments", dump_json("forward arguments", dict(self.arguments)))
        object.__setattr__(self, "arguments", arguments)
        if self.grid is not None:
            if (
                not isinstance(self.grid, tuple | list)
                or not all(_is_size(n) for n in self.grid)
                or not self.grid
            ):
                raise ZooError(
                    f"The forward definition's grid is {self.grid!r}, expected sizes such as (28, 28)."
                )
            object.__setattr__(self, "grid", tuple(self.grid))
        if not _is_size(self.channels):
            raise ZooError(
                f"The forward definition's channels are {self.channels!r}, expected a positive integer."
            )
        for name in ("output_offset", "output_scale"):
            object.__setattr__(self, name, _per_channel(name, getattr(self, name), self.channels))
        for name in _OPTIONAL:
            if not isinstance(getattr(self, name), bool):
                raise ZooError(
                    f"The forward definition's {name} is {getattr(self, name)!r}, expected a bool."
                )

    @property
    def is_allowed(self) -> bool:
        """Whether the factory is in a module that a file may name."""
        return self.factory.partition(":")[0] in ALLOWED_MODULES

    def build(self) -> nn.Module:
        """A new module in evaluation mode, with its own initial parameters; torch's random state stays.

        Raises:
            ZooError: the factory is unknown, outside ``wsl.models`` (a file must not choose which code runs),
                does not exist there, or refuses the arguments.
        """
        module_name, _, class_name = self.factory.partition(":")
        if self.factory == UNKNOWN:
            raise ZooError(
                "This zoo does not say how its networks run: the files that it was imported from did not. "
                "Import it again and name their module: python -m wsl zoo import --help says how."
            )
        if not self.is_allowed:
            raise ZooError(
                f"This zoo's networks are built by {self.factory}, and a zoo file may only name classes of "
                f"{', '.join(ALLOWED_MODULES)}: opening a file must not choose which code runs. "
                "If you trust that code, import it yourself and pass the module explicitly."
            )
        module = importlib.import_module(module_name)
        cls = getattr(module, class_name, None) if class_name in module.__all__ else None
        if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
            raise ZooError(
                f"This zoo's networks are built by {self.factory}, but {module_name} has no such module. "
                "The file may come from another version of wsl; otherwise pass the module explicitly."
            )
        try:
            with torch.random.fork_rng(devices=[]):
                return cls(**self.arguments).eval()
        except Exception as err:  # whatever a constructor raises on arguments that come from a file
            raise ZooError(
                f"{self.factory} does not accept this zoo's arguments {dict(self.arguments)}: {err}."
            ) from err

    def points(self) -> Tensor:
        """Coordinates of the grid's pixels in the order of the network's inputs: ``(prod(grid), len(grid))``.

        Raises:
            ZooError: there is no grid, so the networks are no INRs.
        """
        if self.grid is None:
            raise ZooError(
                "This zoo has no coordinate grid: its networks are no INRs and cannot be rendered."
            )
        points = coordinate_grid(self.grid)
        return points.flip(-1) if self.column_first else points

    def signal(self, outputs: Tensor) -> Tensor:
        """From a module's outputs ``(..., channels)`` to the signal of the same shape; not clipped."""
        scale, offset = (
            torch.tensor(value, dtype=outputs.dtype, device=outputs.device)
            if isinstance(value, tuple)
            else value
            for value in (self.output_scale, self.output_offset)
        )
        return outputs * scale + offset

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that is stored."""
        stored = {
            "factory": self.factory,
            "arguments": dict(self.arguments),
            "grid": None if self.grid is None else list(self.grid),
            "output_offset": _as_json(self.output_offset),
            "output_scale": _as_json(self.output_scale),
            "channels": self.channels,
            "column_first": self.column_first,
            "clipped": self.clipped,
        }
        return {
            name: value for name, value in stored.items() if name not in _OPTIONAL or value != _OPTIONAL[name]
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "ForwardDefinition":
        """Inverse of :meth:`to_dict`; raises ZooError for missing, unknown or malformed entries."""
        expected = set(cls.__dataclass_fields__)
        if set(value) | set(_OPTIONAL) != expected:
            raise ZooError(
                f"The forward definition has the entries {sorted(value)}, expected {sorted(expected)}. "
                "The file is damaged or was written by another version of wsl."
            )
        return cls(**value)


def _per_channel(name: str, value: Any, channels: int) -> float | tuple[float, ...]:
    """One finite number, or a tuple of one for each channel."""
    numbers = list(value) if isinstance(value, list | tuple) else [value]
    fine = all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in numbers)
    if not fine or (isinstance(value, list | tuple) and len(numbers) != channels):
        raise ZooError(
            f"The forward definition's {name} is {value!r}, expected a finite number, or one for each of "
            f"{channels} channels."
        )
    return tuple(map(float, numbers)) if isinstance(value, list | tuple) else float(value)


def _as_json(value: float | tuple[float, ...]) -> float | list[float]:
    return list(value) if isinstance(value, tuple) else value


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
