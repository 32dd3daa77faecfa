"""Rules that are wrong on purpose: the check of random programs catches every one."""

from collections.abc import Callable

import pytest
import torch
from programs import BATCH, INPUTS, TOKENS, program

from wsl import SpecError, trace
from wsl.testing import assert_preserves_function
from wsl.trace import _emit
from wsl.trace._facts import Operand, Value, aligned
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule
from wsl.trace.rules import RULES


def _copied(trace: Recorder, call: Call) -> None:
    """As if the operator did nothing but copy its first operand."""
    source = trace.value(call.tensors[0])
    trace.facts.same(source, trace.assign(call.out, source.dims))


def _untied_product(trace: Recorder, call: Call) -> None:
    """Forgets that rows and columns are summed together."""
    left, right = map(trace.value, call.tensors[-2:])
    trace.facts.opaque(left, right, trace.assign(call.out, (left.dims[0], right.dims[1])))


def _first_stacked(trace: Recorder, call: Call) -> None:
    """Takes the axes of the first for those of all."""
    first, dim = trace.value(call["tensors"][0]), call["dim"] % call.out.dim()
    count = trace.fixed([len(call["tensors"])])
    out = trace.assign(call.out, (*first.dims[:dim], *count, *first.dims[dim:]))
    labels = tuple(i + (i >= dim) for i in range(len(first.dims)))
    trace.facts.multiply([Operand(first, labels)], Operand(out, tuple(range(len(out.dims)))))


def _one_group(trace: Recorder, call: Call) -> None:
    """Takes group normalisation for a normalisation of all channels together."""
    x = trace.value(call["input"])
    labels = (0, *(None,) * (len(x.dims) - 1))
    for tensor in (call["weight"], call["bias"]):
        trace.unify(x.dims[1], trace.value(tensor).dims[0])
    trace.facts.opaque(x, trace.value(call["weight"]), trace.value(call["bias"]))
    out = trace.assign(call.outs[0], x.dims)
    trace.facts.apply(Operand(x, labels), Operand(out, labels))
    for tensor in call.outs[1:]:
        trace.values.set(tensor, Value(trace.fixed(tensor.shape)))


def _pointwise(degree: int | None = None, parity: str | None = None) -> Rule:
    """A function of each entry alone, of this homogeneity and parity."""

    def rule(trace: Recorder, call: Call) -> None:
        x = trace.value(call["self"])
        trace.facts.apply(aligned(x), aligned(trace.assign(call.out, x.dims)), degree, parity)

    return rule


def _linear_product(trace: Recorder, call: Call) -> None:
    """Takes a product for a sum."""
    values = [trace.value(tensor) for tensor in call.tensors]
    out = trace.assign(call.out, trace.broadcast(values))
    trace.facts.add(map(aligned, values), aligned(out))


MUTANTS: dict[str, tuple[str, Rule | Callable[..., None], list[str], int]] = {
    "cumsum copies": ("cumsum", _copied, ["tanh", "cumsum", "tanh"], 1),
    "flip copies": ("flip", _copied, ["tanh", "flip", "multiply"], 1),
    "roll copies": ("roll", _copied, ["tanh", "roll", "multiply"], 1),
    "gather copies": ("gather", _copied, ["tanh", "argsort_gather", "multiply"], 0),
    "addition ties nothing": ("add", _copied, ["residual", "linear"], 0),
    "a matrix product ties nothing": ("addmm", _untied_product, ["tanh", "linear", "tanh"], 0),
    "a stack is its first": ("stack", _first_stacked, ["tanh", "wide", "stack_anywhere"], 0),
    "softmax copies": ("_softmax", _copied, ["softmax", "linear"], 0),
    "softmax forgets what it mixes": ("_softmax", _pointwise(), ["tanh", "softmax_of_groups", "linear"], 0),
    "all channels are one group": ("native_group_norm", _one_group, ["tanh", "group_norm", "linear"], 0),
    "gelu is odd": ("gelu", _pointwise(parity="odd"), ["gelu", "linear"], 0),
    "relu is odd": ("relu", _pointwise(1, "odd"), ["relu", "linear"], 0),
    "tanh is homogeneous": ("tanh", _pointwise(1, "odd"), ["tanh", "linear"], 0),
    "a square is linear": ("mul", _linear_product, ["square", "linear"], 0),
}


def passes(steps: list[str], seed: int) -> None:
    torch.manual_seed(seed)
    module, inputs = program(steps, seed), torch.randn(BATCH, TOKENS, INPUTS)
    assert_preserves_function(module, trace(module, inputs), inputs, seed=seed)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_rule_is_caught(mutant, monkeypatch):
    operator, rule, steps, seed = MUTANTS[mutant]
    passes(steps, seed)
    assert operator in RULES
    monkeypatch.setitem(RULES, operator, rule)
    # The function changes, or the specification contradicts itself.
    with pytest.raises((AssertionError, SpecError), match=r"changes by|node set"):
        passes(steps, seed)


@pytest.mark.parametrize("step", ["softmax_of_groups", "heads_compared", "halves"])
def test_families_that_no_operator_was_asked_about_are_caught(step, monkeypatch):
    """As if an axis beside another one in the parameters were over it, whatever mixes the two."""
    steps, seed = ["tanh", "group_norm", step, "linear"], 1
    passes(steps, seed)
    asked = _emit.find_families
    monkeypatch.setattr(_emit, "find_families", lambda facts, *leaves: asked([], *leaves))
    with pytest.raises((AssertionError, SpecError), match=r"changes by|node set"):
        passes(steps, seed)
