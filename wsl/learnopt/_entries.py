"""The trained weights of an architecture as one row of entries, block after block."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from wsl.learnopt._types import Tensors
from wsl.spec import SpecError, WeightSpec, is_running_statistic, part_of


class Entries:
    """Where the entries of every block are in a row; running statistics, which are not trained, have none.

    Args:
        spec: the specification of the weights.

    Attributes:
        blocks: the trained blocks, in the order of the row.
        sizes: how many entries each has.
        count: how many entries there are, ``N``.

    Raises:
        SpecError: nothing in ``spec`` is trained.
    """

    def __init__(self, spec: WeightSpec) -> None:
        self.spec = spec
        self.blocks = tuple(ref for ref in spec.blocks if not is_running_statistic(ref.tensor))
        self.names = tuple(dict.fromkeys(ref.tensor for ref in self.blocks))
        self.sizes = [math.prod(ref.block.view) for ref in self.blocks]
        self.count = sum(self.sizes)
        if not self.count:
            raise SpecError(f"the spec has no weights to train; its tensors: {', '.join(spec.tensors)}.")

    def check(self, weights: Tensors) -> None:
        """Check names and shapes of ``(L, *shape)`` tensors; running statistics may be there or not.

        Raises:
            SpecError: a tensor is missing, extra, or of another shape than the spec says.
        """
        lanes = len(next(iter(weights.values()), torch.empty(0)))
        left = {name: spec for name, spec in self.spec.tensors.items() if name not in self.names}
        zeros = {name: torch.zeros(()).expand(lanes, *spec.shape) for name, spec in left.items()}
        self.spec.check_weights({**zeros, **weights})

    def flatten(self, weights: Tensors) -> Tensor:
        """``(L, N)``: the entries of tensors ``(L, *shape)``."""
        parts = []
        for ref in self.blocks:
            stored, tensor = weights[ref.tensor], self.spec.tensors[ref.tensor]
            part = part_of(tensor, ref.block, stored) if len(tensor.blocks) > 1 else stored
            parts.append(part.reshape(len(stored), -1))
        return torch.cat(parts, dim=1)

    def unflatten(self, row: Tensor) -> Tensors:
        """``(L, N)`` to tensors ``(L, *shape)`` by name: the inverse, with zeros for running statistics."""
        blocks = dict(zip((ref.key for ref in self.blocks), self.views(row), strict=True))
        for ref in self.spec.blocks:
            if ref.key not in blocks:
                blocks[ref.key] = row.new_zeros(len(row), *ref.block.view)
        return self.spec.join(blocks)

    def views(self, row: Tensor) -> list[Tensor]:
        """``(L, N, ...)`` cut into blocks ``(L, *view, ...)``."""
        return [
            part.reshape(len(row), *ref.block.view, *row.shape[2:])
            for ref, part in zip(self.blocks, row.split(self.sizes, dim=1), strict=True)
        ]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Blocks ``(L, *view, C)`` to ``(L, N, C)``."""
        return torch.cat([part.reshape(len(part), -1, part.shape[-1]) for part in parts], dim=1)

    def means(self, row: Tensor) -> Tensor:
        """``(..., N)`` to the mean over each block ``(..., blocks)``."""
        return torch.stack([part.mean(-1) for part in row.split(self.sizes, dim=-1)], dim=-1)

    def spread(self, values: Tensor) -> Tensor:
        """``(..., blocks)`` to the value of its block for each entry ``(..., N)``."""
        parts = values.split(1, dim=-1)
        wide = [part.expand(*part.shape[:-1], size) for part, size in zip(parts, self.sizes, strict=True)]
        return torch.cat(wide, dim=-1)

    def normalise(self, row: Tensor, floor: float | Tensor) -> Tensor:
        """``(..., N)`` over its root mean square over each block.

        Args:
            floor: what the mean square is increased by, a number or ``(..., 1)``.
        """
        parts = row.split(self.sizes, dim=-1)
        scaled = [part * (part.square().mean(-1, keepdim=True) + floor).rsqrt() for part in parts]
        return torch.cat(scaled, dim=-1)
