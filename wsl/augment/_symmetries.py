"""Elements of the symmetry group of the specification: the function stays the same."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from wsl import symmetry
from wsl.augment._base import Augmentation, Networks, expect


@dataclass(frozen=True)
class Permute(Augmentation):
    """Put the neurons of every hidden axis into a random order, those of each member of a family apart.

    The function stays the same.
    """

    preserves_function: ClassVar[bool] = True

    def __call__(self, networks: Networks, generator: Generator) -> Networks:
        action = symmetry.sample(networks.spec, len(networks), generator=generator)
        return networks.having(symmetry.apply(networks.spec, action, networks.weights))


@dataclass(frozen=True)
class FlipSigns(Augmentation):
    """Flip the signs of random neurons where the spec knows that to be a symmetry (sin, tanh, linear axes).

    The function stays the same. A spec without such symmetries is left alone. Of SIRENs this is the negation.
    """

    preserves_function: ClassVar[bool] = True

    def __call__(self, networks: Networks, generator: Generator) -> Networks:
        def signs(shape: tuple[int, ...]) -> Tensor:
            return 1.0 - 2.0 * torch.randint(2, shape, generator=generator, device=generator.device)

        return _scale(networks, ("sign", "linear"), signs)


@dataclass(frozen=True)
class Rescale(Augmentation):
    """Scale random neurons by positive factors where the spec knows that to be a symmetry (ReLU, linear).

    The function stays the same. Factors are ``exp(spread * normal)``.
    """

    preserves_function: ClassVar[bool] = True
    spread: float = 0.5

    def __post_init__(self) -> None:
        expect(self.spread >= 0, f"Rescale: spread is {self.spread}; expected at least 0.")

    def __call__(self, networks: Networks, generator: Generator) -> Networks:
        def factors(shape: tuple[int, ...]) -> Tensor:
            return (self.spread * torch.randn(shape, generator=generator, device=generator.device)).exp()

        return _scale(networks, ("positive", "linear"), factors)


def _scale(networks: Networks, kinds: tuple[str, ...], draw: Callable[[tuple[int, ...]], Tensor]) -> Networks:
    """Act by factors along every scaling of these ``kinds``, drawn for each neuron of each member."""
    spec = networks.spec
    like = next(iter(networks.weights.values()))
    scales = {}
    for index, scaling in enumerate(spec.scalings):
        if scaling.kind in kinds:
            axes = (*spec.axes[scaling.axis].family, scaling.axis)
            scales[index] = draw((len(networks), *(spec.axes[axis].size for axis in axes))).to(like)
    return networks.having(symmetry.apply(spec, symmetry.Action(scales=scales), networks.weights))
