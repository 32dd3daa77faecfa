"""How to run a zoo's weights again: the module that they belong to, and the coordinates that it is run on."""

import importlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from wsl.zoo._errors import ZooError
from wsl.zoo._json import dump_json, load_json

# A zoo file is data: it may name a class of these modules, and nothing else, to be imported and called.
ALLOWED_MODULES = ("wsl.models",)


@dataclass(frozen=True)
class ForwardDefinition:
    """The network that a row's weights are loaded into, and how its output becomes the stored signal.

    ``signal = module(grid coordinates) * output_scale + output_offset``, see :func:`wsl.zoo.render`.

    Args:
        factory: ``"module:Class"``, e.g. ``"wsl.models:Siren"``.
        arguments: keyword arguments of the class; JSON values only.
        grid: ``(H, W)`` of the coordinate grid that an INR is run on; ``None`` for other networks.
        output_offset, output_scale: from the module's output to the signal in [0, 1].
        channels: output channels of the signal.

    Raises:
        ZooError: a value that cannot be stored.
    """

    factory: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] | None = None
    output_offset: float = 0.0
    output_scale: float = 1.0
    channels: int = 1

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
        for name in ("output_offset", "output_scale"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ZooError(f"The forward definition's {name} is {value!r}, expected a finite number.")
            object.__setattr__(self, name, float(value))
        if not _is_size(self.channels):
            raise ZooError(
                f"The forward definition's channels are {self.channels!r}, expected a positive integer."
            )

    @property
    def is_allowed(self) -> bool:
        """Whether the factory is in a module that a file may name."""
        return self.factory.partition(":")[0] in ALLOWED_MODULES

    def build(self) -> nn.Module:
        """A new module, with its own initial parameters; leaves torch's random state as it is.

        Raises:
            ZooError: the factory is outside ``wsl.models`` (a file must not choose which code runs), does not
                exist there, or refuses the arguments.
        """
        module_name, _, class_name = self.factory.partition(":")
        if not self.is_allowed:
            raise ZooError(
                f"This zoo's networks are built by {self.factory}, and a zoo file may only name classes of "
                f"{', '.join(ALLOWED_MODULES)}: opening a file must not choose which code runs. "
                "If you trust that code, import it yourself and pass the module explicitly."
            )
        cls = getattr(importlib.import_module(module_name), class_name, None)
        if not (isinstance(cls, type) and issubclass(cls, nn.Module) and cls.__module__ == module_name):
            raise ZooError(
                f"This zoo's networks are built by {self.factory}, but {module_name} has no such module. "
                "The file may come from another version of wsl; otherwise pass the module explicitly."
            )
        try:
            with torch.random.fork_rng(devices=[]):
                return cls(**self.arguments)
        except Exception as err:  # whatever a constructor raises on arguments that come from a file
            raise ZooError(
                f"{self.factory} does not accept this zoo's arguments {dict(self.arguments)}: {err}."
            ) from err

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that is stored."""
        return {
            "factory": self.factory,
            "arguments": dict(self.arguments),
            "grid": None if self.grid is None else list(self.grid),
            "output_offset": self.output_offset,
            "output_scale": self.output_scale,
            "channels": self.channels,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "ForwardDefinition":
        """Inverse of :meth:`to_dict`; raises ZooError for missing, unknown or malformed entries."""
        expected = set(cls.__dataclass_fields__)
        if set(value) != expected:
            raise ZooError(
                f"The forward definition has the entries {sorted(value)}, expected {sorted(expected)}. "
                "The file is damaged or was written by another version of wsl."
            )
        return cls(**value)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
