"""The table from tensors to what is known of them."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from wsl.trace._axes import size_of
from wsl.trace._facts import Value


class ValueTable:
    """The value of every tensor that a run has met; keeps them alive, so that identities are unique."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Tensor, Value]] = {}
        self._storages: dict[tuple[str, int], list[tuple[Tensor, Value]]] = {}

    def get(self, tensor: Tensor) -> Value | None:
        """The value of ``tensor``, or ``None`` if no operator made it and it was never declared."""
        entry = self._entries.get(id(tensor))
        return None if entry is None else entry[1]

    def set(self, tensor: Tensor, value: Value) -> Value:
        """Let ``tensor`` have ``value`` from now on."""
        shape = tuple(map(size_of, value.dims))
        assert shape == tuple(tensor.shape), f"dims of shape {shape} for a tensor of {tuple(tensor.shape)}"
        self._entries[id(tensor)] = (tensor, value)
        self._storages.setdefault(storage_key(tensor), []).append((tensor, value))
        return value

    def sharing(self, tensor: Tensor) -> list[Value]:
        """All values that tensors with the storage of ``tensor`` have or had."""
        return [value for _, value in self._storages.get(storage_key(tensor), [])]

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
