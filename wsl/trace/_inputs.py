"""Example inputs and outputs: tensors in nested containers, and batches of one made batches of two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Example(NamedTuple):
    """The arguments of one run of a module."""

    inputs: tuple[Any, ...]
    keywords: dict[str, Any]

    def map(self, function: Callable[[Tensor], Tensor]) -> Example:
        """The example with every tensor in nested tuples, lists and dicts replaced."""
        inputs, keywords = _map((self.inputs, self.keywords), function)
        return Example(inputs, keywords)

    def doubled(self) -> Example | None:
        """Repeated to a batch of 2 if the leading dimension of all tensors is 1, else ``None``."""
        tensors = list(nested_tensors((self.inputs, self.keywords)))
        if not tensors or any(tensor.dim() == 0 or tensor.shape[0] != 1 for tensor in tensors):
            return None
        return self.map(lambda tensor: torch.cat([tensor, tensor]))


def read_examples(example_inputs: object, kwargs: object) -> list[Example]:
    """The examples of a call of :func:`wsl.trace`: one, or those of a list.

    Raises:
        TypeError: arguments of the wrong type, nested tensors, or more or fewer ``kwargs`` than examples.
    """
    listed = example_inputs if isinstance(example_inputs, list) else [example_inputs]
    if not listed:
        raise TypeError("example_inputs is an empty list; give at least one example.")
    keywords = kwargs if isinstance(kwargs, list) else [kwargs] * len(listed)
    if len(keywords) != len(listed):
        raise TypeError(
            f"{len(listed)} examples, but {len(keywords)} kwargs; give one mapping, or a list of as many."
        )
    for entry in keywords:
        if not (entry is None or isinstance(entry, Mapping)):
            raise TypeError(f"kwargs must be a mapping of keyword inputs, got {type(entry).__name__}.")
    examples = [
        Example(_positional(inputs), dict(entry or {}))
        for inputs, entry in zip(listed, keywords, strict=True)
    ]
    if any(tensor.is_nested for tensor in nested_tensors(examples)):
        raise TypeError(
            "an example holds a nested tensor, whose dimensions have no size.\n  Give a padded tensor, or a "
            "list of examples without padding: the specification is the same."
        )
    return examples


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


def _positional(example: object) -> tuple[Any, ...]:
    if isinstance(example, Tensor):
        return (example,)
    if isinstance(example, tuple):
        return example
    raise TypeError(
        "example_inputs must be a tensor or a tuple of positional inputs, or a list of such examples, got "
        f"{type(example).__name__}.\n  Wrap arrays with torch.as_tensor; pass keywords as kwargs=."
    )


def _map(item: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(item, Tensor):
        return function(item)
    if type(item) is dict:
        return {key: _map(entry, function) for key, entry in item.items()}
    if type(item) in (tuple, list):
        return type(item)(_map(entry, function) for entry in item)
    if isinstance(item, tuple) and hasattr(item, "_make"):
        return item._make(_map(entry, function) for entry in item)
    return item
