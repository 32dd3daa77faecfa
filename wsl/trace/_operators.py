"""Operators of torch: names, arguments by name, and the simpler operators that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload

from wsl.trace._values import iterate_tensors

_SHAPE_IN_PLACE = ("transpose_", "t_", "unsqueeze_", "squeeze_", "swapaxes_")


class Call:
    """One call of an operator, with arguments by their names in the operator's schema.

    Attributes:
        name: of the operator, without overload and in-place mark; with its namespace if that is not ``aten``.
        written: the tensors whose entries the operator overwrites.
        reshapes: whether it gives a tensor another shape in place, and leaves its entries alone.
        out: what the operator returned, once it ran.
    """

    __slots__ = ("_arguments", "_destinations", "name", "out", "reshapes", "written")

    def __init__(self, operator: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        signature = _signature(operator)
        self.name = signature.name
        self.out: Any = None
        self._arguments = dict(signature.defaults)
        self._arguments.update(zip(signature.defaults, args, strict=False))
        self._arguments.update(kwargs)
        self.written = list(iterate_tensors(self._arguments[name] for name in signature.written))
        self.reshapes = signature.reshapes
        self._destinations = signature.destinations

    def __getitem__(self, name: str) -> Any:
        return self._arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """An argument that not all overloads have."""
        return self._arguments.get(name, default)

    @property
    def tensors(self) -> list[Tensor]:
        """All tensor arguments that the operator reads, in order: destinations (``out=``) are left out."""
        return list(iterate_tensors(v for k, v in self._arguments.items() if k not in self._destinations))

    @property
    def outs(self) -> list[Tensor]:
        """All tensors that the operator returned."""
        return list(iterate_tensors([self.out]))


class _Signature(NamedTuple):
    name: str
    defaults: dict[str, Any]
    written: tuple[str, ...]
    destinations: frozenset[str]
    reshapes: bool


@cache
def _signature(operator: OpOverload) -> _Signature:
    arguments = operator._schema.arguments
    packet = operator.overloadpacket.__name__
    name = packet[:-1] if packet.endswith("_") and not packet.endswith("__") else packet
    reshapes = packet in _SHAPE_IN_PLACE
    written = [a for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    return _Signature(
        name if operator.namespace == "aten" else f"{operator.namespace}::{name}",
        {a.name: a.default_value if a.has_default_value() else None for a in arguments},
        () if reshapes else tuple(a.name for a in written),
        frozenset(a.name for a in written if a.is_out),
        reshapes,
    )


def decompositions(operator: OpOverload) -> Iterator[Callable[..., Any]]:
    """Ways to run ``operator`` as simpler ones; each may return ``NotImplemented``."""
    yield operator.decompose
    if operator.namespace == "aten":
        core, others = _decompositions()
        if operator in core:
            yield core[operator]
        elif operator in others and _is_function(operator):
            yield others[operator]


def _is_function(operator: OpOverload) -> bool:
    """Whether the result is a tensor of its own, no view, and the same at every call."""
    views = any(returned.alias_info is not None for returned in operator._schema.returns)
    return not views and torch.Tag.nondeterministic_seeded not in operator.tags


@cache
def _decompositions() -> tuple[Mapping[Any, Callable[..., Any]], Mapping[Any, Callable[..., Any]]]:
    # The import takes a fifth of a second, and is seldom needed.
    from torch._decomp import core_aten_decompositions, decomposition_table

    return core_aten_decompositions(), decomposition_table
