"""What every network of a learned optimizer is: from features of all weights to a number for each."""

from abc import ABC, abstractmethod
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from wsl.spec import SpecError, WeightSpec

_SHOWN = 12


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


def other_architecture(
    network: nn.Module, own: WeightSpec, given: WeightSpec, fits: str = "no other one fits"
) -> SpecError:
    """The error of a network whose parameters do not fit the architecture that is given.

    Args:
        fits: which other ones do.
    """
    return SpecError(
        f"the parameters of {type(network).__name__} depend on the architecture; {fits}.\n"
        f"  its own: {_shapes(own)}\n  given: {_shapes(given)}\n"
        "  DeepSetsOptimizer, SmallFCOptimizer, Celo2Optimizer and GraphOptimizer take any architecture."
    )


SAME_LAYERS = "those fit that have the same layers in the same order, of any width"
"""What fits a network whose parameters do not depend on sizes."""


def shrink(module: nn.Module, scale: float) -> None:
    """Multiply all parameters."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(scale)


def _shapes(spec: WeightSpec) -> str:
    shapes = [f"{name} {tuple(tensor.shape)}" for name, tensor in spec.tensors.items()]
    more = f", and {len(shapes) - _SHOWN} more tensors" if len(shapes) > _SHOWN else ""
    return ", ".join(shapes[:_SHOWN]) + more
