"""Which part of the computational graph each block of a specification becomes."""

import itertools
import math
from collections import Counter, deque
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from torch import Tensor

from wsl.spec import BlockRef, WeightSpec

ROLES = ("weight", "bias", "running_mean", "running_var", "other")


@dataclass(frozen=True)
class GraphBlock:
    """One block of a tensor as a part of the graph.

    A block with one neuron axis holds node features, one with two holds edges, one with more holds hyperedges
    (as in grouped convolutions); a block without neurons holds features of the whole network.

    Args:
        key: the block's key in the specification.
        role: last component of the tensor's name if that is one of ``ROLES``, else ``other``.
        axes: the neuron axes, in the order of the view.
        targets: for every axis, whether it lies on the first stored dimension: the neurons that the weights
            feed (targets), against those that they read (sources), as ``Linear`` and ``Conv`` store them. In
            tensors stored the other way round the two directions change places, which equivariance allows.
        positions: sizes of the view dimensions without neurons, such as kernel positions.
        order: view dimensions, those with neurons first.
        occurrence: how many earlier blocks have the same axes, targets and role; tells apart blocks such as
            a layer's bias and the bias of the normalisation after it.
    """

    key: str
    role: str
    axes: tuple[str, ...]
    targets: tuple[bool, ...]
    positions: tuple[int, ...]
    order: tuple[int, ...]
    occurrence: int

    @property
    def position_count(self) -> int:
        """Number of weights on every node or edge."""
        return math.prod(self.positions)

    def to_graph(self, values: Tensor) -> Tensor:
        """Reorder ``(B, *view)`` to ``(B, n_1, ..., n_k, K)`` with all ``K`` positions last."""
        moved = values.permute(0, *(i + 1 for i in self.order))
        return moved.reshape(*moved.shape[: len(self.axes) + 1], self.position_count)

    def from_graph(self, values: Tensor) -> Tensor:
        """The inverse of :meth:`to_graph`: ``(B, n_1, ..., n_k, K, *rest)`` to ``(B, *view, *rest)``."""
        k = len(self.axes)
        apart = values.reshape(*values.shape[: k + 1], *self.positions, *values.shape[k + 2 :])
        inverse = [self.order.index(i) + 1 for i in range(len(self.order))]
        return apart.permute(0, *inverse, *range(len(self.order) + 1, apart.dim()))


@dataclass(frozen=True, eq=False)
class GraphLayout:
    """The computational graph of an architecture, without weights.

    Nodes are the neurons of every axis; ``blocks`` says what each block of the specification becomes. Make it
    with :func:`graph_layout`, which caches it.
    """

    spec: WeightSpec
    blocks: tuple[GraphBlock, ...]

    @cached_property
    def edges(self) -> tuple[GraphBlock, ...]:
        """Blocks with two neuron axes or more."""
        return tuple(block for block in self.blocks if len(block.axes) > 1)

    @cached_property
    def nodes(self) -> tuple[GraphBlock, ...]:
        """Blocks with one neuron axis."""
        return tuple(block for block in self.blocks if len(block.axes) == 1)

    @cached_property
    def globals(self) -> tuple[GraphBlock, ...]:
        """Blocks without neurons."""
        return tuple(block for block in self.blocks if not block.axes)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where the neurons of every axis lie in the list of all nodes."""
        stops = list(itertools.accumulate(axis.size for axis in self.spec.axes.values()))
        return {
            axis.name: slice(stop - axis.size, stop)
            for axis, stop in zip(self.spec.axes.values(), stops, strict=True)
        }

    @cached_property
    def fan_in(self) -> Counter[tuple[str, bool]]:
        """How many edge blocks reach an axis as a target (``True``) or as a source (``False``)."""
        return Counter(end for block in self.edges for end in zip(block.axes, block.targets, strict=True))

    @cached_property
    def depths(self) -> dict[str, tuple[int | None, int | None]]:
        """For every axis its graph distance from the inputs and to the outputs; ``None`` if unreachable."""
        from_input, to_output = self._distances("input"), self._distances("output")
        return {axis: (from_input.get(axis), to_output.get(axis)) for axis in self.spec.axes}

    def _distances(self, kind: str) -> dict[str, int]:
        found = {axis.name: 0 for axis in self.spec.axes.values() if axis.kind == kind}
        queue = deque(found)
        while queue:
            axis = queue.popleft()
            for block in self.edges:
                for other in block.axes if axis in block.axes else ():
                    if other not in found:
                        found[other] = found[axis] + 1
                        queue.append(other)
        return found


@lru_cache(maxsize=256)
def graph_layout(spec: WeightSpec) -> GraphLayout:
    """Derive the computational graph of ``spec``; cached, as every forward pass asks for it."""
    seen: Counter[tuple[object, ...]] = Counter()
    blocks = []
    for ref in spec.blocks:
        stored = _stored_dims(spec, ref)
        neurons = ref.block.neuron_dims
        rest = tuple(i for i in range(len(ref.block.view)) if i not in neurons)
        axes = tuple(ref.block.axes[i] for i in neurons)
        targets = tuple(stored[i] == 0 for i in neurons)
        last = ref.tensor.rsplit(".", 1)[-1]
        role = last if last in ROLES else ROLES[-1]
        kind = (axes, targets, role)
        positions = tuple(ref.block.view[i] for i in rest)
        blocks.append(GraphBlock(ref.key, role, axes, targets, positions, neurons + rest, seen[kind]))
        seen[kind] += 1
    return GraphLayout(spec, tuple(blocks))


def _stored_dims(spec: WeightSpec, ref: BlockRef) -> list[int]:
    """The stored dimension that each view dimension of a block comes from."""
    tensor = spec.tensors[ref.tensor]
    index = tensor.blocks.index(ref.block)
    terms = np.unravel_index(index, tuple(len(dim) for dim in tensor.dims)) if tensor.dims else ()
    return [d for d, (dim, term) in enumerate(zip(tensor.dims, terms, strict=True)) for _ in dim[int(term)]]
