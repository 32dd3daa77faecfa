"""What INRs show, for any weights of theirs: batched over networks, and differentiable."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition


class Renderer(nn.Module):
    """Runs INRs of one architecture on the grid of their zoo; adds nothing to parameters and checkpoints.

    Args:
        definition: how the networks run, and on which grid.

    Shapes: weights ``(B, *shape)`` by name to signals ``(B, *grid)``, or ``(B, *grid, C)`` for several
    channels, in the networks' type; not cut to [0, 1].

    Raises:
        ZooError: there is no grid, so the networks are no INRs.
    """

    points: Tensor

    def __init__(self, definition: ForwardDefinition) -> None:
        super().__init__()
        self.definition, self.shape = definition, grid_shape(definition)
        self._module = (definition.build().requires_grad_(False),)  # in a tuple: no part of the model
        self.register_buffer("points", definition.points(), persistent=False)

    def forward(self, weights: dict[str, Tensor]) -> Tensor:
        def run(one: dict[str, Tensor]) -> Tensor:
            output: Tensor = functional_call(self._module[0], one, (self.points,))
            return output

        signals = self.definition.signal(torch.func.vmap(run)(weights))
        return signals.reshape(len(signals), *self.shape)

    @torch.no_grad()
    def show(self, weights: dict[str, Tensor]) -> Tensor:
        """Signals as :func:`wsl.zoo.render` gives them: those of images are cut to [0, 1]."""
        signals: Tensor = self(weights)
        return signals.clamp(0, 1) if self.definition.clipped else signals

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "Renderer":
        """Constants of the networks go along to another device or type."""
        self._module[0]._apply(fn, recurse)
        return super()._apply(fn, recurse)


def grid_shape(definition: ForwardDefinition) -> tuple[int, ...]:
    """Shape of one signal: ``(*grid,)``, or ``(*grid, C)`` of several channels; ZooError without a grid."""
    if definition.grid is None:
        raise ZooError("This zoo has no coordinate grid: its networks are no INRs and cannot be rendered.")
    return (*definition.grid, definition.channels) if definition.channels > 1 else definition.grid
