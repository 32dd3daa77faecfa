"""Following one eager run: every operator goes through its rule, or fixes what it touches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from wsl.trace._facts import Value
from wsl.trace._recorder import Call, Recorder, Unsupported
from wsl.trace._state import ModuleState
from wsl.trace._values import iterate_tensors
from wsl.trace.rules import RULES

_logger = logging.getLogger(__name__)
_SHAPE_IN_PLACE = ("transpose_", "t_", "unsqueeze_", "squeeze_", "swapaxes_")
_ESCAPES = frozenset(
    {
        "numpy", "tolist", "__array__", "__dlpack__", "__cuda_array_interface__", "__deepcopy__", "__reduce_ex__",
        "untyped_storage", "storage", "data_ptr",
    }
)  # fmt: skip


class UnknownOperatorError(Exception):
    """An operator without a rule, met in strict mode."""


class _Signature(NamedTuple):
    name: str
    parameters: tuple[tuple[str, Any], ...]
    written: tuple[str, ...]


@cache
def _signature(operator: OpOverload) -> _Signature:
    """Name without in-place mark, argument names with defaults, and the arguments that are written to."""
    schema = operator._schema
    name = operator.overloadpacket.__name__
    if name.endswith("_") and not name.endswith("__"):
        name = name[:-1]
    arguments = schema.arguments
    return _Signature(
        name if operator.namespace == "aten" else f"{operator.namespace}::{name}",
        tuple((a.name, a.default_value if a.has_default_value() else None) for a in arguments),
        tuple(a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write),
    )


class OperatorMode(TorchDispatchMode):
    """Applies the rule of every operator that runs.

    Args:
        trace: collects what the rules find out.
        state: saves parameters and buffers before they are written to.
        strict: raise at the first operator without a rule, instead of fixing the axes that it touches.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operator imports torch._dynamo, which takes seconds

    def __init__(self, trace: Recorder, state: ModuleState, strict: bool) -> None:
        super().__init__()
        self.trace = trace
        self.state = state
        self.strict = strict
        self.active = False

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)
        outer, self.active = self.active, True
        try:
            return self._run(func, args, kwargs)
        finally:
            self.active = outer

    def _run(self, func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        signature = _signature(func)
        rule = RULES.get(signature.name)
        if rule is None and not signature.written:
            decomposed = self._decompose(func, args, kwargs)
            if decomposed is not NotImplemented:
                return decomposed
        call = Call(signature.name, _bind(signature, args, kwargs))
        trace = self.trace
        trace.begin(signature.name)
        written = (
            []
            if func.overloadpacket.__name__ in _SHAPE_IN_PLACE
            else list(iterate_tensors(call[name] for name in signature.written))
        )
        old = [self._open_for_writing(tensor) for tensor in written]
        read = [trace.value(tensor) for tensor in call.tensors] if rule is None else []
        call.out = func(*args, **kwargs)
        try:
            if rule is None:
                raise Unsupported
            rule(trace, call)
        except Unsupported:
            self._fix_everything(call, old + read)
        except Exception:
            _logger.warning("the rule of %s failed; its axes are fixed", trace.reason().text, exc_info=True)
            self._fix_everything(call, old + read)
        for tensor, value in zip(written, old, strict=True):
            self._close_writing(tensor, value)
        self._mark_weights(call)
        return call.out

    def _decompose(self, func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator as the simpler ones that it is made of, each of which meets its own rule."""
        with self:
            result = func.decompose(*args, **kwargs)
            if result is not NotImplemented or func.namespace != "aten":
                return result
            decomposition = _core_decompositions().get(func)
            return NotImplemented if decomposition is None else decomposition(*args, **kwargs)

    def _fix_everything(self, call: Call, values: list[Value]) -> None:
        """The sound answer to an operator of which nothing is known."""
        trace = self.trace
        if self.strict:
            raise UnknownOperatorError(trace.reason().text)
        values += [trace.value(tensor) for tensor in call.tensors]
        values += [trace.assign(tensor, trace.fixed(tensor.shape)) for tensor in call.outs]
        for value in values:
            for dim in value.dims:
                trace.fix(dim)
        trace.facts.opaque(*values)

    def _open_for_writing(self, tensor: Tensor) -> Value:
        """Before a write: fills in this storage get one and the same axes at all their uses."""
        self.state.save(tensor)
        for value in self.trace.values.sharing(tensor):
            value.constancy = None if value.constancy == "zero" else value.constancy
            uses, value.uses = value.uses or [], None
            for use in uses:
                use.constancy = value.constancy
                for a, b in zip(use.dims, value.dims, strict=True):
                    self.trace.unify(a, b)
                self.trace.facts.same(use, value)
        return self.trace.value(tensor)

    def _close_writing(self, tensor: Tensor, old: Value) -> None:
        """After a write: views of the storage keep their labels, which must therefore fit the new entries."""
        new = self.trace.value(tensor)
        if new is old:
            return
        for a, b in zip(old.dims, new.dims, strict=True):
            self.trace.unify(a, b)
        if self.trace.values.has_alias(tensor):
            self.trace.facts.same(old, new)

    def _mark_weights(self, call: Call) -> None:
        known = [self.trace.values.get(tensor) for tensor in call.tensors]
        values = [value for value in known if value is not None]
        if any(value.weight for value in values) and all(
            value.weight or value.constancy in ("zero", "constant") for value in values
        ):
            for tensor in call.outs:
                value = self.trace.values.get(tensor)
                if value is not None:
                    value.weight = True


class EscapeMode(TorchFunctionMode):
    """Notices tensors that leave torch, where they can no longer be followed: fixes what they carry."""

    def __init__(self, operators: OperatorMode) -> None:
        super().__init__()
        self.operators = operators

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if self.operators.active or not args or not isinstance(args[0], Tensor):
            return result
        trace = self.operators.trace
        if name in _ESCAPES:
            trace.escape(trace.value(args[0]), name.strip("_"))
        elif name == "__get__" and func == torch.Tensor.data.__get__:  # type: ignore[attr-defined]
            trace.values.set(result, trace.value(args[0]))
        return result


def _bind(signature: _Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    bound = dict(signature.parameters)
    bound.update(zip((name for name, _ in signature.parameters), args, strict=False))
    bound.update(kwargs)
    return bound


@lru_cache(maxsize=1)
def _core_decompositions() -> Mapping[Any, Callable[..., Any]]:
    from torch._decomp import core_aten_decompositions  # imported late: it takes a second

    return core_aten_decompositions()
