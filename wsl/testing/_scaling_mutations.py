"""Specifications whose scalings are wrong in one place each."""

from collections.abc import Iterator
from dataclasses import replace

from wsl.spec import Block, Exponent, Scaling, WeightSpec

_NOT_HOMOGENEOUS = frozenset({"gelu", "silu", "sigmoid", "softplus", "elu", "mish", "sin", "tanh"})

Mutation = tuple[str, WeightSpec]


def wrong_powers(spec: WeightSpec) -> Iterator[Mutation]:
    """One block scales by the inverse factor, or not at all."""
    for index, scaling in enumerate(spec.scalings):
        powers = scaling.exponents
        for i, exponent in enumerate(powers if len(powers) > 1 else ()):
            rest = (*powers[:i], *powers[i + 1 :])
            yield f"scaling of {scaling.axis}: {exponent} left out", _rescaled(spec, index, rest)
            if scaling.kind != "sign":
                inverted = exponent._replace(power=-exponent.power)
                yield (
                    f"scaling of {scaling.axis}: {exponent} inverted",
                    _rescaled(spec, index, (*powers[:i], inverted, *powers[i + 1 :])),
                )


def _rescaled(spec: WeightSpec, index: int, exponents: tuple[Exponent, ...]) -> WeightSpec:
    scalings = list(spec.scalings)
    scalings[index] = replace(scalings[index], exponents=exponents)
    return WeightSpec(spec.axes, spec.tensors, scalings, spec.notes)


def claimed_scalings(spec: WeightSpec) -> Iterator[Mutation]:
    """Signs flip through an activation that is not odd; sizes pass one that is not homogeneous."""
    for axis in spec.hidden_axes:
        if axis.activation in ("relu", "leaky_relu") and (through := _through(spec, axis.name, "positive")):
            claimed = Scaling(axis.name, "sign", through)
        elif axis.activation in _NOT_HOMOGENEOUS:
            through = _through(spec, axis.name, "sign")
            claimed = Scaling(axis.name, "positive", through or _guessed_powers(spec, axis.name))
        else:
            continue
        axes = {**spec.axes, axis.name: replace(axis, scaling=claimed.kind)}
        kept = [scaling for scaling in spec.scalings if scaling.axis != axis.name]
        wrong = WeightSpec(axes, spec.tensors, [*kept, claimed], spec.notes)
        yield f"{claimed.kind} scaling of {axis.name} claimed through {axis.activation}", wrong


def _through(spec: WeightSpec, axis: str, kind: str) -> tuple[Exponent, ...]:
    """All scalings of one kind of an axis at once, if they reach from what produces it to what consumes it.

    One of several may end before the activation, or begin behind it (at a normalisation there); together they
    pass it. Empty if they do not reach so far.
    """
    total: dict[tuple[str, int | None], int] = {}
    for scaling in spec.scalings:
        for key, power, dim in scaling.exponents if (scaling.axis, scaling.kind) == (axis, kind) else ():
            total[key, dim] = total.get((key, dim), 0) + power
    powers = tuple(Exponent(key, power, dim) for (key, dim), power in total.items() if power)
    carried = [(spec.block(key).block, dim) for key, _, dim in powers]
    # What has one neuron dimension (biases, norms) neither produces nor consumes the axis.
    ends = {_produces(block, axis, dim) for block, dim in carried if len(block.neuron_dims) > 1}
    return powers if ends == {True, False} else ()


def _guessed_powers(spec: WeightSpec, axis: str) -> tuple[Exponent, ...]:
    return tuple(
        Exponent(ref.key, 1 if _produces(ref.block, axis, dim) else -1, None if once else dim)
        for ref in spec.blocks
        if (once := ref.block.axes.count(axis) == 1) or axis in ref.block.axes
        for dim, name in enumerate(ref.block.axes)
        if name == axis
    )


def _produces(block: Block, axis: str, dim: int | None) -> bool:
    """Whether the axis stands first in the block, as in the weight of a linear layer that makes it."""
    return (block.axes.index(axis) if dim is None else dim) == block.neuron_dims[0]
