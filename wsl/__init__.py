"""Weight-space learning: neural networks whose input is the weights of other networks.

The specification, ``trace`` and ``verify`` load with ``import wsl``; every other name loads on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wsl._verify import SymmetryError, VerifyReport, verify
from wsl.spec import Axis, Block, BlockRef, Note, Scaling, SpecError, TensorSpec, WeightSpec
from wsl.trace import TraceError, trace

if TYPE_CHECKING:
    from wsl import (
        align,
        augment,
        data,
        encoders,
        graph,
        landscape,
        learnopt,
        models,
        nn,
        symmetry,
        tasks,
        testing,
        zoo,
    )
    from wsl.zoo import Zoo, ZooError

__version__ = "0.1.0"

__all__ = [
    "Axis",
    "Block",
    "BlockRef",
    "Note",
    "Scaling",
    "SpecError",
    "SymmetryError",
    "TensorSpec",
    "TraceError",
    "VerifyReport",
    "WeightSpec",
    "Zoo",
    "ZooError",
    "align",
    "augment",
    "data",
    "encoders",
    "graph",
    "landscape",
    "learnopt",
    "models",
    "nn",
    "symmetry",
    "tasks",
    "testing",
    "trace",
    "verify",
    "zoo",
]

_MODULES = (
    "align", "augment", "data", "encoders", "graph", "landscape", "learnopt", "models", "nn", "symmetry",
    "tasks", "testing", "zoo",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("Zoo", "ZooError"):
        return getattr(import_module("wsl.zoo"), name)
    if name in _MODULES:
        return import_module(f"wsl.{name}")
    raise AttributeError(f"module 'wsl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
