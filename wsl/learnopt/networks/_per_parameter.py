"""A multilayer perceptron of every weight's own features."""

from collections.abc import Sequence
from typing import Self

from torch import Tensor

from wsl.learnopt.networks._affine import affine, affine_stack, apply_affine, by_lanes, run_affine
from wsl.learnopt.networks._base import UpdateNetwork
from wsl.spec import WeightSpec


class PerParameter(UpdateNetwork):
    """An MLP of every weight's own features, the same for all weights of any architecture.

    Args:
        entry_channels, shared_channels: of the features.
        hidden: width of the hidden layers.
        layers: number of hidden layers, at least one.
        scale: of the output's first parameters, times what a linear layer starts with.

    Source: Metz et al. 2020 (arXiv:2009.11243).
    """

    def __init__(
        self, entry_channels: int, shared_channels: int, hidden: int = 32, layers: int = 3, scale: float = 0.1
    ) -> None:
        super().__init__()
        self.hidden = affine_stack(entry_channels + shared_channels, [hidden] * layers)
        self.output = affine(hidden, 1, scale)

    def forward(self, entries: Tensor, shared: Tensor) -> Tensor:
        weights = [*self.hidden, self.output]
        return by_lanes(_output, self.output.shape[-2], entries, shared, weights)[0]

    def on(self, spec: WeightSpec) -> Self:
        return self


def _output(entries: Tensor, shared: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    hidden = run_affine(entries, shared, weights[:-1])
    return [apply_affine(hidden, weights[-1]).squeeze(-1)]
