"""What every encoder is: a module from weights to features of each weight and each neuron."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from wsl.nn import ProbedModule, ProbeFeatures
from wsl.spec import SpecError, WeightSpec


class WeightFeatures(NamedTuple):
    """What encoders return and heads read.

    Args:
        tensors: for every block key, ``C`` channels for each weight: ``(B, *view, C)``.
        nodes: for every node set of the topology, ``C`` channels for each node: ``(B, n, C)``.
    """

    tensors: Mapping[str, Tensor]
    nodes: Mapping[str, Tensor]


class DeferredTensors(Mapping[str, Tensor]):
    """A mapping that computes each tensor when it is first read: heads pay only for what they use."""

    def __init__(self, makers: Mapping[str, Callable[[], Tensor]]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, Tensor] = {}

    def __getitem__(self, key: str) -> Tensor:
        if key not in self._made:
            self._made[key] = self._makers[key]()
        return self._made[key]

    def __contains__(self, key: object) -> bool:
        return key in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


class Encoder(nn.Module):
    """Base of all encoders: checks weights against a specification, cuts them into standardised blocks.

    Subclasses implement ``forward(weights) -> WeightFeatures`` and start it with :meth:`read`. Weights are
    raw, as in a state dict: ``dict`` of name to ``(B, *shape)``. Statistics are buffers, so checkpoints carry
    them; until :meth:`set_statistics` is called they leave the weights as they are.

    Args:
        spec: the specification of the weights.
        channels: width of all output features.
    """

    probe_features: ClassVar[type[ProbedModule]] = ProbeFeatures
    """What the argument ``probes`` is, in families that have one."""
    mean: Tensor
    std: Tensor

    def __init__(self, spec: WeightSpec, channels: int) -> None:
        super().__init__()
        if channels < 1:
            raise ValueError(f"an encoder needs at least one channel, got channels={channels}.")
        self.spec = spec
        self.channels = channels
        self.register_buffer("mean", torch.zeros(len(spec.blocks)))
        self.register_buffer("std", torch.ones(len(spec.blocks)))

    def set_statistics(self, mean: Mapping[str, Tensor | float], std: Mapping[str, Tensor | float]) -> None:
        """Standardise each block by one mean and one standard deviation, taken over a training split.

        One scalar a block: statistics of single weights would break the equivariance. A block that never
        varies (standard deviation 0) is only centred.

        Raises:
            SpecError: a block key is missing or extra, or a value is not finite, or a deviation is negative.
        """
        means, stds = check_statistics([ref.key for ref in self.spec.blocks], mean, std)
        self.mean.copy_(means)
        self.std.copy_(stds)

    def check(self, weights: Mapping[str, Tensor]) -> int:
        """The number of networks whose weights these are.

        Raises:
            SpecError: a tensor is missing, extra, of another shape, or of another type than the encoder.
        """
        count = self.spec.check_weights(weights)
        for name, tensor in weights.items():
            if tensor.dtype != self.mean.dtype:
                raise SpecError(
                    f"{name} has type {tensor.dtype}, but the encoder has {self.mean.dtype}; convert the "
                    f"weights, or the encoder with encoder.to({tensor.dtype})."
                )
        return count

    def read(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Check ``weights`` and cut them into standardised blocks ``(B, *view)``, by block key.

        Raises:
            SpecError: as :meth:`check`.
        """
        self.check(weights)
        blocks = self.spec.split(weights)
        return {key: (block - self.mean[i]) / self.std[i] for i, (key, block) in enumerate(blocks.items())}

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        """Encode weights ``(B, *shape)``."""
        raise NotImplementedError

    def _twin(self, spec: WeightSpec) -> Self:
        """For families whose parameters fit any ``spec``: the same ones (not copies), fresh statistics."""
        twin = copy.copy(self)
        twin._modules, twin._buffers = self._modules.copy(), self._buffers.copy()
        twin.spec = spec
        for name, fill in (("mean", 0.0), ("std", 1.0)):
            twin.register_buffer(name, self.get_buffer(name).new_full((len(spec.blocks),), fill))
        return twin


def check_statistics(
    keys: Sequence[str], mean: Mapping[str, Tensor | float], std: Mapping[str, Tensor | float]
) -> tuple[Tensor, Tensor]:
    """Means and deviations in the order of ``keys``, float64; deviations of 0 become 1.

    Raises:
        SpecError: a key is missing or extra, or a value is not finite, or a deviation is negative.
    """
    checked = {}
    for name, given in (("mean", mean), ("std", std)):
        if wrong := sorted(set(keys).symmetric_difference(given)):
            raise SpecError(
                f"{name} must hold one value for each block of the spec; missing or extra: {wrong}."
            )
        values = torch.tensor([float(given[key]) for key in keys], dtype=torch.float64)
        bad = ~values.isfinite() | ((values < 0) & (name == "std"))
        if bad.any():
            shown = {key: value.item() for key, value, b in zip(keys, values, bad, strict=True) if b}
            raise SpecError(
                f"{name} is not finite or is negative for {shown}; are there NaN weights in the split?"
            )
        checked[name] = values
    return checked["mean"], torch.where(checked["std"] == 0, 1, checked["std"])
