"""Networks between two others, with labels between theirs."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from wsl import symmetry
from wsl.align import weight_matching
from wsl.augment._base import Augmentation, AugmentError, Networks, Weights, expect


@dataclass(frozen=True)
class MixUp(Augmentation):
    """Mix each network of the batch with another one as it is, and their labels by the same share.

    Labels of classes become probabilities ``(B, classes)``; labels that are numbers stay ``(B,)``. Networks
    are mixed within one architecture: in batches of several, each group among itself. A network that is
    alone stays as it is.

    Args:
        alpha: the share of the network itself is drawn from Beta(alpha, alpha), for each one apart.

    Source: Zhang et al. 2018 (arXiv:1710.09412); of weights, Shamsian et al. 2024 (arXiv:2402.04081).
    """

    preserves_function: ClassVar[bool] = False
    mixes_labels: ClassVar[bool] = True
    alpha: float = 1.0

    def __post_init__(self) -> None:
        expect(self.alpha > 0, f"{type(self).__name__}: alpha is {self.alpha}; expected one above 0.")

    def __call__(self, networks: Networks, generator: Generator) -> Networks:
        labels = _soft_labels(networks)
        if len(networks) < 2:
            return networks.having(dict(networks.weights), labels)
        partners = _partners(len(networks), generator)
        theirs = {name: tensor[partners] for name, tensor in networks.weights.items()}
        theirs = self.move(networks, theirs, generator)
        shares = self._shares(len(networks), generator)
        weights = {name: _between(shares, tensor, theirs[name]) for name, tensor in networks.weights.items()}
        mixed = None if labels is None else _between(shares, labels, labels[partners])
        return networks.having(weights, mixed)

    def move(self, networks: Networks, partners: Weights, generator: Generator) -> Weights:
        """The partners ``(B, *shape)`` of the networks, moved along their orbits before they are mixed in."""
        return partners

    def _shares(self, count: int, generator: Generator) -> Tensor:
        """``(count,)`` draws from Beta(alpha, alpha), float64, by logarithms: small alphas underflow."""
        alphas = torch.full((2, count), self.alpha, device=generator.device, dtype=torch.float64)
        uniform = torch.rand(2, count, generator=generator, device=generator.device, dtype=torch.float64)
        # A Gamma(alpha) variable is one of Gamma(alpha + 1) times U^(1 / alpha).
        larger = torch._standard_gamma(alphas + 1, generator=generator)
        own, other = larger.log() + uniform.clamp(min=1e-300).log() / self.alpha
        return (own - other).sigmoid()


@dataclass(frozen=True)
class PermutedMixUp(MixUp):
    """:class:`MixUp` with another network whose neurons are put into a random order first."""

    def move(self, networks: Networks, partners: Weights, generator: Generator) -> Weights:
        action = symmetry.sample(networks.spec, len(networks), generator=generator)
        return symmetry.apply(networks.spec, action, partners)


@dataclass(frozen=True)
class AlignedMixUp(MixUp):
    """:class:`MixUp` with another network that :func:`wsl.align.weight_matching` aligns first."""

    def move(self, networks: Networks, partners: Weights, generator: Generator) -> Weights:
        action = weight_matching(networks.spec, networks.weights, partners)
        return symmetry.apply(networks.spec, action, partners)


def _soft_labels(networks: Networks) -> Tensor | None:
    labels = networks.labels
    if labels is None or labels.is_floating_point():
        return labels
    if networks.classes is None:
        raise AugmentError(
            "labels of classes cannot be mixed: it is not said how many classes there are.\n"
            "  Pass classes= to Networks, or floating-point labels."
        )
    return F.one_hot(labels, networks.classes).to(torch.get_default_dtype())


def _partners(count: int, generator: Generator) -> Tensor:
    """``(count,)``: another network for each, every one once."""
    order = torch.randperm(count, generator=generator, device=generator.device)
    partners = torch.empty_like(order)
    partners[order] = order.roll(1)
    return partners


def _between(shares: Tensor, own: Tensor, other: Tensor) -> Tensor:
    share = shares.to(own).view(-1, *[1] * (own.dim() - 1))
    return share * own + (1 - share) * other
