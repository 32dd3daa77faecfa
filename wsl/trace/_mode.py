"""Following one eager run: every operator goes through its rule, or fixes what it touches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from wsl.trace._axes import is_fixed, size_of
from wsl.trace._facts import Value
from wsl.trace._meta import Shadows
from wsl.trace._operators import Call, decompositions
from wsl.trace._recorder import Recorder, Unsupported, lose_sight
from wsl.trace._stacks import Stack
from wsl.trace._state import ModuleState
from wsl.trace.rules import RULES

_logger = logging.getLogger(__name__)
_DATA: Any = torch.Tensor.data
_ESCAPES = frozenset(
    {
        "numpy", "tolist", "__array__", "__dlpack__", "__cuda_array_interface__", "__deepcopy__",
        "__reduce_ex__", "untyped_storage", "storage", "data_ptr", "apply_", "map_", "map2_",
    }
)  # fmt: skip


class NotTraceableError(Exception):
    """In strict mode: an operator without a rule, or a value that left torch."""


class OperatorMode(TorchDispatchMode):
    """Applies the rule of every operator that runs.

    Args:
        trace: collects what the rules find out.
        state: saves parameters and buffers before they are written to.
        strict: raise where axes would be fixed because an operator has no rule.
        shadows: the known entries of tensors, where the module is on the meta device.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operator imports torch._dynamo, which takes seconds

    def __init__(
        self, trace: Recorder, state: ModuleState, strict: bool, shadows: Shadows | None = None
    ) -> None:
        super().__init__()
        self.trace = trace
        self.state = state
        self.strict = strict
        self.shadows = shadows
        self.active = False

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func.namespace == "prim":
            return func(*args, **(kwargs or {}))
        outer, self.active = self.active, True
        try:
            return self._run(func, args, kwargs or {})
        finally:
            self.active = outer

    def _run(self, func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        call = Call(func, args, kwargs)
        rule = RULES.get(call.name)
        if rule is None and not call.written:
            result = self._decompose(func, args, kwargs)
            if result is not NotImplemented:
                return result
        self.trace.begin(call.name)
        touched = [self._open_for_writing(tensor) for tensor in call.written]
        before = list(touched)
        values = self.trace.values
        sources = [values.get(tensor) or values.get_stack(tensor) for tensor in call.tensors]
        if rule is None:
            touched += [self.trace.value(tensor) for tensor in call.tensors]
        if self.shadows is None:
            call.out = func(*args, **kwargs)
        else:
            call.out = self.shadows.run(func, args, kwargs, call.written)
        self.trace.ranks.append((call.name, tuple(tensor.dim() for tensor in call.outs)))
        if not (call.written or call.reshapes) and any(call.out is tensor for tensor in call.tensors):
            return call.out  # a conversion to what it was
        try:
            if rule is None:
                raise Unsupported
            rule(self.trace, call)
        except Unsupported:
            self._fix_everything(call, touched)
        except Exception:
            _logger.warning("the rule of %s failed; it fixes axes", self.trace.reason().text, exc_info=True)
            self._fix_everything(call, touched)
        for tensor, value in zip(call.written, before, strict=True):
            self._close_writing(tensor, value)
        self._mark_weights(sources, call.outs)
        return call.out

    def _decompose(self, func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator as the simpler ones that it is made of, each of which meets its own rule."""
        for decomposition in decompositions(func):
            try:
                with self:
                    result = decomposition(*args, **kwargs)
            except NotTraceableError:
                raise
            except Exception as err:
                _logger.debug("no decomposition of %s for these arguments: %s", func, err)
                continue
            if result is not NotImplemented:
                return result
        return NotImplemented

    def fix_all(self, values: Sequence[Value]) -> None:
        """Fix the axes of ``values`` because of the running operator; if strict, raise if any was free."""
        dims = [dim for value in values for dim in value.dims]
        if self.strict and not all(map(is_fixed, dims)):
            raise NotTraceableError(self.trace.reason().text)
        for dim in dims:
            self.trace.fix(dim)
        self.trace.facts.opaque(*values)

    def _fix_everything(self, call: Call, touched: list[Value]) -> None:
        """The sound answer to an operator of which nothing is known."""
        self.fix_all([*touched, *map(self.trace.value, call.tensors)])
        self.trace.facts.opaque(
            *(self.trace.assign(tensor, self.trace.fixed(tensor.shape)) for tensor in call.outs)
        )

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
        if new is old or tuple(map(size_of, old.dims)) != tuple(tensor.shape):
            return  # not written after all, or resized, which no rule describes
        for a, b in zip(old.dims, new.dims, strict=True):
            self.trace.unify(a, b)
        if self.trace.values.has_alias(tensor):
            self.trace.facts.same(old, new)

    def _mark_weights(self, sources: Sequence[Value | Stack | None], outs: Sequence[Tensor]) -> None:
        """What is made of parameters and constants alone is a weight too."""
        values = [value for value in sources if value is not None]
        constant = all(value.weight or value.constancy in ("zero", "constant") for value in values)
        if constant and any(value.weight for value in values):
            for value in filter(None, map(self.trace.values.get, outs)):
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
        name = getattr(func, "__name__", "")
        if self.operators.active or not args or not isinstance(args[0], Tensor):
            return func(*args, **(kwargs or {}))
        trace, tensor = self.operators.trace, args[0]
        if name in _ESCAPES:
            trace.begin(name.strip("_"))
            tensors = [item for item in args if isinstance(item, Tensor)]
            self.operators.fix_all(list(map(trace.value, tensors)))
            for item in tensors:
                lose_sight(trace, item)
        elif name == "__set__" and func == _DATA.__set__:
            trace.begin("assignment to data")
            self.operators.state.save(tensor)
            self.operators.fix_all([trace.value(tensor), trace.value(args[1])])
        result = func(*args, **(kwargs or {}))
        if name == "__get__" and func == _DATA.__get__:
            trace.values.set(result, trace.value(tensor))
        elif name == "__set__" and func == _DATA.__set__:
            trace.values.set(tensor, trace.value(args[1]))
        return result
