"""The weights of each block as a set."""

import copy
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from wsl.learnopt._entries import Entries
from wsl.learnopt.networks._affine import affine, affine_stack, apply_affine, by_lanes
from wsl.learnopt.networks._base import UpdateNetwork
from wsl.spec import WeightSpec


class DeepSets(UpdateNetwork):
    """Each weight, and the mean of all weights of its block: layers ``relu(A h_i + B mean_j h_j + c)``.

    No parameter depends on the architecture. It does not know which weights belong to one neuron.

    Args:
        spec: the specification of the weights.
        entry_channels, shared_channels: of the features.
        hidden: width of the hidden layers.
        layers: number of hidden layers, at least one.
        scale: of the output's first parameters, times what a linear layer starts with.

    Source: Zaheer et al. 2017, section 3.2 (arXiv:1703.06114), with means.
    """

    def __init__(
        self,
        spec: WeightSpec,
        entry_channels: int,
        shared_channels: int,
        hidden: int = 32,
        layers: int = 3,
        scale: float = 0.1,
    ) -> None:
        super().__init__()
        self.entries = Entries(spec)
        self.hidden = affine_stack(2 * entry_channels + shared_channels, [hidden])
        self.hidden.extend(affine(2 * hidden, hidden) for _ in range(layers - 1))
        self.output = affine(2 * hidden, 1, scale)

    def forward(self, entries: Tensor, shared: Tensor) -> Tensor:
        weights = [*self.hidden, self.output]
        return by_lanes(self._run, self.output.shape[-2] // 2, entries, shared, weights)[0]

    def _run(self, entries: Tensor, shared: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
        parts = []
        for part in entries.mT.split(self.entries.sizes, dim=1):
            hidden = apply_affine(part, weights[0], torch.cat([part.mean(1), shared], dim=-1))
            for weight in weights[1:]:
                hidden = hidden.relu_()
                hidden = apply_affine(hidden, weight, hidden.mean(1))
            parts.append(hidden)
        return [torch.cat(parts, dim=1).squeeze(-1)]

    def on(self, spec: WeightSpec) -> Self:
        twin = copy.copy(self)
        twin.entries = Entries(spec)
        return twin
