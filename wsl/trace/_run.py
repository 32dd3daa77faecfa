"""The tracer's entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from wsl.spec import SpecError, WeightSpec
from wsl.trace._declare import declare_inputs, declare_outputs, declare_state
from wsl.trace._demand import fix_unused
from wsl.trace._emit import emit
from wsl.trace._errors import (
    TraceError,
    check_module,
    fails_to_run,
    no_name,
    no_rule,
    no_selection,
    no_tensor,
)
from wsl.trace._facts import Value
from wsl.trace._inputs import Example, nested_tensors, read_examples
from wsl.trace._meta import Shadows
from wsl.trace._mode import EscapeMode, NotTraceableError, OperatorMode
from wsl.trace._recorder import Recorder
from wsl.trace._state import ModuleState

Output = Callable[[Any], Any]
_RUNS = 4


def trace(
    module: nn.Module,
    example_inputs: Tensor | tuple[Any, ...] | list[Any],
    kwargs: Mapping[str, Any] | list[Mapping[str, Any]] | None = None,
    *,
    strict: bool = False,
    output: Output | None = None,
) -> WeightSpec:
    """Derive the specification of ``module`` by running it once and following every dimension of its tensors.

    Each operator says which axes it makes equal. Whatever it cannot say, and every operator that no rule
    describes, fixes the axes that it touches: the specification never claims a symmetry that the function
    lacks, and its notes name the operator and the module that fixed a hidden axis. The module runs in
    evaluation mode without gradients, and is left exactly as it was. Where control flow depends on data, the
    branch that the example takes is traced: give an example for each branch.

    A module on the meta device is traced there, and needs neither its memory nor its time.

    Args:
        module: any network. Its parameters and running statistics make up the specification; other buffers
            are constants, which fix the axes that they touch.
        example_inputs: a tensor, or a tuple of positional inputs; or a list of such examples, which are all
            traced: the specification holds for each. If the leading dimension of all tensors of an example
            is 1, they are repeated to a batch of 2 where the module accepts that: a batch of 1 could not be
            told apart from dimensions that are 1 for another reason.
        kwargs: keyword inputs; with a list of examples, one mapping for all or a list of as many.
        strict: raise where an operator without a rule, or a value that leaves torch, would fix an axis.
        output: selects what of the module's output has to be preserved, as ``lambda o: o.logits``. Everything
            that the module returns, if not given.

    Returns:
        The specification: axes, tensors, scaling symmetries, notes, and the computational graph.

    Raises:
        TraceError: arguments of the wrong type; a module that is quantised, TorchScript or not initialised;
            it does not run on the examples, or returns no tensor; it needs data on the meta device; a name
            of a parameter that no text can hold; an operator without a rule, if ``strict``.
    """
    check_module(module)
    try:
        examples = read_examples(example_inputs, kwargs)
    except TypeError as err:
        raise TraceError(str(err)) from err
    twice = [example.doubled() or example for example in examples]
    if any(a is not b for a, b in zip(twice, examples, strict=True)):
        try:
            return _trace(module, twice, strict, output, alone=examples)
        except TraceError as err:
            if isinstance(err.__cause__, NotTraceableError):
                raise
    return _trace(module, examples, strict, output)


def _trace(
    module: nn.Module,
    examples: list[Example],
    strict: bool,
    output: Output | None,
    alone: list[Example] | None = None,
) -> WeightSpec:
    """Trace until no more views are found whose slices are taken apart: see :mod:`wsl.trace._stacks`.

    Args:
        alone: what the ``examples`` were before they were repeated; traced too if other operators run, or on
            tensors of another rank (the module drops dimensions of size 1).
    """
    recorder = Recorder(module)
    state, outputs = _follow(module, examples, strict, output, recorder)
    if alone is not None:
        other = Recorder(module)
        _follow(module, alone, strict, output, other)
        if other.ranks != recorder.ranks:
            return _trace(module, [*examples, *alone], strict, output)
    for _ in range(_RUNS - 1):
        stacked = recorder.sites.following()
        if stacked == recorder.sites.stacked:
            break
        recorder = Recorder(module, stacked)
        state, outputs = _follow(module, examples, strict, output, recorder)
    fix_unused(recorder.facts, state, outputs)
    try:
        return emit(recorder, state, outputs)
    except SpecError as err:
        raise no_name(module, err) from err


def _follow(
    module: nn.Module, examples: list[Example], strict: bool, output: Output | None, recorder: Recorder
) -> tuple[dict[str, Value], list[Value]]:
    """Run the module on every example; returns the values of its state and of its outputs."""
    state = declare_state(module, recorder)
    on_meta = any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))
    shadows = Shadows() if on_meta else None
    outputs: list[Value] = []
    with ModuleState(module) as saved, torch.no_grad():
        operators = OperatorMode(recorder, saved, strict, shadows)
        for example in examples:
            example = example if shadows is None else example.map(shadows.adopt)
            declare_inputs(recorder, example)
            outputs += declare_outputs(recorder, _run(module, example, operators, output))
    return state, outputs


def _run(module: nn.Module, example: Example, operators: OperatorMode, output: Output | None) -> list[Tensor]:
    """Run the module while its operators are followed; returns the tensors of its (selected) output."""
    try:
        with EscapeMode(operators), operators:
            result = module(*example.inputs, **example.keywords)
            selected = result if output is None else _select(output, result)
    except TraceError:
        raise
    except NotTraceableError as err:
        raise no_rule(str(err)) from err
    except Exception as err:
        raise fails_to_run(module, example, err) from err
    outputs = list(nested_tensors(selected))
    if not outputs:
        raise no_tensor(module, selected, output is not None)
    return outputs


def _select(output: Output, result: Any) -> Any:
    try:
        return output(result)
    except NotTraceableError:
        raise
    except Exception as err:
        raise no_selection(result, err) from err
