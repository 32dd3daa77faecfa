"""An optimizer that now and then jumps to where it would be later."""

import copy
from typing import Self

import torch
from torch import Tensor
from torch.func import functional_call

from wsl.learnopt._features import state_of, tensor_of
from wsl.learnopt._nowcast import Nowcaster
from wsl.learnopt._types import State, Tensors, under
from wsl.learnopt.optimizers import Optimizer
from wsl.spec import WeightSpec


class Nowcasting(Optimizer):
    """A base optimizer, and every so many updates the weights that a nowcaster predicts.

    Between two jumps as many checkpoints are kept as the nowcaster reads. How far it jumps falls from
    ``ahead`` checkpoints at the start to one at ``horizon`` updates, as the square of what is left. The state
    of the base optimizer stays through a jump.

    Lanes that are not to jump cost nothing, so the update branches on values: not for ``torch.func.vmap``.

    Args:
        base: makes the updates.
        nowcaster: predicts.
        every: updates from jump to jump, a multiple of the nowcaster's checkpoints.
        ahead: how many checkpoints the first jump is ahead, at least 1.
        horizon: updates of a whole training.

    Raises:
        ValueError: ``every`` is no such multiple, ``ahead`` is below 1 or ``horizon`` below ``every``.

    Source: Knyazev et al. 2025 (arXiv:2409.04434), section 4 and the decay of its horizons.
    """

    def __init__(
        self,
        base: Optimizer,
        nowcaster: Nowcaster,
        every: int = 1000,
        ahead: float = 40.0,
        horizon: int = 10000,
    ) -> None:
        super().__init__()
        if every < 1 or every % nowcaster.checkpoints:
            raise ValueError(
                f"every={every} is no multiple of the nowcaster's {nowcaster.checkpoints} checkpoints."
            )
        if ahead < 1 or horizon < every:
            raise ValueError(
                f"ahead is at least 1 and the horizon at least every={every}, got {ahead} and {horizon}."
            )
        self.base, self.nowcaster = base, nowcaster
        self.every, self.ahead, self.horizon = every, ahead, horizon

    def init(self, params: Tensors) -> State:
        count, entries = self.nowcaster.checkpoints, self.nowcaster.entries
        entries.check(params)
        past: State = {
            name: value.unsqueeze(1).repeat(1, count, *(1 for _ in value.shape[1:]))
            for name, value in params.items()
            if name in entries.names
        }
        return {"base": self.base.init(params), "past": past}

    def update(
        self, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        return self.update_each({}, grads, state, params, step, loss)

    def update_each(
        self, thetas: Tensors, grads: Tensors, state: State, params: Tensors, step: Tensor, loss: Tensor
    ) -> tuple[Tensors, State]:
        given = grads, state_of(state, "base"), params, step, loss
        own = under(thetas, "base.")
        new, base = self.base.update_each(own, *given) if own else self.base.update(*given)
        past = {name: tensor_of(state_of(state, "past"), name) for name in state_of(state, "past")}
        kept = ((step + 1) % (self.every // self.nowcaster.checkpoints) == 0).nonzero().squeeze(1)
        if len(kept):
            past = {
                name: value.index_copy(
                    0, kept, torch.cat([value[kept, 1:], new[name][kept].unsqueeze(1)], dim=1)
                )
                for name, value in past.items()
            }
        due = ((step + 1) % self.every == 0).nonzero().squeeze(1)
        if len(due):
            jumped = self._predict(under(thetas, "nowcaster."), past, due, step[due] + 1)
            new = {
                name: value.index_copy(0, due, jumped[name]) if name in jumped else value
                for name, value in new.items()
            }
        after: State = {**past}
        return new, {"base": base, "past": after}

    def horizons(self, done: Tensor) -> Tensor:
        """How many checkpoints a jump after ``done (L,)`` updates is ahead."""
        left = 1 - (done.double() / self.horizon).clamp(max=1)
        return (1 + left * (self.ahead**0.5 - 1)).square()

    def on(self, spec: WeightSpec) -> Self:
        twin = copy.copy(self)
        twin._modules = self._modules.copy()
        twin.base, twin.nowcaster = self.base.on(spec), self.nowcaster.on(spec)
        return twin

    def _predict(self, thetas: Tensors, past: Tensors, due: Tensor, done: Tensor) -> Tensors:
        """The predictions of the lanes ``due``, by name ``(len(due), *shape)``."""
        ahead = self.horizons(done)
        if not thetas:
            found: Tensors = self.nowcaster({name: value[due] for name, value in past.items()}, ahead)
            return found
        parts = []
        for i, lane in enumerate(due.tolist()):
            theta = {name: value[lane] for name, value in thetas.items()}
            rows = {name: value[lane : lane + 1] for name, value in past.items()}
            parts.append(functional_call(self.nowcaster, theta, (rows, ahead[i : i + 1])))
        return {name: torch.cat([part[name] for part in parts]) for name in past}
