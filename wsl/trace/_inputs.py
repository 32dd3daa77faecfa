"""Example inputs and outputs: tensors in nested containers, and batches of one made batches of two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn


def nested_tensors(item: Any, seen: frozenset[int] = frozenset()) -> Iterator[Tensor]:
    """The tensors in nested containers, and in the attributes of other objects."""
    if isinstance(item, Tensor):
        yield item
        return
    entries: Iterable[Any] = ()
    if isinstance(item, Mapping):
        entries = item.values()
    elif isinstance(item, (tuple, list, set, frozenset)):
        entries = item
    elif hasattr(item, "__dict__") and not isinstance(item, (type, nn.Module)):
        entries = list(vars(item).values())
    if id(item) not in seen:
        for entry in entries:
            yield from nested_tensors(entry, seen | {id(item)})


def doubled(inputs: Any) -> Any:
    """``inputs`` repeated to a batch of 2, if the leading dimension of all tensors is 1; else ``None``."""
    tensors = list(nested_tensors(inputs))
    if not tensors or any(tensor.dim() == 0 or tensor.shape[0] != 1 for tensor in tensors):
        return None
    return _double(inputs)


def _double(item: Any) -> Any:
    if isinstance(item, Tensor):
        return torch.cat([item, item])
    if type(item) is dict:
        return {key: _double(entry) for key, entry in item.items()}
    return type(item)(map(_double, item)) if type(item) in (tuple, list) else item
