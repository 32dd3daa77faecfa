"""Weights against a specification: checking them, and cutting stored tensors into blocks and back."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wsl.spec._dims import Term, factors_of, products
from wsl.spec._text import format_dim, format_tensor
from wsl.spec._topology import stored_dims
from wsl.spec._values import Axis, Block, SpecError, TensorSpec

if TYPE_CHECKING:
    from wsl.spec._weight_spec import WeightSpec


def check_weights(spec: "WeightSpec", weights: Mapping[str, Tensor], batched: bool) -> int:
    """Check names and shapes; returns the number of networks (1 if not ``batched``)."""
    missing = [name for name in spec.tensors if name not in weights]
    extra = [name for name in weights if name not in spec.tensors]
    if missing or extra:
        raise SpecError(
            f"the weights do not hold the tensors that the spec names: missing {_names(missing)}; "
            f"extra {_names(extra)}.\n  The weights come from another architecture, or hold entries that "
            "are no weights: drop those."
        )
    counts = {}
    for name, tensor in spec.tensors.items():
        shape = tuple(weights[name].shape)
        if batched:
            if len(shape) != len(tensor.shape) + 1:
                raise SpecError(
                    f"{name} has shape {shape}; expected (B, {', '.join(map(str, tensor.shape))}), with a "
                    f"leading dimension for networks.\n  For one network, add it with tensor.unsqueeze(0)."
                )
            counts[name] = shape[0]
            shape = shape[1:]
        if shape != tensor.shape:
            raise SpecError(_mismatch(spec, name, tensor, shape))
    if len(set(counts.values())) > 1:
        raise SpecError(f"the tensors hold different numbers of networks: {counts}.")
    return next(iter(counts.values()), 1)


def split(spec: "WeightSpec", weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Cut ``(B, *shape)`` tensors into ``(B, *view)`` blocks (views of the input where strides allow)."""
    blocks = {}
    for key, name, block in spec.blocks:
        tensor = weights[name]
        if len(spec.tensors[name].blocks) > 1:
            tensor = part_of(spec.tensors[name], block, tensor)
        blocks[key] = tensor.reshape(tensor.shape[0], *block.view)
    return blocks


def part_of(tensor: TensorSpec, block: Block, stored: Tensor) -> Tensor:
    """The entries of a ``block`` of ``tensor`` in ``stored`` ``(B, *shape)``, as a view of it.

    Returns:
        ``(B, ...)``, which can be reshaped to ``(B, *block.view)``.
    """
    part = stored[(slice(None), *(slice(start, stop) for start, stop in block.slice))]
    if not block.strides:
        return part
    here = stored_dims(tensor, block)
    at = 1
    for dim in range(len(tensor.dims)):
        steps = [
            (size, step)
            for size, step, where in zip(block.view, block.strides, here, strict=True)
            if where == dim
        ]
        for i, (_, step) in enumerate(steps[:-1]):
            spanned = 1 + sum((size - 1) * inner for size, inner in steps[i + 1 :])
            part = part.unfold(at, spanned, step).movedim(-1, at + 1)
            at += 1
        at += 1
    return part


def join(spec: "WeightSpec", blocks: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Put ``(B, *view)`` blocks together to ``(B, *shape)`` tensors: the inverse of :func:`split`."""
    stored: dict[str, list[Tensor]] = {name: [] for name in spec.tensors}
    for key, name, block in spec.blocks:
        part = blocks[key]
        if block.strides:
            here = stored_dims(spec.tensors[name], block)
            sizes = [1] * len(block.slice)
            for size, dim in zip(block.view, here, strict=True):
                sizes[dim] *= size
        else:
            sizes = [stop - start for start, stop in block.slice]
        stored[name].append(part.reshape(part.shape[0], *sizes))
    weights = {}
    for name, tensor in spec.tensors.items():
        parts = stored[name]
        for dim in reversed(range(len(tensor.dims))):
            count = len(products(tensor.dims[dim]))
            if count > 1:
                rest = iter(parts)
                parts = [
                    torch.cat([_joined(term, rest, dim + 1, spec.axes) for term in tensor.dims[dim]], dim + 1)
                    for _ in range(0, len(parts), count)
                ]
        weights[name] = parts[0]
    return weights


def _joined(term: Term, parts: Iterator[Tensor], at: int, axes: Mapping[str, Axis]) -> Tensor:
    """One term along dimension ``at``, of as many of the next ``parts`` as it has products."""
    inner = next((i for i, factor in enumerate(term) if isinstance(factor, tuple)), None)
    if inner is None:
        return next(parts)
    head, terms, tail = term[:inner], term[inner], term[inner + 1 :]
    assert isinstance(terms, tuple)
    count = math.prod(axes[f].size if isinstance(f, str) else f for f in head)
    found = [_joined((*head, *choice, *tail), parts, at, axes) for choice in terms]
    return torch.cat([part.unflatten(at, (count, -1)) for part in found], at + 1).flatten(at, at + 1)


def _mismatch(spec: "WeightSpec", name: str, tensor: TensorSpec, shape: tuple[int, ...]) -> str:
    first = f"{name} has {len(shape)} dimensions, but the spec says {len(tensor.shape)}."
    if len(shape) == len(tensor.shape):
        dim = next(
            i for i, (given, size) in enumerate(zip(shape, tensor.shape, strict=True)) if given != size
        )
        line = format_dim(tensor.dims[dim], spec.axes)
        named = dict.fromkeys(f for f in factors_of(tensor.dims[dim]) if isinstance(f, str))
        sizes = " with " + ", ".join(f"{axis}={spec.axes[axis].size}" for axis in named) if named else ""
        given, size = shape[dim], tensor.shape[dim]
        first = f"{name} has size {given} on dim {dim}, but the spec says {line}{sizes}, which is {size}."
    return (
        f"{first}\n  spec: {format_tensor(name, tensor, spec.axes)}      given: {shape}"
        "\n  The weights come from another architecture, or trace() ran on another input size."
    )


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:8]) or "none"
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def is_running_statistic(name: str) -> bool:
    """Whether a tensor holds running means or variances of a norm: part of the function, but not trained."""
    return name.endswith(("running_mean", "running_var"))


def parameter_count(spec: "WeightSpec") -> int:
    """Number of stored entries of one network."""
    return sum(math.prod(tensor.shape) for tensor in spec.tensors.values())
