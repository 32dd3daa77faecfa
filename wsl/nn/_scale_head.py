"""The head of encoders that know about scalings: an update that is scaled along with the weights."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from wsl.spec import SpecError, WeightSpec


class EquivariantFeatures(Protocol):
    """What the head reads: fields of :class:`wsl.encoders.ScaleFeatures`."""

    @property
    def tensors(self) -> Mapping[str, Tensor]: ...

    @property
    def carriers(self) -> Mapping[str, Tensor]: ...


class ScaleEquivariantHead(nn.Module):
    """An update of every weight, permuted, rescaled and flipped along with the weights.

    With ``x`` the invariant features of a weight and ``c`` its carriers, which are scaled as it is, the
    update is ``gain * sum_k c_k MLP(x)_k / C``: a linear map of an equivariant state, that invariants choose.
    One MLP for all weights, and a learned gain for each block. The update starts small (``scale``).

    Args:
        spec: the specification of the weights; only the gains depend on it.
        channels: width of the encoder's output.
        scale: initial gain.

    Shapes: ``ScaleFeatures`` of ``B`` networks to a ``dict`` of name to ``(B, *shape)``, as the weights.

    Raises:
        SpecError: the features have no carriers: the encoder is not equivariant to scalings.

    Source: the equivariant readout of Kalogeropoulos et al. 2024 (arXiv:2406.10685).
    """

    def __init__(self, spec: WeightSpec, channels: int, scale: float = 0.01) -> None:
        super().__init__()
        self.spec = spec
        self.layers = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))
        self.gain = nn.Parameter(torch.full((len(spec.blocks),), scale))

    def forward(self, features: EquivariantFeatures) -> dict[str, Tensor]:
        if not hasattr(features, "carriers"):
            raise SpecError(
                "the encoder's features do not say how weights are scaled; only those of encoders that are "
                "equivariant to scalings do, such as ScaleGMN.\n  Use EquivariantHead for other encoders."
            )
        blocks = {}
        for i, ref in enumerate(self.spec.blocks):
            gates = self.layers(features.tensors[ref.key])
            blocks[ref.key] = (features.carriers[ref.key] * gates).mean(-1) * self.gain[i]
        return self.spec.join(blocks)
