"""What autocast asks for on the device of a tensor; nothing on the meta device, which has none."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def autocast_type(like: Tensor) -> torch.dtype | None:
    """The type that autocast asks for; ``None`` if it is off."""
    kind = like.device.type
    on = kind != "meta" and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if on else None


def autocast_to(like: Tensor, kind: torch.dtype | None) -> AbstractContextManager[Any]:
    """A context with autocast to ``kind``, or without autocast if it is ``None``."""
    device = like.device.type
    if device == "meta":
        return nullcontext()
    return torch.autocast(device, dtype=kind, enabled=kind is not None)
