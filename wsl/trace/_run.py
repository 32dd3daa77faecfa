"""The tracer's entry point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from wsl.spec import WeightSpec
from wsl.trace._axes import AxisVariable, Reason, fix, size_of
from wsl.trace._demand import fix_unused
from wsl.trace._emit import emit
from wsl.trace._facts import Add, Apply, Constancy, Multiply, Rearrange, Value, operands_of
from wsl.trace._inputs import doubled, nested_tensors
from wsl.trace._mode import EscapeMode, NotTraceableError, OperatorMode
from wsl.trace._recorder import Recorder
from wsl.trace._state import ModuleState
from wsl.trace._values import storage_key

_STATISTICS = ("running_mean", "running_var")


class TraceError(ValueError):
    """A module cannot be traced: it does not run on the example inputs, or is forbidden to by ``strict``."""


def trace(
    module: nn.Module,
    example_inputs: Tensor | tuple[Any, ...] | list[Any],
    kwargs: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> WeightSpec:
    """Derive the specification of ``module`` by running it once and following every dimension of its tensors.

    Each operator says which axes it makes equal. Whatever it cannot say, and every operator that no rule
    describes, fixes the axes that it touches: the specification never claims a symmetry that the function
    lacks, and its notes name the operator and the module that fixed a hidden axis. The module runs in
    evaluation mode without gradients, and is left exactly as it was. Where control flow depends on data, the
    branch that the example takes is traced.

    Args:
        module: any network. Its parameters and running statistics make up the specification; other buffers
            are constants, which fix the axes that they touch.
        example_inputs: a tensor, or a tuple of positional inputs. If the leading dimension of all input
            tensors is 1, they are repeated to a batch of 2 where the module accepts that: a batch of 1 could
            not be told apart from dimensions that are 1 for another reason.
        kwargs: keyword inputs.
        strict: raise where an operator without a rule, or a value that leaves torch, would fix an axis.

    Returns:
        The specification: axes, tensors, scaling symmetries, notes.

    Raises:
        TraceError: arguments of the wrong type; the module does not run on them, or returns no tensor; an
            operator without a rule, if ``strict``.
    """
    if not isinstance(module, nn.Module):
        raise TraceError(f"expected a torch.nn.Module, got {type(module).__name__}.")
    if isinstance(module, torch.jit.ScriptModule):
        raise TraceError(
            f"{module.original_name} is a TorchScript module, whose state cannot be set aside during a trace."
            "\n  Trace the Python module that it was made from: the specification is the same."
        )
    inputs = _positional(example_inputs)
    keywords = dict(kwargs or {})
    if (twice := doubled((inputs, keywords))) is not None:
        try:
            return _trace(module, twice[0], twice[1], strict)
        except TraceError as err:
            if isinstance(err.__cause__, NotTraceableError):
                raise
    return _trace(module, inputs, keywords, strict)


def _trace(module: nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any], strict: bool) -> WeightSpec:
    recorder = Recorder(module)
    state = _declare_state(module, recorder)
    for tensor in nested_tensors((inputs, keywords)):
        recorder.values.set(tensor, _whole(tensor, Reason("input", "an input"), "input"))
    outputs = _declare_outputs(recorder, _run(module, inputs, keywords, recorder, strict))
    fix_unused(recorder.facts, state, outputs)
    return emit(recorder, state)


def _run(
    module: nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any], recorder: Recorder, strict: bool
) -> list[Tensor]:
    """Run the module under the recorder; returns its output tensors."""
    with ModuleState(module) as saved, torch.no_grad():
        operators = OperatorMode(recorder, saved, strict)
        try:
            with EscapeMode(operators), operators:
                result = module(*inputs, **keywords)
        except NotTraceableError as err:
            raise TraceError(
                f"no rule describes {err}.\n  Without strict=True the axes that it touches are fixed, and "
                "the notes of the specification say so."
            ) from err
        except Exception as err:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in nested_tensors((inputs, keywords)))
            raise TraceError(
                f"{type(module).__name__} fails to run on inputs of shapes {shapes or 'none'}: "
                f"{type(err).__name__}: {err}\n  Give example_inputs (and kwargs) on which "
                "module(*example_inputs, **kwargs) works, on the module's device and in its dtype."
            ) from err
    outputs = list(nested_tensors(result))
    if not outputs:
        raise TraceError(
            f"{type(module).__name__} returns {type(result).__name__} without any tensor; a specification "
            "describes a function of tensors."
        )
    return outputs


def _declare_state(module: nn.Module, recorder: Recorder) -> dict[str, Value]:
    """Values of parameters and running statistics in ``state_dict`` order; tied ones have the same value."""
    state: dict[str, Value] = {}
    shared: dict[tuple[object, ...], Value] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        for key, tensor in (*part._parameters.items(), *part._buffers.items()):
            name = f"{path}.{key}" if path else key
            if tensor is None:
                continue
            if nn.parameter.is_lazy(tensor):
                raise TraceError(f"{name} is not initialised yet; run the module once before tracing it.")
            identity: tuple[object, ...] = (id(tensor),)
            if tensor.layout is torch.strided:
                identity = (storage_key(tensor), tensor.storage_offset(), tensor.shape, tensor.stride())
            value = shared.get(identity)
            carries = tensor.is_floating_point() or tensor.is_complex()
            if carries and (key in part._parameters or key in _STATISTICS):
                if not tensor.numel():
                    raise TraceError(f"{name} has shape {tuple(tensor.shape)} and holds no entries.")
                state[name] = value = value or _whole(tensor)
                value.weight = True
            elif value is None:
                value = _whole(tensor, Reason("constant", f"the constant buffer {name}"), "constant")
            recorder.values.set(tensor, value)
            shared[identity] = value
    return state


def _declare_outputs(recorder: Recorder, outputs: list[Tensor]) -> list[Value]:
    """Fix the axes of outputs, and single output neurons whose dimension was dropped on the way out."""
    values: list[Value] = []
    reason = Reason("output", "an output")
    makers = {
        id(fact.out.value): operands_of(fact)[0].value
        for fact in recorder.facts
        if isinstance(fact, (Multiply, Add, Apply)) and len(operands_of(fact)) == 2
    }
    makers |= {id(fact.target): fact.source for fact in recorder.facts if isinstance(fact, Rearrange)}
    for tensor in outputs:
        value: Value | None = recorder.value(tensor)
        assert value is not None
        values.append(value)
        recorder.facts.opaque(value)
        for dim in value.dims:
            fix(dim, reason)
        while (value := makers.pop(id(value), None)) is not None:
            for dim in value.dims:
                if size_of(dim) == 1:
                    fix(dim, reason)
    return values


def _whole(tensor: Tensor, reason: Reason | None = None, constancy: Constancy | None = None) -> Value:
    """A value with one axis for each dimension, those of size 1 included."""
    return Value(tuple((AxisVariable(size, reason),) for size in tensor.shape), constancy)


def _positional(example_inputs: object) -> tuple[Any, ...]:
    if isinstance(example_inputs, Tensor):
        return (example_inputs,)
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs)
    raise TraceError(
        "example_inputs must be a tensor or a tuple of positional inputs, got "
        f"{type(example_inputs).__name__}.\n  Wrap arrays with torch.as_tensor; pass keywords as kwargs=."
    )
