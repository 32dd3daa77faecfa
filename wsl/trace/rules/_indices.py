"""Where indices point to: dims that they take, and dims that stay."""

from collections.abc import Sequence

import torch
from torch import Tensor

from wsl.trace._axes import Dim, size_of
from wsl.trace._facts import Value
from wsl.trace._recorder import Recorder, Unsupported


class Positions:
    """Where a list of indices, with ``None`` for whole dims, points to in a tensor; fixes the dims it takes.

    Attributes:
        taken: the dims that are indexed.
        values: of the indices.
        dims: what stands in the place of the taken ones; ``None`` where a mask selects entries in order.
        layout: of the result; dims of the tensor by position, dims of the indices by ``("index", j)``.
    """

    def __init__(self, trace: Recorder, x: Value, indices: Sequence[Tensor | None]) -> None:
        self.taken: list[int] = []
        self.values: list[Value] = []
        masked, at, count = False, 0, 0
        for index in indices:
            if index is None:
                at += 1
                continue
            mask = index.dtype in (torch.bool, torch.uint8)
            masked |= mask
            count = max(count, 1 if mask else index.dim())
            width = index.dim() if mask else 1
            if not width:
                raise Unsupported
            self.taken += range(at, at + width)
            self.values.append(trace.value(index))
            at += width
        if not self.taken:
            raise Unsupported
        for dim in (x.dims[i] for i in self.taken):
            trace.fix(dim)
        for dim in [dim for value in self.values for dim in value.dims] if masked else ():
            trace.fix(dim)
        self.dims = [None] * count if masked else list(trace.broadcast(self.values))
        kept = [i for i in range(len(x.dims)) if i not in self.taken]
        first, last = self.taken[0], self.taken[-1]
        adjacent = last - first + 1 == len(self.taken)
        before = [i for i in kept if i < first] if adjacent else []
        self.layout: list[int | tuple[str, int]] = [
            *before,
            *(("index", j) for j in range(count)),
            *(i for i in kept if i not in before),
        ]

    def dim(self, x: Value, label: int | tuple[str, int]) -> Dim | None:
        """The dim at ``label``; ``None`` where a mask selects."""
        return x.dims[label] if isinstance(label, int) else self.dims[label[1]]


def align_along(trace: Recorder, x: Value, others: Sequence[Value], dim: int) -> tuple[int | None, ...]:
    """Fix ``dim`` of ``x``, and tie the other dims of ``x`` to those of ``others``.

    Returns:
        Labels: none for ``dim``, nor for dims of which only a part is used, which are fixed.
    """
    trace.fix(x.dims[dim])
    labels: list[int | None] = []
    for i, wanted in enumerate(x.dims):
        here = [value.dims[i] for value in others]
        alike = all(size_of(other) == size_of(wanted) for other in here)
        labels.append(i if alike and i != dim else None)
        for other in here if i != dim else ():
            if alike:
                trace.unify(wanted, other)
            else:
                trace.fix(wanted)
                trace.fix(other)
    return tuple(labels)
