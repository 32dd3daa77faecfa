"""What every network of a learned optimizer is: from features of all weights to a number for each."""

from abc import ABC, abstractmethod
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from wsl.spec import SpecError, WeightSpec


class UpdateNetwork(nn.Module, ABC):
    """Base of all update networks; equivariant to permutations of hidden neurons.

    Attributes:
        stacked: whether every parameter may be given with a leading dimension of lanes.
    """

    stacked: ClassVar[bool] = True

    @abstractmethod
    def forward(self, entries: Tensor, shared: Tensor) -> Tensor:
        """A number for every weight ``(L, N)``, from features of each and of all.

        Args:
            entries: ``(L, E, N)``, the weights block after block, as :class:`wsl.learnopt.Entries` has them.
            shared: ``(L, S)``.
        """

    @abstractmethod
    def on(self, spec: WeightSpec) -> Self:
        """This network for another architecture: the same parameters, not copies.

        Raises:
            SpecError: the parameters depend on the architecture.
        """


def other_architecture(network: nn.Module, own: WeightSpec, given: WeightSpec) -> SpecError:
    """The error of a network whose parameters do not fit the architecture that is given."""
    return SpecError(
        f"the parameters of {type(network).__name__} depend on the architecture.\n  its own: {_shapes(own)}\n"
        f"  given: {_shapes(given)}\n  PerParameter, DeepSets and graph metanetworks read any architecture."
    )


def shrink(module: nn.Module, scale: float) -> None:
    """Multiply all parameters."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(scale)


def _shapes(spec: WeightSpec) -> dict[str, tuple[int, ...]]:
    return {name: tensor.shape for name, tensor in spec.tensors.items()}
