"""The protocol of functional optimizers."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call

from wsl.learnopt._types import State, Tensors, map_state
from wsl.spec import WeightSpec

Schedule: TypeAlias = Callable[[Tensor], Tensor]
"""From updates done so far ``(L,)`` to factors of the learning rate ``(L,)``, see :func:`constant`."""


class Optimizer(nn.Module, ABC):
    """A rule that makes new parameters of gradients, for ``L`` lanes at once.

    Its parameters are the hyperparameters, in a form without limits (logarithms, logits), so that gradients
    or perturbations may move them. All lanes share them; see :class:`PerLane` for one set a lane.

    Attributes:
        given: arguments of the constructor, positional ones and those by name, for files.
    """

    given: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        made.given = args, kwargs
        return made

    @abstractmethod
    def init(self, params: Tensors) -> State:
        """The state before the first update of parameters ``(L, *shape)``, whatever the hyperparameters."""

    @abstractmethod
    def update(
        self, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        """New parameters and a new state; the given ones stay as they are.

        A pure function of tensors, differentiable and without branches that depend on values, so that it runs
        under the transforms of :mod:`torch.func`. What becomes of a lane depends on this lane alone.

        Args:
            grads, params: by name ``(L, *shape)``, in one order.
            state: what :meth:`init` or the last update gave.
            step: ``(L,)`` int64, updates that each lane has had.
            loss: ``(L,)``, of ``params``.
        """

    def update_each(
        self, thetas: Tensors, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        """:meth:`update` where lane ``l`` has the hyperparameters ``thetas[l]``.

        Args:
            thetas: by the names of :meth:`named_parameters` ``(L, *shape)``; all lanes share those left out.
        """

        def one(thetas: Tensors, *lane: Any) -> Any:
            lane = _each(lane, lambda x: x.unsqueeze(0))
            return _each(functional_call(self, thetas, lane), lambda x: x.squeeze(0))

        new: tuple[Tensors, State] = torch.func.vmap(one)(thetas, grads, state, params, step, loss)
        return new

    def on(self, spec: WeightSpec) -> "Optimizer":
        """The optimizer for another architecture, with the same hyperparameters; this one fits all."""
        return self

    def forward(
        self, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        """:meth:`update`, by the name that :func:`torch.func.functional_call` knows."""
        return self.update(grads, state, params, step, loss)


class BroadcastOptimizer(Optimizer):
    """An optimizer whose :meth:`update` takes hyperparameters ``(L,)`` in place of scalars as they are."""

    def update_each(
        self, thetas: Tensors, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        new: tuple[Tensors, State] = functional_call(self, thetas, (grads, state, params, step, loss))
        return new


def lane_column(value: Tensor, like: Tensor) -> Tensor:
    """A hyperparameter ``()`` or ``(L,)`` in the type of ``like``, to multiply ``(L, P)`` with."""
    return value.to(like.dtype).view(-1, 1)


def scheduled(rate: Tensor, schedule: Schedule | None, step: Tensor) -> Tensor:
    """``()`` or ``(L,)``: the learning rate of this step."""
    return rate if schedule is None else rate * schedule(step)


def _each(tree: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(tree, tuple):
        return tuple(_each(part, function) for part in tree)
    return map_state(function, tree) if isinstance(tree, dict) else function(tree)
