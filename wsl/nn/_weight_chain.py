"""Feedforward architectures as a chain of matrices: how equivariant linear layers see a specification."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from torch import Tensor

from wsl.spec import BlockRef, SpecError, WeightSpec

_OTHERS = "Graph metanetworks and universal neural functionals read such networks."


@dataclass(frozen=True)
class ChainBlock:
    """A block of weights whose dimensions are permuted along up to two axes; all others are channels.

    Args:
        key: the block's key in the specification.
        axes: the axes along which it is permuted, in the order of its view.
        sizes: their sizes.
        order: the view dimensions: those of ``axes`` first, then the others.
        rest: sizes of the others: kernel positions, pixels, and axes that stay in place.
    """

    key: str
    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    rest: tuple[int, ...]

    @property
    def multiplicity(self) -> int:
        """How many weights one index of the permuted axes has."""
        return math.prod(self.rest)

    def fold(self, features: Tensor) -> Tensor:
        """``(B, *view, C)`` to ``(B, *sizes, multiplicity * C)``."""
        moved = features.permute(0, *(dim + 1 for dim in self.order), features.dim() - 1)
        return moved.reshape(len(features), *self.sizes, self.multiplicity * features.shape[-1])

    def unfold(self, features: Tensor) -> Tensor:
        """``(B, *sizes, multiplicity * C)`` to ``(B, *view, C)``: the inverse of :meth:`fold`."""
        channels = features.shape[-1] // self.multiplicity
        moved = features.reshape(len(features), *self.sizes, *self.rest, channels)
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return moved.permute(0, *(dim + 1 for dim in back), moved.dim() - 1)


@dataclass(frozen=True)
class ChainAxis:
    """A permuted axis, and what it carries in the order in which the features of its neurons are joined.

    Args:
        name: the axis.
        blocks: the matrices along it, those first that an earlier axis carries too, then the vectors.
        matrices: which ones of the chain's matrices these are.
        counted: how many of them an earlier axis carries too.
    """

    name: str
    blocks: tuple[ChainBlock, ...]
    matrices: tuple[int, ...]
    counted: int

    @property
    def fresh(self) -> tuple[ChainBlock, ...]:
        """The blocks that no earlier axis carries."""
        return self.blocks[self.counted :]


@dataclass(frozen=True, eq=False)
class WeightChain:
    """A feedforward architecture, block by block; make it with :func:`weight_chain`, which caches it.

    Args:
        spec: the specification.
        matrices: the blocks permuted along two axes.
        axes: the permuted axes, in the order of the specification.
        constants: the blocks that no permutation moves.
    """

    spec: WeightSpec
    matrices: tuple[ChainBlock, ...]
    axes: tuple[ChainAxis, ...]
    constants: tuple[ChainBlock, ...]

    @cached_property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """For each matrix which of :attr:`axes` index its rows and its columns."""
        index = {axis.name: i for i, axis in enumerate(self.axes)}
        return tuple((index[block.axes[0]], index[block.axes[1]]) for block in self.matrices)

    @cached_property
    def blocks(self) -> tuple[ChainBlock, ...]:
        """Every block once: the fresh ones of each axis, then the constants."""
        return (*(block for axis in self.axes for block in axis.fresh), *self.constants)


def total_width(blocks: Iterable[ChainBlock]) -> int:
    """The sum of the multiplicities of ``blocks``."""
    return sum(block.multiplicity for block in blocks)


@lru_cache(maxsize=256)
def weight_chain(spec: WeightSpec, *, all_axes: bool = False) -> WeightChain:
    """See ``spec`` as a chain of matrices; cached.

    Args:
        spec: an MLP, or a CNN whose flattened dimensions keep their channels as an axis; biases may be
            missing, and norm parameters, depthwise kernels and tensors without neurons may be present.
        all_axes: whether inputs, outputs and fixed axes are permuted as well as hidden ones; if not they are
            channels, as kernel positions always are.

    Raises:
        SpecError: another topology: families, repeated axes, blocks of three axes, residual connections,
            branches; the message names it.
    """
    for ref in spec.blocks:
        _check_block(spec, ref)
    _check_topology(spec)
    _check_path(spec)
    kept = {axis.name for axis in spec.axes.values() if all_axes or axis.kind == "hidden"}
    blocks = [_chain_block(ref, kept) for ref in spec.blocks]
    matrices, vectors, constants = (
        tuple(block for block in blocks if len(block.axes) == count) for count in (2, 1, 0)
    )
    axes, seen = [], set[int]()
    for name in (name for name in spec.axes if name in kept):
        along = sorted((i for i, b in enumerate(matrices) if name in b.axes), key=lambda i: i not in seen)
        carried = (*(matrices[i] for i in along), *(block for block in vectors if name in block.axes))
        axes.append(ChainAxis(name, carried, tuple(along), len(seen.intersection(along))))
        seen.update(along)
    return WeightChain(spec, matrices, tuple(axes), constants)


def _chain_block(ref: BlockRef, kept: set[str]) -> ChainBlock:
    axes, view = ref.block.axes, ref.block.view
    first = [dim for dim, axis in enumerate(axes) if axis in kept]
    rest = [dim for dim in range(len(view)) if dim not in first]
    return ChainBlock(
        key=ref.key,
        axes=tuple(axes[dim] for dim in first),
        sizes=tuple(view[dim] for dim in first),
        order=(*first, *rest),
        rest=tuple(view[dim] for dim in rest),
    )


def _neurons(ref: BlockRef) -> list[str]:
    return [ref.block.axes[dim] for dim in ref.block.neuron_dims]


def _check_block(spec: WeightSpec, ref: BlockRef) -> None:
    names = _neurons(ref)
    for name in names:
        if family := spec.axes[name].family:
            _refuse(
                f"axis {name} of {ref.key} has the family {', '.join(family)} (as in attention or groups); "
                "families are not supported."
            )
    if len(set(names)) < len(names):
        _refuse(
            f"{ref.key} carries an axis twice ({' '.join(names)}), as in recurrent networks; repeated axes "
            "are not supported."
        )
    if len(names) > 2:
        _refuse(f"{ref.key} carries {len(names)} axes ({' '.join(names)}); matrices have two.")


def _check_topology(spec: WeightSpec) -> None:
    for edge in spec.topology.edges:
        if edge.block is None:
            _refuse(
                f"nodes {edge.source} and {edge.target} are connected without weights, as in residual "
                "networks; residual connections and products are not supported."
            )
    for nodes in spec.topology.nodes:
        if len(nodes.axes) != 1:
            _refuse(f"node set {nodes.name} has {len(nodes.axes)} axes ({' '.join(nodes.axes)}) and not one.")


def _check_path(spec: WeightSpec) -> None:
    """The axes are connected by matrices to a path: each meets at most two of them, and none is apart."""
    matrices = {ref.key: _neurons(ref) for ref in spec.blocks if len(ref.block.neuron_dims) == 2}
    met = Counter(name for names in matrices.values() for name in names)
    for name, count in met.items():
        if count > 2:
            keys = ", ".join(key for key, names in matrices.items() if name in names)
            _refuse(
                f"axis {name} occurs in {count} matrices ({keys}); residual axes, shared ones and branches "
                "are not supported."
            )
    reached = set(list(spec.axes)[:1])
    for _ in spec.axes:
        reached |= {name for names in matrices.values() if reached & set(names) for name in names}
    if apart := [name for name in spec.axes if name not in reached]:
        _refuse(f"no chain of matrices connects axis {next(iter(reached))} with {', '.join(apart)}.")
    if len(matrices) >= max(1, len(spec.axes)):
        _refuse(f"the matrices {', '.join(matrices)} form a circle; branches are not supported.")


def _refuse(reason: str) -> None:
    raise SpecError(f"the network is no chain of layers: {reason}\n  {_OTHERS}")
