"""Initial parameters of lanes: what a module draws for itself, from the seed of each lane."""

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn

from wsl.learnopt._random import key_of
from wsl.learnopt._types import Tensors

_INITIAL = 0x696E6974


def draw_parameters(make: Callable[[], nn.Module], seeds: Tensor, like: nn.Module) -> Tensors:
    """Parameters ``(L, *shape)`` of new modules, in the type and on the device of those of ``like``.

    Args:
        make: gives a new module whose parameters it draws, on the CPU, by torch's default generator. That
            generator is seeded for each lane, and left as it was.
        seeds: ``(L,)``; a lane's parameters depend on its own alone.
    """
    keys = key_of(seeds, _INITIAL).bitwise_and((1 << 63) - 1).tolist()
    drawn = []
    with torch.random.fork_rng(devices=[]):
        for key in keys:
            torch.default_generator.manual_seed(key)  # torch.manual_seed would seed other devices too
            drawn.append([parameter.detach().clone() for parameter in make().parameters()])
    return {
        name: torch.stack([row[number] for row in drawn]).to(parameter)
        for number, (name, parameter) in enumerate(like.named_parameters())
    }


class Redrawn:
    """Gives one module again and again, each time with new parameters: by its ``reset_parameters``.

    Args:
        module: copied.

    Raises:
        ValueError: a part of it has parameters and no ``reset_parameters``.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = deepcopy(module).cpu()
        self._resets: list[Callable[[], object]] = []
        # Parts first: a module may overrule what they draw.
        for name, part in reversed(list(self._module.named_modules())):
            reset = getattr(part, "reset_parameters", None) or getattr(part, "_reset_parameters", None)
            if reset is not None:
                self._resets.append(reset)
            elif next(part.parameters(recurse=False), None) is not None:
                raise ValueError(
                    f"{name or 'the module'} ({type(part).__name__}) has parameters of its own and no "
                    "reset_parameters() that could draw new ones for each lane. Give a function that builds "
                    "the network in place of the network."
                )

    def __call__(self) -> nn.Module:
        for reset in self._resets:
            reset()
        return self._module
