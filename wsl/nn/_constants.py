"""Tensors that are made once and kept."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

import torch

T = TypeVar("T")


def cached_constants(maxsize: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """``functools.lru_cache`` for functions that make tensors.

    What is first asked for in evaluation, under ``torch.inference_mode``, can be trained with later.
    """

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        @wraps(function)
        def make(*args: Any) -> T:
            with torch.inference_mode(False):
                return function(*args)

        return lru_cache(maxsize)(make)

    return decorate
