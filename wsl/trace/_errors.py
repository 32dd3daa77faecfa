"""What cannot be traced, and what to do instead."""

from __future__ import annotations

import inspect
import re
from types import TracebackType

import torch
from torch import Tensor, nn

from wsl.spec import SpecError
from wsl.trace._inputs import Example, nested_tensors

_PLAIN = (Tensor, nn.Parameter, nn.Buffer, torch._subclasses.FakeTensor)
_DATA_DEPENDENT = (
    "data-dependent", "data-independent", "cannot be called on meta tensors", "out of meta tensors",
    "dynamic shape",
)  # fmt: skip


class TraceError(ValueError):
    """A module cannot be traced: it does not run on the example inputs, or is forbidden to by ``strict``."""


def check_module(module: object) -> None:
    """Refuse what is no module, or one whose weights are not there as numbers.

    Raises:
        TraceError: no ``nn.Module``; TorchScript; quantised, lazy or sparse weights, or weights without
            entries; the message names the part.
    """
    if not isinstance(module, nn.Module):
        found, way = type(module).__name__, ""
        if isinstance(module, type) and issubclass(module, nn.Module):
            found, way = f"the class {module.__name__}", "; call it to make one"
        elif isinstance(module, torch.export.ExportedProgram):
            way = "; its module() is one"
        raise TraceError(f"expected a torch.nn.Module, got {found}{way}.")
    for path, part in module.named_modules():
        _check_part(path, part)
    state = [*module.named_parameters(), *module.named_buffers()]
    on_meta = [name for name, tensor in state if tensor.is_meta]
    if 0 < len(on_meta) < len(state):
        other = next(name for name, tensor in state if not tensor.is_meta)
        raise TraceError(
            f"{on_meta[0]} is on the meta device, but {other} is not.\n  Move the whole module: "
            'module.to("meta") traces without data, module.to_empty(device="cpu") with it.'
        )


def _check_part(path: str, part: nn.Module) -> None:
    if isinstance(part, torch.jit.ScriptModule):
        raise TraceError(
            f"{path or part.original_name} is a TorchScript module, whose state cannot be set aside during a "
            "trace.\n  Trace the Python module that it was made from: the specification is the same."
        )
    named = {**part._parameters, **part._buffers}
    tensors = {name: tensor for name, tensor in named.items() if tensor is not None}
    packed = ".quantized." in f"{type(part).__module__}."
    if packed or any(tensor.is_quantized for tensor in tensors.values()):
        raise TraceError(
            f"{path or 'the module'} is a quantised {type(part).__name__}: its weights are packed integers "
            "with scales, which no axis describes.\n  Trace the floating-point module that it was made from."
        )
    for key, tensor in tensors.items():
        name = key if path == "" else f"{path}.{key}"
        if nn.parameter.is_lazy(tensor):
            raise TraceError(f"{name} is not initialised yet; run the module once before tracing it.")
        if key in part._parameters and not tensor.numel():
            raise TraceError(f"{name} has shape {tuple(tensor.shape)} and holds no entries.")
        if type(tensor) not in _PLAIN and type(tensor).__torch_dispatch__ is not _no_dispatch:
            raise TraceError(
                f"{name} is a {type(tensor).__name__}, whose entries are not stored one by one."
                "\n  Trace the module with ordinary parameters: before it was quantised, sharded or wrapped."
            )


_no_dispatch = torch._C._disabled_torch_dispatch_impl


def no_rule(operator: str) -> TraceError:
    """In strict mode: an operator without a rule, or a value that leaves torch."""
    return TraceError(
        f"no rule describes {operator}.\n  Without strict=True the axes that it touches are fixed, and "
        "the notes of the specification say so."
    )


def fails_to_run(module: nn.Module, example: Example, error: Exception) -> TraceError:
    """The module does not run on an example: says where, with which shapes, and what it accepts."""
    place = _innermost(module, error.__traceback__)
    within = f" in {place}" if place else ""
    tensors = list(nested_tensors((example.inputs, example.keywords)))
    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors) or "none (they hold no tensors)"
    said = f"{type(error).__name__}: {error}"
    if any(tensor.is_meta for tensor in tensors) and any(text in str(error) for text in _DATA_DEPENDENT):
        return TraceError(
            f"{type(module).__name__} needs the entries of a tensor{within}, but on the meta device there "
            f"are none: {said}\n  Its control flow or its shapes depend on data. Trace it with real weights "
            "(on the CPU), or take that part out."
        )
    if "does not require grad" in said:
        return TraceError(
            f"{type(module).__name__} takes gradients{within}, but runs without them here: {said}\n  Trace a "
            "module that returns what is differentiated: its symmetries are those of its gradient."
        )
    if function := re.search(r"HigherOrderOperator (\w+)", str(error)):
        return TraceError(
            f"{type(module).__name__} calls {function[1]}{within}, an operator that takes functions, into "
            "which a trace cannot look.\n  Let it run plain ones while it is traced (an if for torch.cond, "
            "scaled_dot_product_attention for flex_attention): the specification is the same."
        )
    return TraceError(
        f"{type(module).__name__} fails to run on inputs of shapes {shapes}{within}: {said}\n  "
        f"It takes {_signature(module)}. Give example_inputs (and kwargs) on which "
        "module(*example_inputs, **kwargs) works, on the module's device and in its dtype."
    )


def no_selection(result: object, error: Exception) -> TraceError:
    """``output=`` does not apply to what the module returns."""
    return TraceError(
        f"output= fails on the {type(result).__name__} that the module returns: {type(error).__name__}: "
        f"{error}\n  It is a function of that, such as lambda o: o[0], and gives what has to be preserved."
    )


def no_name(module: nn.Module, error: SpecError) -> TraceError:
    """The text form of specifications cannot hold the name of a tensor."""
    return TraceError(
        f"no specification can be written for {type(module).__name__}: {error}\n  Give that parameter, or "
        "the module that holds it, another name."
    )


def no_tensor(module: nn.Module, result: object, selected: bool) -> TraceError:
    """The module, or the selection from its output, holds no tensor."""
    what = "the output selected by output=" if selected else type(module).__name__
    verb = "is" if selected else "returns"
    return TraceError(
        f"{what} {verb} {type(result).__name__} without any tensor; a specification describes a function of "
        "tensors."
    )


def _signature(module: nn.Module) -> str:
    try:
        return f"forward{inspect.signature(module.forward)}"
    except (TypeError, ValueError):
        return "the arguments of its forward"


def _innermost(module: nn.Module, traceback: TracebackType | None) -> str:
    """The path of the innermost submodule whose code the error passed through, if there is one."""
    paths = {id(part): path for path, part in module.named_modules()}
    found = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_argcount:
            owner = traceback.tb_frame.f_locals.get(code.co_varnames[0])
            found = paths.get(id(owner)) or found
        traceback = traceback.tb_next
    return found
