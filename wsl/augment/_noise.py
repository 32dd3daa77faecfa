"""Noise and missing weights: nearly the same function.

Running means and variances of norms stay as they are: a variance that is zero or negative is none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from wsl.augment._base import Augmentation, AugmentError, Networks, expect
from wsl.spec import is_running_statistic


@dataclass(frozen=True)
class AddNoise(Augmentation):
    """Add Gaussian noise with ``scale`` times each block's standard deviation over the train split."""

    preserves_function: ClassVar[bool] = False
    scale: float = 0.01

    def __post_init__(self) -> None:
        expect(self.scale >= 0, f"AddNoise: scale is {self.scale}; expected at least 0.")

    def __call__(self, networks: Networks, generator: Generator) -> Networks:
        std = networks.std
        if std is None:
            raise AugmentError(
                "AddNoise needs the standard deviation of each block and was given none.\n"
                "  Pass std=wsl.data.weight_statistics(batches).std to Networks."
            )

        def noisy(key: str, block: Tensor) -> Tensor:
            return block + self.scale * std[key] * _like(block, torch.randn, generator)

        return _each_block(networks, noisy)


@dataclass(frozen=True)
class DropWeights(Augmentation):
    """Set each entry to zero with some probability."""

    preserves_function: ClassVar[bool] = False
    probability: float = 0.05

    def __post_init__(self) -> None:
        expect(
            0 <= self.probability < 1,
            f"DropWeights: probability is {self.probability}; expected one in [0, 1).",
        )

    def __call__(self, networks: Networks, generator: Generator) -> Networks:
        def thinned(key: str, block: Tensor) -> Tensor:
            return block.masked_fill(_like(block, torch.rand, generator) < self.probability, 0.0)

        return _each_block(networks, thinned)


@dataclass(frozen=True)
class MaskSmallest(Augmentation):
    """Set the entries of smallest magnitude of each block to zero, up to a quantile of that block.

    The quantile of each network is uniform in ``[0, quantile]``.
    """

    preserves_function: ClassVar[bool] = False
    quantile: float = 0.1

    def __post_init__(self) -> None:
        expect(0 <= self.quantile < 1, f"MaskSmallest: quantile is {self.quantile}; expected one in [0, 1).")

    def __call__(self, networks: Networks, generator: Generator) -> Networks:
        drawn = torch.rand(len(networks), generator=generator, device=generator.device, dtype=torch.float64)
        shares = (self.quantile * drawn).unsqueeze(1)
        return _each_block(networks, lambda key, block: _masked(block, shares))


def _each_block(networks: Networks, change: Callable[[str, Tensor], Tensor]) -> Networks:
    """Change each block of trained weights ``(B, *view)``, given its key."""
    spec = networks.spec
    blocks = spec.split(networks.weights)
    trained = [ref.key for ref in spec.blocks if not is_running_statistic(ref.tensor)]
    return networks.having(spec.join({**blocks, **{key: change(key, blocks[key]) for key in trained}}))


def _masked(block: Tensor, shares: Tensor) -> Tensor:
    """Zero the smallest ``floor(share * n)`` of the ``n`` entries of each network's block."""
    flat = block.reshape(block.shape[0], -1)
    count = flat.shape[1]
    ranks = flat.abs().argsort(dim=1, stable=True).argsort(dim=1)
    return torch.where(ranks < (shares * count).floor(), torch.zeros_like(flat), flat).view(block.shape)


def _like(tensor: Tensor, draw: Callable[..., Tensor], generator: Generator) -> Tensor:
    return draw(tensor.shape, generator=generator, device=tensor.device, dtype=tensor.dtype)
