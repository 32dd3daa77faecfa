"""How functions of the entries at each index behave under scaling."""

from collections.abc import Container, Hashable, Iterable, Sequence
from typing import NamedTuple

from wsl.trace._facts import Operand, Parity, Value, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder


class Law(NamedTuple):
    """Homogeneity and parity of a function of one entry: see :class:`wsl.trace._facts.Apply`."""

    degree: float | None = None
    parity: Parity | None = None


def apply_law(trace: Recorder, call: Call, law: Law, name: str | None = None) -> None:
    """The operator is a function of the entries of its first tensor."""
    x = trace.value(call.tensors[0])
    for tensor in call.outs:
        out = trace.assign(tensor, x.dims)
        trace.facts.apply(aligned(x), aligned(out), law.degree, law.parity, name)


def assign_broadcast(trace: Recorder, call: Call, values: Sequence[Value]) -> Value:
    """Give the output the dims of the broadcast of ``values``."""
    return trace.assign(call.out, trace.broadcast(values))


def combine(trace: Recorder, operands: Iterable[Operand], out: Operand, law: Law | None = None) -> None:
    """Record that ``out`` is a function of all operands at each index of its labels.

    Labels of an operand that ``out`` lacks, or that are ``None``, are mixed. ``law`` is the function's
    homogeneity and parity in all operands together; without it none of them may be scaled.
    """
    law = law or Law()
    labels = tuple(("own", i) if label is None else label for i, label in enumerate(out.labels))
    kept = [reduced(trace, operand, labels) for operand in operands]
    total = Operand(Value(out.value.dims), labels)
    trace.facts.add(kept, total)
    trace.facts.apply(total, Operand(out.value, labels), law.degree, law.parity)


def reduced(trace: Recorder, operand: Operand, labels: Iterable[Hashable], linear: bool = False) -> Operand:
    """The slices of ``operand`` over all dims that are not among ``labels``, put together somehow.

    The function is a sum if ``linear``; else any, whose homogeneity is that of what it is a part of.
    """
    labels = set(labels)
    at = [i for i, label in enumerate(operand.labels) if label in labels]
    if len(at) == len(operand.labels):
        return operand
    kept = Operand(Value(tuple(operand.value.dims[i] for i in at)), tuple(operand.labels[i] for i in at))
    if linear:
        trace.facts.multiply([operand], kept)
    else:
        trace.facts.apply(operand, kept, 1, "odd")
    return kept


def without(labels: Iterable[Hashable], dims: Container[int]) -> tuple[Hashable, ...]:
    """``labels`` with ``None`` at the positions ``dims``, which are mixed."""
    return tuple(None if i in dims else label for i, label in enumerate(labels))


def entangle(trace: Recorder, call: Call) -> None:
    """Any function of several entries at each index."""
    values = [trace.value(tensor) for tensor in call.tensors]
    combine(trace, map(aligned, values), aligned(assign_broadcast(trace, call, values)))
