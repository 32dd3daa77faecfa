"""What is known before and after a run: state and inputs have axes of their own, outputs are fixed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wsl.trace._axes import AxisVariable, Reason, fix, size_of
from wsl.trace._facts import Add, Apply, Constancy, Multiply, Rearrange, Value, operands_of
from wsl.trace._inputs import Example, nested_tensors
from wsl.trace._recorder import Recorder
from wsl.trace._values import storage_key

# Running moments of batch norm; singular vectors of spectral norm, new and old.
_STATISTICS = ("running_mean", "running_var", "_u", "_v", "weight_u", "weight_v")


def declare_inputs(recorder: Recorder, example: Example) -> list[Value]:
    """Fixed axes for every dimension of the tensors of an example."""
    return [
        recorder.values.set(tensor, _whole(tensor, Reason("input", "an input"), "input"))
        for tensor in nested_tensors(example)
    ]


def declare_state(module: nn.Module, recorder: Recorder) -> dict[str, Value]:
    """Values of parameters and running statistics in ``state_dict`` order; tied ones have the same value."""
    state: dict[str, Value] = {}
    shared: dict[tuple[object, ...], Value] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        for key, tensor in (*part._parameters.items(), *part._buffers.items()):
            name = f"{path}.{key}" if path else key
            if tensor is None:
                continue
            identity: tuple[object, ...] = (id(tensor),)
            if tensor.layout is torch.strided:
                identity = (storage_key(tensor), tensor.storage_offset(), tensor.shape, tensor.stride())
            value = shared.get(identity)
            carries = tensor.is_floating_point() or tensor.is_complex()
            if carries and (key in part._parameters or key in _STATISTICS):
                state[name] = value = value or _whole(tensor)
                value.weight = True
            elif value is None:
                what = "integer parameter" if key in part._parameters else "constant buffer"
                value = _whole(tensor, Reason("constant", f"the {what} {name}"), "constant")
            recorder.values.set(tensor, value)
            shared[identity] = value
    return state


def declare_outputs(recorder: Recorder, outputs: list[Tensor]) -> list[Value]:
    """Fix the axes of outputs, and single output neurons whose dimension was dropped on the way out."""
    values: list[Value] = []
    reason = Reason("output", "an output")
    makers = {
        id(fact.out.value): operands_of(fact)[0].value
        for fact in recorder.facts
        if isinstance(fact, (Multiply, Add, Apply)) and len(operands_of(fact)) == 2
    }
    makers |= {id(fact.target): fact.source for fact in recorder.facts if isinstance(fact, Rearrange)}
    for declared in [value for tensor in outputs for value in recorder.declared(tensor)]:
        value: Value | None = declared
        values.append(declared)
        recorder.facts.opaque(declared)
        for dim in declared.dims:
            fix(dim, reason)
        while (value := makers.pop(id(value), None)) is not None:
            for dim in value.dims:
                if size_of(dim) == 1:
                    fix(dim, reason)
    return values


def _whole(tensor: Tensor, reason: Reason | None = None, constancy: Constancy | None = None) -> Value:
    """A value with one axis for each dimension, those of size 1 included."""
    return Value(tuple((AxisVariable(size, reason),) for size in tensor.shape), constancy)
