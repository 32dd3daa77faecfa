"""A universal linear layer to one channel: features are mapped before they are averaged."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from wsl.nn._universal import UniversalLinear
from wsl.nn._universal_moves import diagonal, fill
from wsl.nn._universal_terms import Selection


class _Read(NamedTuple):
    """What of one tensor is averaged alike.

    Args:
        group: which of the layer's groups it is for.
        first: the column of the group's parameters where those of this source begin.
        selection: how the tensor is read.
    """

    group: int
    first: int
    selection: Selection


class NarrowUniversal:
    """What a universal layer with one output channel does, for a fraction of its memory traffic.

    Equal to the layer up to rounding. Parameters are given with every call: those of the layer, or those of
    each network of a batch, with one more dimension in front.

    Args:
        layer: with one output channel, and one copy of the channels of each tensor.

    Raises:
        ValueError: another layer.
    """

    def __init__(self, layer: UniversalLinear) -> None:
        sources = [source for group in layer.groups for source in group.sources]
        if layer.out_channels != 1 or any(source.width != 1 for source in sources):
            raise ValueError(f"expected one output channel and one copy of the channels, got {layer}.")
        self.groups, self.shapes, self.channels = layer.groups, layer.shapes, layer.in_channels
        self.reads: list[list[_Read]] = [[] for _ in layer.readers]
        for index, group in enumerate(layer.groups):
            for i, source in enumerate(group.sources):
                self.reads[source.tensor].append(_Read(index, i * self.channels, source.selection))

    def columns(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """What the channels of each tensor are mapped by, for all that it is read for.

        Args:
            weights: ``layer.weights``.

        Returns:
            ``(J, C)`` for every tensor, or ``(B, J, C)`` of each network's own.
        """
        found = []
        for reads in self.reads:
            parts = [weights[r.group][..., r.first : r.first + self.channels] for r in reads]
            lanes = next((part.shape[:1] for part in parts if part.dim() > 2), torch.Size())
            found.append(torch.cat([part.expand(*lanes, *part.shape[-2:]) for part in parts], dim=-2))
        return found

    def combine(self, mapped: Sequence[Tensor], bias: Tensor) -> list[Tensor]:
        """What the layer gives for its inputs.

        Args:
            mapped: every input after its columns, ``(B, J, *sizes)``.
            bias: ``layer.bias``.

        Returns:
            ``(B, *sizes, 1)`` for every output.
        """
        sums: dict[int, Tensor] = {}
        for reads, tensor in zip(self.reads, mapped, strict=True):
            widths = [len(self.groups[read.group].targets) for read in reads]
            for read, part in zip(reads, tensor.split(widths, dim=1), strict=True):
                value = _average(part, read.selection)
                sums[read.group] = sums[read.group] + value if read.group in sums else value
        pieces: list[dict[Selection, Tensor]] = [{} for _ in self.shapes]
        for index, total in sums.items():
            group = self.groups[index]
            total = total if group.pattern else total + bias
            for target, piece in zip(group.targets, total.unbind(1), strict=True):
                pieces[target.tensor][target.selection] = piece.unsqueeze(-1)
        return [fill(shape, found) for shape, found in zip(self.shapes, pieces, strict=True)]


def _average(values: Tensor, selection: Selection) -> Tensor:
    """``(B, J, *sizes)`` on diagonals, averaged over what a selection does not keep: ``(B, J, *kept)``."""
    parts, kept = selection
    if any(len(part) > 1 for part in parts):
        values = diagonal(values.movedim(1, -1), parts).movedim(-1, 1)
    gone = [part + 2 for part in range(len(parts)) if part not in kept]
    if gone:
        values = values.mean(gone)
    ascending = sorted(kept)
    return values.permute(0, 1, *(ascending.index(part) + 2 for part in kept))
