"""Weight augmentations: the same function, or nearly the same, from other weights.

Each is a small value with its own arguments; all draw from an explicit generator. They act on raw weights
and are meant for training batches only.

Source: Shamsian et al. 2024 (arXiv:2402.04081).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from wsl import symmetry
from wsl.spec import WeightSpec

__all__ = ["AddNoise", "Augmentation", "DropWeights", "FlipSigns", "Permute", "Rescale", "augment"]

Weights = dict[str, Tensor]


class Augmentation(ABC):
    """A random change of weights."""

    @abstractmethod
    def __call__(
        self, spec: WeightSpec, weights: Weights, *, std: Mapping[str, float], generator: Generator
    ) -> Weights:
        """Change each network independently.

        Args:
            weights: ``(B, *shape)`` for each tensor of ``spec``; left as they are.
            std: standard deviation of each block of ``spec`` over the train split, by key.
            generator: everything random is drawn from it, on its device.
        """


@dataclass(frozen=True)
class Permute(Augmentation):
    """Put the neurons of every hidden axis into a random order, those of each member of a family apart.

    The function stays the same.
    """

    def __call__(
        self, spec: WeightSpec, weights: Weights, *, std: Mapping[str, float], generator: Generator
    ) -> Weights:
        action = symmetry.sample(spec, _count(weights), generator=generator)
        return symmetry.apply(spec, action, weights)


@dataclass(frozen=True)
class FlipSigns(Augmentation):
    """Flip the signs of random neurons where the spec knows that to be a symmetry (sin, tanh, linear axes).

    The function stays the same. A spec without such symmetries is left alone.
    """

    def __call__(
        self, spec: WeightSpec, weights: Weights, *, std: Mapping[str, float], generator: Generator
    ) -> Weights:
        def signs(shape: tuple[int, ...]) -> Tensor:
            return 1.0 - 2.0 * torch.randint(2, shape, generator=generator, device=generator.device)

        return _scale(spec, weights, ("sign", "linear"), signs)


@dataclass(frozen=True)
class Rescale(Augmentation):
    """Scale random neurons by positive factors where the spec knows that to be a symmetry (ReLU, linear).

    The function stays the same. Factors are ``exp(spread * normal)``.
    """

    spread: float = 0.5

    def __post_init__(self) -> None:
        _check(self.spread >= 0, f"Rescale: spread is {self.spread}; expected at least 0.")

    def __call__(
        self, spec: WeightSpec, weights: Weights, *, std: Mapping[str, float], generator: Generator
    ) -> Weights:
        def factors(shape: tuple[int, ...]) -> Tensor:
            return (self.spread * torch.randn(shape, generator=generator, device=generator.device)).exp()

        return _scale(spec, weights, ("positive", "linear"), factors)


@dataclass(frozen=True)
class AddNoise(Augmentation):
    """Add Gaussian noise with ``scale`` times each block's standard deviation over the train split."""

    scale: float = 0.01

    def __post_init__(self) -> None:
        _check(self.scale >= 0, f"AddNoise: scale is {self.scale}; expected at least 0.")

    def __call__(
        self, spec: WeightSpec, weights: Weights, *, std: Mapping[str, float], generator: Generator
    ) -> Weights:
        return spec.join(
            {
                key: block + self.scale * std[key] * _like(block, torch.randn, generator)
                for key, block in spec.split(weights).items()
            }
        )


@dataclass(frozen=True)
class DropWeights(Augmentation):
    """Set each entry to zero with some probability."""

    probability: float = 0.05

    def __post_init__(self) -> None:
        _check(
            0 <= self.probability < 1,
            f"DropWeights: probability is {self.probability}; expected one in [0, 1).",
        )

    def __call__(
        self, spec: WeightSpec, weights: Weights, *, std: Mapping[str, float], generator: Generator
    ) -> Weights:
        return {
            name: tensor * (_like(tensor, torch.rand, generator) >= self.probability)
            for name, tensor in weights.items()
        }


def augment(
    spec: WeightSpec,
    weights: Mapping[str, Tensor],
    augmentations: Sequence[Augmentation],
    *,
    std: Mapping[str, float],
    generator: Generator,
) -> Weights:
    """Apply ``augmentations`` in order; see :class:`Augmentation`."""
    changed = dict(weights)
    for augmentation in augmentations:
        changed = augmentation(spec, changed, std=std, generator=generator)
    return changed


def _scale(
    spec: WeightSpec,
    weights: Weights,
    kinds: tuple[str, ...],
    draw: Callable[[tuple[int, ...]], Tensor],
) -> Weights:
    """Act by factors along every scaling of these ``kinds``, drawn for each neuron of each member."""
    like = next(iter(weights.values()))
    scales = {}
    for index, scaling in enumerate(spec.scalings):
        if scaling.kind in kinds:
            axes = (*spec.axes[scaling.axis].family, scaling.axis)
            scales[index] = draw((_count(weights), *(spec.axes[axis].size for axis in axes))).to(like)
    return symmetry.apply(spec, symmetry.Action(scales=scales), weights)


def _like(tensor: Tensor, draw: Callable[..., Tensor], generator: Generator) -> Tensor:
    return draw(tensor.shape, generator=generator, device=tensor.device, dtype=tensor.dtype)


def _count(weights: Mapping[str, Tensor]) -> int:
    return next(iter(weights.values())).shape[0]


def _check(valid: bool, message: str) -> None:
    if not valid:
        raise ValueError(message)
