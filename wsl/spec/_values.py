"""The parts of a weight-space specification: axes, tensors, blocks, scalings, notes; frozen, without data."""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from wsl.spec._dims import Dim, Piece, Term, factors_of, pieces

AxisKind = Literal["hidden", "input", "output", "fixed"]
ScalingKind = Literal["linear", "positive", "sign"]
AXIS_KINDS = ("hidden", "input", "output", "fixed")
SCALING_KINDS = ("linear", "positive", "sign")
ANONYMOUS = "_"


class SpecError(ValueError):
    """A specification is malformed, or weights do not fit the specification that they are used with."""


@dataclass(frozen=True)
class Axis:
    """A neuron axis: an index set that dimensions of several tensors share.

    Args:
        name: identifier, unique within a specification; never ``_``.
        size: number of neurons, at least 1.
        kind: ``hidden`` axes may be permuted; ``input``, ``output`` and ``fixed`` ones may not.
        activation: the non-linearity between the tensors that produce the axis and those that consume it
            (``"relu"``, ``"sin"``, …), or ``None``.
        scaling: ``linear`` if any invertible matrix may act along the axis, ``positive`` if a neuron may be
            rescaled by any positive factor, ``sign`` if only its sign may be flipped, ``None`` if none of
            them leaves the function unchanged; the strongest that holds. :class:`Scaling` says how.
        family: names of other axes. A hidden axis with a family has an independent permutation (and scaling)
            for each combination of their indices, as the inner dimension of attention has for each head: a
            wreath product. Written where the axis is used, as in ``d1[h1]``.

    Raises:
        SpecError: a name that is no identifier, a size below 1, an unknown kind or scaling, a family that
            names the axis itself, an axis twice, or belongs to an axis that is not hidden.
    """

    name: str
    size: int
    kind: AxisKind
    activation: str | None = None
    scaling: ScalingKind | None = None
    family: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise SpecError(
                f"{self.name!r} is no axis name: use letters, digits, dots and underscores, as in 'h1'."
            )
        if self.size < 1:
            raise SpecError(f"axis {self.name} has size {self.size}; an axis holds at least one neuron.")
        if self.kind not in AXIS_KINDS:
            raise SpecError(
                f"axis {self.name} has kind {self.kind!r}, which is none of {', '.join(AXIS_KINDS)}."
            )
        if self.scaling is not None and self.scaling not in SCALING_KINDS:
            raise SpecError(
                f"axis {self.name} has scaling {self.scaling!r}; it is linear, positive, sign or None."
            )
        check_activation(f"axis {self.name}", self.activation)
        if self.name in self.family or len(set(self.family)) < len(self.family):
            raise SpecError(
                f"axis {self.name} has the family {', '.join(self.family)}; name other axes, each once."
            )
        if self.family and self.kind != "hidden":
            raise SpecError(
                f"axis {self.name} is {self.kind} and has the family {', '.join(self.family)}; only hidden"
                " axes are permuted, so only they can have a permutation for each index of others."
            )


@dataclass(frozen=True)
class Block:
    """A part of a stored tensor whose dimensions each belong to one axis.

    Args:
        slice: ``(start, stop)`` for every stored dimension, which the block fills, or with ``strides`` spans.
        view: shape of the part with products of axes pulled apart.
        axes: for every view dimension the name of its axis, or ``_`` where no neurons are indexed.
        strides: for every view dimension, how many indices of its stored dimension a step along it is; given
            if and only if other blocks lie in between, as within each head of ``(h1 (a + b))``.
    """

    slice: tuple[tuple[int, int], ...]
    view: tuple[int, ...]
    axes: tuple[str, ...]
    strides: tuple[int, ...] = ()

    @property
    def neuron_dims(self) -> tuple[int, ...]:
        """The view dimensions that index neurons."""
        return tuple(i for i, axis in enumerate(self.axes) if axis != ANONYMOUS)


class BlockRef(NamedTuple):
    """A block and where it lies: ``key`` is the tensor's name, or ``name[i]`` where it has several blocks."""

    key: str
    tensor: str
    block: Block


