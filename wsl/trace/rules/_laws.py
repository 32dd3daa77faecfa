"""How functions of the entries at each index behave under scaling."""

from collections.abc import Sequence
from typing import NamedTuple

from wsl.trace._facts import Parity, Value, aligned
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
    """Give the outputs the dims of the broadcast of ``values``; returns the first of them."""
    dims = trace.broadcast(values)
    for tensor in call.outs[1:]:
        trace.facts.opaque(trace.assign(tensor, dims))
    return trace.assign(call.outs[0], dims)


def entangle(trace: Recorder, call: Call) -> None:
    """Any function of several entries at each index."""
    values = [trace.value(tensor) for tensor in call.tensors]
    trace.facts.opaque(*values, assign_broadcast(trace, call, values))
