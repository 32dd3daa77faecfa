"""Modules on the meta device: what depends on no weight is computed for real beside the trace.

Tensors on the meta device have shapes but no entries. Control flow that looks at entries (is this mask all
true, are these positions consecutive) would end the trace. The entries of inputs and of constants are known,
though: their *shadows* live on the CPU and go through the same operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_map_only

from wsl.trace._values import storage_key

_LARGEST = 1 << 22


class Shadows:
    """The entries of tensors on the meta device that depend on no weight."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[Tensor, Tensor]] = {}

    def adopt(self, tensor: Tensor) -> Tensor:
        """``tensor`` on the meta device, with its entries as the shadow."""
        if tensor.is_meta:
            return tensor
        moved = tensor.to("meta")
        self._set(moved, tensor.detach().cpu().clone())
        return moved

    def run(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        written: Iterable[Tensor],
    ) -> Any:
        """Run an operator on the meta device, and on the shadows if all its tensors have one.

        Args:
            written: the tensors whose entries the operator overwrites.
        """
        tensors = [item for item in tree_flatten((args, kwargs))[0] if isinstance(item, Tensor)]
        if not all(tensor.is_meta for tensor in tensors):
            return func(*args, **kwargs)
        if any(id(tensor) not in self._of for tensor in tensors):
            result = func(*args, **kwargs)
            self._forget(written)
            return result
        try:
            shadow = func(*tree_map(self._on_cpu, args), **tree_map(self._on_cpu, dict(kwargs)))
        except Exception:  # the operator will say on the meta device what is wrong
            shadow = None
            self._forget(written)
        return self._paired(func, args, kwargs, shadow)

    def _paired(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], shadow: Any
    ) -> Any:
        try:
            result = func(*args, **kwargs)
        except Exception:
            if shadow is None:
                raise
            # No kernel can tell the result from shapes alone; the shadow can.
            result = tree_map_only(Tensor, lambda tensor: tensor.to("meta"), shadow)
        flat, shadows = tree_flatten(result)[0], tree_flatten(shadow)[0]
        for tensor, entries in zip(flat, shadows, strict=False):
            if isinstance(tensor, Tensor) and isinstance(entries, Tensor) and tensor.shape == entries.shape:
                self._set(tensor, entries)
        return result

    def _on_cpu(self, item: Any) -> Any:
        if isinstance(item, Tensor):
            return self._of[id(item)][1]
        return torch.device("cpu") if isinstance(item, torch.device) else item

    def _set(self, tensor: Tensor, entries: Tensor) -> None:
        if tensor.is_meta and entries.numel() <= _LARGEST:
            self._of[id(tensor)] = (tensor, entries)

    def _forget(self, written: Iterable[Tensor]) -> None:
        """Entries that depend on weights were written: no view of that storage has known entries now."""
        keys = set(map(storage_key, written))
        if keys:
            self._of = {number: pair for number, pair in self._of.items() if storage_key(pair[0]) not in keys}
