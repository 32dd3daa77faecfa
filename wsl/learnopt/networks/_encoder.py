"""Any encoder as an update network."""

import copy
from typing import Self

import torch
from torch import Tensor, nn

from wsl.encoders import Encoder, reads_any_spec
from wsl.learnopt._entries import Entries
from wsl.learnopt.networks._affine import affine, apply_affine, run_affine
from wsl.learnopt.networks._base import UpdateNetwork, other_architecture
from wsl.spec import WeightSpec


class EncoderNetwork(UpdateNetwork):
    """Reads the features of weights with an encoder.

    Encoders take a number for every weight, so an MLP of each weight's features makes ``numbers`` of them,
    which the encoder reads as the weights of as many networks. What it says of a weight in all of these goes
    with the weight's own features through another MLP. Needs no statistics: numbers are of order one.

    Every encoder works with parameters of each lane's own, by :meth:`Optimizer.update_each`, lane by lane. By
    ``torch.func.vmap`` those do that consist of torch's operators: DeepSets, FastGraphMetanetwork, FlatMLP,
    NeuralGraphTransformer, ProbeGen, StatNet and UniversalNeuralFunctional; in the others torch names the
    hand-derived gradient or the fused attention that stops it.

    FlatMLP and Transformer are not equivariant, so neither is an optimizer with them.

    Args:
        encoder: equivariant; its specification is that of the weights.
        entry_channels, shared_channels: of the features.
        numbers: how many networks the encoder reads a lane.
        hidden: width of both MLPs.
        scale: of the output's first parameters, times what a linear layer starts with.
    """

    stacked = False

    def __init__(
        self,
        encoder: Encoder,
        entry_channels: int,
        shared_channels: int,
        numbers: int = 4,
        hidden: int = 32,
        scale: float = 0.1,
    ) -> None:
        super().__init__()
        if numbers < 1:
            raise ValueError(f"EncoderNetwork needs at least one number a weight, got numbers={numbers}.")
        self.entries = Entries(encoder.spec)
        self.encoder, self.numbers = encoder, numbers
        channels = entry_channels + shared_channels
        self.reader = nn.ParameterList([affine(channels, hidden), affine(hidden, numbers)])
        self.head = nn.ParameterList(
            [affine(numbers * encoder.channels + channels, hidden), affine(hidden, 1, scale)]
        )

    def forward(self, entries: Tensor, shared: Tensor) -> Tensor:
        lanes = len(entries)
        numbers = _mlp(entries, shared, self.reader)
        weights = self.entries.unflatten(numbers.mT.flatten(0, 1))
        features = self.encoder(weights).tensors
        keys = [ref.key for ref in self.entries.blocks]
        read = self.entries.join([features[key] for key in keys]).unflatten(0, (lanes, self.numbers))
        joined = torch.cat([read.transpose(2, 3).flatten(1, 2), entries], dim=1)
        return _mlp(joined, shared, self.head).squeeze(-1)

    def on(self, spec: WeightSpec) -> Self:
        if spec == self.entries.spec:
            return self
        if not reads_any_spec(type(self.encoder)):
            raise other_architecture(self.encoder, self.entries.spec, spec)
        twin = copy.copy(self)
        twin._modules = self._modules.copy()
        twin.encoder = self.encoder.for_spec(spec)  # type: ignore[operator]
        twin.entries = Entries(spec)
        return twin


def _mlp(entries: Tensor, shared: Tensor, weights: nn.ParameterList) -> Tensor:
    return apply_affine(run_affine(entries, shared, [weights[0]]), weights[1])
