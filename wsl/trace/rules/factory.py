"""Tensors made from nothing: fills, whose axes may be permuted freely, and sequences, which are fixed."""

from wsl.trace._axes import Reason, fresh
from wsl.trace._facts import Constancy
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule, Unsupported

# An empty tensor is written to before it is read, so that it counts as zeros.
_ZEROS = (
    "zeros", "zeros_like", "new_zeros",
    "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided",
)  # fmt: skip
_FILLS = ("ones", "ones_like", "new_ones", "full", "full_like", "new_full", "scalar_tensor")
_SEQUENCES = (
    "arange", "linspace", "logspace", "eye", "tril_indices", "triu_indices", "hann_window", "randperm",
    "rand", "randn", "randint", "rand_like", "randn_like", "randint_like",
)  # fmt: skip


def _fill(trace: Recorder, call: Call) -> None:
    number = call.get("fill_value", call.get("s"))
    constancy: Constancy = "zero" if call.name in _ZEROS or number == 0 else "constant"
    trace.assign(call.out, fresh(call.out.shape), constancy).uses = []


def _sequence(trace: Recorder, call: Call) -> None:
    reason = Reason("constant", f"the constant {trace.reason().text}")
    trace.assign(call.out, fresh(call.out.shape, reason), "constant")


def _overwrite(trace: Recorder, call: Call) -> None:
    """``zero_`` and ``fill_`` with a number."""
    if call.name == "fill" and not isinstance(call["value"], (int, float, bool)):
        raise Unsupported
    x = trace.value(call["self"])
    out = trace.assign(call.out, x.dims)
    trace.facts.opaque(out)


def _read_number(trace: Recorder, call: Call) -> None:
    """``item()``: the number goes on as a Python constant, which scalings may not change."""
    trace.facts.opaque(trace.value(call["self"]))


def _compare(trace: Recorder, call: Call) -> None:
    """Whether two tensors are equal, entry by entry."""
    values = [trace.value(call["self"]), trace.value(call["other"])]
    if call["self"].shape == call["other"].shape:
        trace.broadcast(values)
    trace.facts.opaque(*values)


def _look(trace: Recorder, call: Call) -> None:
    """Questions about sizes and memory, whose answers do not depend on entries."""


RULES: dict[str, Rule] = {
    **dict.fromkeys((*_ZEROS, *_FILLS), _fill),
    **dict.fromkeys(_SEQUENCES, _sequence),
    **dict.fromkeys(("zero", "fill"), _overwrite),
    **dict.fromkeys(("is_same_size", "is_pinned"), _look),
    "equal": _compare,
    "_local_scalar_dense": _read_number,
}
