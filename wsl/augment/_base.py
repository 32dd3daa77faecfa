"""What augmentations act on, and what each says of itself."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Generator, Tensor, nn

from wsl.spec import WeightSpec

Weights = dict[str, Tensor]


class AugmentError(ValueError):
    """An augmentation's arguments make no sense, or it cannot act on these networks."""


@dataclass(frozen=True, eq=False)
class Networks:
    """A batch of one architecture, with what augmentations may need to know of it.

    Args:
        spec: the architecture.
        weights: ``(B, *shape)`` for each tensor of ``spec``.
        labels: ``(B,)`` whole numbers for classes, or numbers; ``(B, classes)`` probabilities after
            augmentations that mix networks.
        classes: how many classes the labels tell apart; only those that mix need it.
        std: standard deviation of each block of ``spec`` over the train split, by key; only noise needs it.
        module: a network of the architecture, whatever its weights; only those that act on it need it.
    """

    spec: WeightSpec
    weights: Mapping[str, Tensor]
    labels: Tensor | None = None
    classes: int | None = None
    std: Mapping[str, float] | None = None
    module: nn.Module | None = None

    def __len__(self) -> int:
        return next(iter(self.weights.values())).shape[0]

    def having(self, weights: Weights, labels: Tensor | None = None) -> "Networks":
        """The same with other weights, and other labels if given."""
        return replace(self, weights=weights, labels=self.labels if labels is None else labels)


class Augmentation(ABC):
    """A random change of a batch of networks.

    Attributes:
        preserves_function: whether every network computes what it did before, up to rounding; no, unless
            a class says so.
        reads_module: whether :attr:`Networks.module` is needed.
        mixes_labels: whether labels of classes become probabilities.
    """

    preserves_function: ClassVar[bool] = False
    reads_module: ClassVar[bool] = False
    mixes_labels: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, networks: Networks, generator: Generator) -> Networks:
        """Change each network by its own draw; those that are given are left as they are.

        Args:
            generator: everything random is drawn from it, on its device, which is that of the weights.

        Raises:
            AugmentError: the networks lack what it needs, or it cannot act on them.
        """

    def check(self, module: nn.Module) -> None:  # noqa: B027
        """Raise :class:`AugmentError` if it cannot act on such networks, before a run starts."""


def augment(networks: Networks, augmentations: Sequence[Augmentation], *, generator: Generator) -> Networks:
    """Apply ``augmentations`` in order; see :class:`Augmentation`."""
    for augmentation in augmentations:
        networks = augmentation(networks, generator)
    return networks


def expect(valid: bool, message: str) -> None:
    """Raise :class:`AugmentError` with this message unless ``valid``."""
    if not valid:
        raise AugmentError(message)
