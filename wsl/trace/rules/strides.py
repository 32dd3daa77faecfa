"""``as_strided``, where it only gives the dimensions another order.

Dims: those of the input. Mixing: none. Homogeneity: linear.
"""

from wsl.trace._facts import derived
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule, Unsupported


def _as_strided(trace: Recorder, call: Call) -> None:
    tensor = call["self"]
    if call.written:
        raise Unsupported  # in place: the strides before are gone
    if call["storage_offset"] not in (None, tensor.storage_offset()):
        raise Unsupported
    old = [(size, step, i) for i, (size, step) in enumerate(zip(tensor.shape, tensor.stride(), strict=True))]
    places = {(size, step): i for size, step, i in old if size > 1}
    new = list(zip(call["size"], call["stride"], strict=True))
    if sorted((s, t) for s, t, _ in old if s > 1) != sorted((s, t) for s, t in new if s > 1):
        raise Unsupported
    if len(places) != sum(size > 1 for size in tensor.shape):
        raise Unsupported  # dims that were expanded alike cannot be told apart
    x = trace.value(tensor)
    order = [places[size, step] if size > 1 else None for size, step in new]
    out = derived(x, [() if i is None else x.dims[i] for i in order])
    trace.facts.move(x, [order.index(i) if i in order else None for i in range(len(x.dims))], out)
    trace.values.set(call.out, out)


RULES: dict[str, Rule] = {"as_strided": _as_strided}