@dataclass(frozen=True)
class TensorSpec:
    """The axes of one stored tensor.

    Args:
        shape: the stored shape, without a leading dimension for networks.
        dims: one expression a stored dimension: a sum (concatenation) of products of factors; a factor is the
            name of an axis, an anonymous size (kernel positions, pixels), or again such a sum.
        blocks: the expression multiplied out; see :meth:`from_dims`, which derives shape and blocks.
    """

    shape: tuple[int, ...]
    dims: tuple[Dim, ...] = field(repr=False)
    blocks: tuple[Block, ...]

    @classmethod
    def from_dims(cls, dims: tuple[Dim, ...], sizes: Mapping[str, int]) -> "TensorSpec":
        """Derive shape and blocks of ``dims``, given the ``sizes`` of the axes that it names.

        Raises:
            SpecError: an axis that ``sizes`` lacks, an empty term, or a sum within a product that is none.
        """
        shape = []
        found: list[list[Piece]] = []
        for dim in dims:
            _check_terms(dim)
            parts, size = pieces(dim, lambda factor: _size(factor, sizes))
            shape.append(size)
            found.append(parts)
        return cls(tuple(shape), tuple(dims), tuple(map(_block, itertools.product(*found))))

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes that occur in the tensor, without repetition, in order of occurrence."""
        return tuple(dict.fromkeys(f for dim in self.dims for f in factors_of(dim) if isinstance(f, str)))


class Exponent(NamedTuple):
    """How a block takes part in a scaling.

    Args:
        key: the block.
        power: the block is multiplied by ``factor ** power`` along the view dimension that carries the axis.
        dim: which view dimension, given if and only if several carry the axis, as in a recurrent weight.
    """

    key: str
    power: int
    dim: int | None = None

    def __str__(self) -> str:
        return self.key + ("" if self.dim is None else f"@{self.dim}") + f"{self.power:+d}"


@dataclass(frozen=True)
class Scaling:
    """A scaling symmetry: one factor for each neuron of ``axis`` leaves the function unchanged.

    Args:
        axis: the hidden axis whose neurons are scaled; for each combination of indices of its family apart.
        kind: factors are any ``positive`` numbers, or only signs (+1, -1). ``linear``: instead of factors any
            invertible matrix ``M`` acts, as ``M @ old`` where the power is +1 and as ``inverse(M).T @ old``
            where it is -1; it contains the scalings of the other kinds.
        exponents: :class:`Exponent`, or tuples that become ones. Blocks that are not listed stay as they are.
    """

    axis: str
    kind: ScalingKind
    exponents: tuple[Exponent, ...]

    def __init__(
        self,
        axis: str,
        kind: ScalingKind,
        exponents: Iterable[Exponent | tuple[str, int] | tuple[str, int, int | None]],
    ) -> None:
        object.__setattr__(self, "axis", axis)
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "exponents", tuple(Exponent(*exponent) for exponent in exponents))


@dataclass(frozen=True)
class Note:
    """Why a hidden axis is ``fixed``: the operator, and the module in which it ran.

    Args:
        axis: name of the axis.
        reason: one line; any white space in it becomes one space.
    """

    axis: str
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", " ".join(self.reason.split()))


def is_name(text: str) -> bool:
    """Whether an axis or a node set may be called so."""
    return text.replace(".", "_").isidentifier() and text != ANONYMOUS


def check_activation(owner: str, activation: str | None) -> None:
    """Refuse what the text form would not read back as the activation of ``owner``."""
    if activation is not None and (not activation.isidentifier() or activation in SCALING_KINDS):
        raise SpecError(f"{owner} has activation {activation!r}; give one word, as in 'relu'.")


def _check_terms(dim: Dim) -> None:
    if not dim or not all(dim):
        raise SpecError(f"{dim!r} is no dimension: every term of a sum needs at least one factor.")
    for term in dim:
        _check_sums(term)


def _check_sums(term: Term) -> None:
    for factor in term:
        if isinstance(factor, tuple):
            if len(factor) < 2 or len(term) < 2:
                raise SpecError(
                    f"{factor!r} is no sum within a product: it has {len(factor)} terms and stands among "
                    f"{len(term)} factors, of which there are at least 2; leave out the inner brackets."
                )
            _check_terms(factor)


def _block(parts: tuple[Piece, ...]) -> Block:
    view = tuple(size for part in parts for size in part.sizes)
    bounds = tuple((part.start, part.stop) for part in parts)
    filled = math.prod(stop - start for start, stop in bounds) == math.prod(view)
    return Block(
        slice=bounds,
        view=view,
        axes=tuple(f if isinstance(f, str) else ANONYMOUS for part in parts for f in part.factors),
        strides=() if filled else tuple(stride for part in parts for stride in part.strides),
    )


def _size(factor: str | int, sizes: Mapping[str, int]) -> int:
    if isinstance(factor, int):
        if factor < 1:
            raise SpecError(f"a dimension of size {factor} cannot be described; sizes are at least 1.")
        return factor
    try:
        return sizes[factor]
    except KeyError:
        raise SpecError(
            f"axis {factor!r} is used by a tensor but not declared; declared: {', '.join(sizes) or 'none'}."
        ) from None
