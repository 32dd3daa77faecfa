"""The tracer's entry point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from wsl.spec import WeightSpec
from wsl.trace._axes import AxisVariable, Reason, fix
from wsl.trace._emit import emit
from wsl.trace._facts import Constancy, Value, values_of
from wsl.trace._mode import EscapeMode, OperatorMode, UnknownOperatorError
from wsl.trace._recorder import Recorder
from wsl.trace._state import ModuleState

_STATISTICS = ("running_mean", "running_var")


class TraceError(ValueError):
    """A module cannot be traced: it does not run on the example inputs, or strictness forbids what it does."""


def trace(
    module: nn.Module,
    example_inputs: Tensor | tuple[Any, ...] | list[Any],
    kwargs: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> WeightSpec:
    """Derive the specification of ``module`` by running it once and following every dimension of every tensor.

    Each operator says which axes it makes equal. What it does not say, and every operator that no rule
    describes, fixes the axes that it touches: the specification never claims a symmetry that the function
    lacks, and its notes name the operator and the module that fixed a hidden axis. The module runs in evaluation mode
    without gradients, and is left exactly as it was. A branch that depends on data is traced as it was taken.

    Args:
        module: any network; its parameters and running statistics make up the specification. Other float
            buffers are constants, which fix the axes that they touch.
        example_inputs: a tensor, or a tuple of positional inputs. If the leading dimension of all input
            tensors is 1, they are repeated to a batch of 2 where the module accepts it: a batch of 1 could
            not be told apart from dimensions that are 1 for another reason.
        kwargs: keyword inputs.
        strict: raise at the first operator that no rule describes.

    Returns:
        The specification: axes, blocks, scaling symmetries, notes.

    Raises:
        TraceError: arguments of the wrong type; the module does not run on them, or returns no tensor; an
            operator without a rule, if ``strict``.
    """
    if not isinstance(module, nn.Module):
        raise TraceError(f"expected a torch.nn.Module, got {type(module).__name__}.")
    inputs = _positional(example_inputs)
    keywords = dict(kwargs or {})
    doubled = _doubled((inputs, keywords))
    if doubled is not None:
        try:
            return _trace(module, *doubled, strict)
        except TraceError as err:
            if isinstance(err.__cause__, UnknownOperatorError):
                raise
    return _trace(module, inputs, keywords, strict)


def _trace(module: nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any], strict: bool) -> WeightSpec:
    recorder = Recorder(module)
    state = _declare_state(module, recorder)
    for tensor in _tensors((inputs, keywords)):
        recorder.values.set(tensor, _whole(tensor, Reason("input", "an input"), "input"))
    outputs = _run(module, inputs, keywords, recorder, strict)
    for tensor in outputs:
        value = recorder.value(tensor)
        for dim in value.dims:
            fix(dim, Reason("output", "an output"))
        recorder.facts.opaque(value)
    read = {id(value) for fact in recorder.facts for value in values_of(fact)}
    for value in state.values():
        if id(value) not in read:
            for dim in value.dims:
                fix(dim, Reason("unused", "not used in the forward pass"))
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
        except UnknownOperatorError as err:
            raise TraceError(
                f"no rule describes operator {err}.\n  Without strict=True the axes that it touches are fixed, "
                "and the specification's notes say so."
            ) from err
        except Exception as err:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in _tensors((inputs, keywords)))
            raise TraceError(
                f"the module failed to run on the example inputs of shapes {shapes or 'none'}: "
                f"{type(err).__name__}: {err}\n  Give example_inputs (and kwargs) on which module(*example_inputs) "
                "works, on the module's device and in its dtype."
            ) from err
    outputs = list(_tensors(result))
    if not outputs:
        raise TraceError(
            f"the module returned {type(result).__name__} without any tensor, which has no axes."
        )
    return outputs


def _declare_state(module: nn.Module, recorder: Recorder) -> dict[str, Value]:
    """Values of parameters and running statistics in ``state_dict`` order; tied ones have the same value."""
    state: dict[str, Value] = {}
    shared: dict[tuple[Any, ...], Value] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        own = [*part._parameters.items(), *part._buffers.items()]
        for key, tensor in own:
            name = f"{path}.{key}" if path else key
            if tensor is None:
                continue
            if nn.parameter.is_lazy(tensor):
                raise TraceError(f"{name} is not initialised yet; run the module once before tracing it.")
            identity = (
                tensor.untyped_storage()._cdata,
                tensor.storage_offset(),
                tensor.shape,
                tensor.stride(),
            )
            value = shared.get(identity)
            if key in part._parameters or key in _STATISTICS:
                if not tensor.numel():
                    raise TraceError(f"{name} has shape {tuple(tensor.shape)} and holds no entries.")
                state[name] = value = value or _whole(tensor)
                value.weight = True
            elif value is None:
                value = _whole(tensor, Reason("constant", f"constant buffer {name}"), "constant")
            recorder.values.set(tensor, value)
            shared[identity] = value
    return state


def _whole(tensor: Tensor, reason: Reason | None = None, constancy: Constancy | None = None) -> Value:
    """A value with one axis for each dimension, those of size 1 included."""
    return Value(tuple((AxisVariable(size, reason),) for size in tensor.shape), constancy)


def _positional(example_inputs: object) -> tuple[Any, ...]:
    if isinstance(example_inputs, Tensor):
        return (example_inputs,)
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs)
    raise TraceError(
        f"example_inputs must be a tensor or a tuple of positional inputs, got {type(example_inputs).__name__}.\n"
        "  Wrap arrays with torch.as_tensor; give keyword inputs as kwargs=."
    )


def _doubled(inputs: Any) -> Any:
    """Inputs repeated to a batch of 2, if the leading dimension of all of them is 1; else ``None``."""
    tensors = list(_tensors(inputs))
    if not tensors or any(tensor.dim() == 0 or tensor.shape[0] != 1 for tensor in tensors):
        return None

    def double(item: Any) -> Any:
        if isinstance(item, Tensor):
            return torch.cat([item, item])
        if isinstance(item, dict):
            return {key: double(entry) for key, entry in item.items()}
        return type(item)(map(double, item)) if type(item) in (tuple, list) else item

    return double(inputs)


def _tensors(item: Any, seen: frozenset[int] = frozenset()) -> Iterator[Tensor]:
    """The tensors in nested containers and objects."""
    if isinstance(item, Tensor):
        yield item
        return
    if id(item) in seen:
        return
    entries: Iterable[Any] = ()
    if isinstance(item, Mapping):
        entries = item.values()
    elif isinstance(item, (tuple, list, set, frozenset)):
        entries = item
    elif hasattr(item, "__dict__") and not isinstance(item, (type, nn.Module)):
        entries = list(vars(item).values())
    for entry in entries:
        yield from _tensors(entry, seen | {id(item)})
