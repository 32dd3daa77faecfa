"""The table from tensors to what is known of them."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from wsl.trace._axes import size_of
from wsl.trace._facts import Value
from wsl.trace._stacks import Stack


class ValueTable:
    """The value of every tensor that a run has met; keeps them alive, so that identities are unique."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Tensor, Value | Stack]] = {}
        self._storages: dict[tuple[str, int], list[tuple[Tensor, Value]]] = {}

    def get(self, tensor: Tensor) -> Value | None:
        """The value of ``tensor``; ``None`` if it has none: it was never met, or is a stack."""
        value = self._entries.get(id(tensor), (tensor, None))[1]
        return value if isinstance(value, Value) else None

    def get_stack(self, tensor: Tensor) -> Stack | None:
        """The value of ``tensor`` slice by slice, if it is a stack."""
        value = self._entries.get(id(tensor), (tensor, None))[1]
        return value if isinstance(value, Stack) else None

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape that the value of ``tensor`` has, whose own may have been changed in place since."""
        value = self._entries.get(id(tensor), (tensor, None))[1]
        if value is None:
            return tuple(tensor.shape)
        dims = (value.slices[0] if isinstance(value, Stack) else value).dims
        shape = list(map(size_of, dims))
        if isinstance(value, Stack):
            shape.insert(value.dim, len(value.slices))
        return tuple(shape)

    def set(self, tensor: Tensor, value: Value) -> Value:
        """Let ``tensor`` have ``value`` from now on."""
        shape = tuple(map(size_of, value.dims))
        assert shape == tuple(tensor.shape), f"dims of shape {shape} for a tensor of {tuple(tensor.shape)}"
        self._entries[id(tensor)] = (tensor, value)
        self._storages.setdefault(storage_key(tensor), []).append((tensor, value))
        return value

    def set_stack(self, tensor: Tensor, stack: Stack) -> None:
        """Let ``tensor`` be a stack from now on."""
        self._entries[id(tensor)] = (tensor, stack)
        assert self.shape(tensor) == tuple(tensor.shape), f"{self.shape(tensor)} for {tuple(tensor.shape)}"
        self._storages.setdefault(storage_key(tensor), []).extend((tensor, value) for value in stack.slices)

    def sharing(self, tensor: Tensor) -> list[Value]:
        """All values that tensors with the storage of ``tensor`` have or had, with the slices of stacks."""
        return [value for _, value in self._storages.get(storage_key(tensor), [])]

    def storages(self) -> dict[int, tuple[str, int]]:
        """The memory in which each value lies, by the identity of the value."""
        return {id(value): key for key, entries in self._storages.items() for _, value in entries}

    def has_alias(self, tensor: Tensor) -> bool:
        """Whether another tensor shares the storage of ``tensor``."""
        return any(other is not tensor for other, _ in self._storages.get(storage_key(tensor), []))


def iterate_tensors(items: Iterable[Any]) -> Iterable[Tensor]:
    """The tensors in nested lists and tuples."""
    for item in items:
        if isinstance(item, Tensor):
            yield item
        elif isinstance(item, (list, tuple)):
            yield from iterate_tensors(item)


def storage_key(tensor: Tensor) -> tuple[str, int]:
    """Identity of the memory of ``tensor``, by its address where it has one."""
    if tensor.layout is not torch.strided:
        return "tensor", id(tensor)
    storage = tensor.untyped_storage()
    try:
        address = storage.data_ptr()
    except RuntimeError:  # fake tensors have none
        address = 0
    return (str(tensor.device), address) if address else ("storage", storage._cdata)
