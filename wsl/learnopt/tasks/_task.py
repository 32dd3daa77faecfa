"""What an optimizer works on: one architecture and a distribution of problems on it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from wsl.learnopt._types import Tensors
from wsl.spec import WeightSpec
from wsl.trace import trace


class Task(ABC):
    """One architecture and a distribution of problems on it, of which a seed picks one.

    A problem is an initial point, an order of the data, and whatever else varies. All that is drawn is a
    function of the seed, of the step and of the split: nothing random has to be stored.

    Args:
        module: the network, as a template; its parameters are never those of lanes.
        example_inputs: of the network, for its specification.
        data: tensors that batches are taken from, by name.
        ceiling: the largest loss that counts; it stands for losses that are not finite.
    """

    def __init__(
        self,
        module: nn.Module,
        example_inputs: tuple[Any, ...],
        data: Tensors | None = None,
        ceiling: float = 1e6,
    ) -> None:
        self.module, self.example_inputs = module, example_inputs
        self.data: Tensors = dict(data or {})
        self.ceiling = ceiling

    @cached_property
    def spec(self) -> WeightSpec:
        """The specification of the network's weights."""
        return trace(self.module, self.example_inputs)

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters."""
        return next(self.module.parameters()).dtype

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Task":
        """Move the network and the data there, floats to another type; returns this task itself."""

        def moved(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            return value.to(device, dtype if value.is_floating_point() else None)

        self.module.to(device=device, dtype=dtype)
        self.example_inputs = tuple(map(moved, self.example_inputs))
        self.data = {name: moved(value) for name, value in self.data.items()}
        return self

    @abstractmethod
    def init(self, seeds: Tensor) -> Tensors:
        """Initial parameters ``(L, *shape)``; those of a lane depend on its seed alone, ``seeds (L,)``."""

    @abstractmethod
    def batch(self, seeds: Tensor, step: Tensor, split: str = "train") -> Any:
        """What the losses of a step are taken on: nested tensors ``(L, ...)``.

        Args:
            seeds, step: ``(L,)`` int64.
            split: ``train`` or ``test``.
        """

    @abstractmethod
    def loss(self, params: Tensors, batch: Any) -> Tensor:
        """The loss ``()`` of one lane, of parameters ``(*shape)`` and a batch without dimension of lanes."""

    def values(self, params: Tensors, batch: Any) -> Tensor:
        """Losses ``(L,)``: :meth:`loss` for all lanes at once."""
        found: Tensor = torch.func.vmap(self.loss)(params, batch)
        return found

    def values_and_grads(self, params: Tensors, batch: Any) -> tuple[Tensor, Tensors]:
        """Losses ``(L,)`` and the gradient of each by the parameters of its lane ``(L, *shape)``.

        Where gradients are on and parameters require them, both can be differentiated again.
        """
        return stacked_gradient(lambda tensors: self.values(tensors, batch), params)


def stacked_gradient(values: Callable[[Tensors], Tensor], params: Tensors) -> tuple[Tensor, Tensors]:
    """Losses ``(L,)`` of lanes and their gradients, by one backward pass through the sum of the losses."""
    again = has_graph(params)
    with torch.enable_grad():
        leaves = {
            name: value if again and value.requires_grad else value.detach().requires_grad_()
            for name, value in params.items()
        }
        losses = values(leaves)
        grads = torch.autograd.grad(
            losses.sum(), list(leaves.values()), create_graph=again, materialize_grads=True
        )
    found = dict(zip(params, grads, strict=True))
    return (losses if again else losses.detach()), found


def has_graph(params: Tensors) -> bool:
    """Whether what is computed from parameters will be differentiated by what they depend on."""
    return torch.is_grad_enabled() and any(value.requires_grad for value in params.values())
