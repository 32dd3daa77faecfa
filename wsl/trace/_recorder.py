"""The state of one trace, and the vocabulary in which operator rules speak."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import FrameType
from typing import NamedTuple

from torch import Tensor, nn

from wsl.trace._axes import Dim, Reason, ReasonKind, fix, fresh, size_of
from wsl.trace._facts import Constancy, Facts, Value
from wsl.trace._operators import Call
from wsl.trace._stacks import Site, Sites, Stack
from wsl.trace._unify import unify
from wsl.trace._values import ValueTable


class Unsupported(Exception):  # noqa: N818
    """Raised by a rule that cannot describe a call; the call is then treated as an unknown operator."""


class Ran(NamedTuple):
    """An operator that ran: its first fact, its name, the module and the lines of code that ran it."""

    first: int
    name: str
    module: str
    line: Hashable


class Recorder:
    """Collects what the rules find out during one run of ``module``.

    Attributes:
        facts: what operators do to their operands.
        produced: dims that layers make, with the prefix of their axes' names, in order of the forward pass.
        features: dims that layers contract or normalise: neurons, not positions.
        operators: what ran, in order, and which facts it left.
        ranks: the names of operators and the ranks of what they returned, in order.
        sites: the views that split axes: see :mod:`wsl.trace._stacks`.

    Args:
        module: the module that runs.
        stacked: sites of which to make stacks.
    """

    def __init__(self, module: nn.Module, stacked: frozenset[Site] = frozenset()) -> None:
        self.values = ValueTable()
        self.facts = Facts()
        self.produced: list[tuple[Dim, str]] = []
        self.features: list[Dim] = []
        self.sites = Sites(stacked)
        self._ordinal = 0
        self.operators: list[Ran] = []
        self.ranks: list[tuple[str, tuple[int, ...]]] = []
        self._operator = ""
        self._where: str | None = None
        self._paths = {id(part): path or type(module).__name__ for path, part in module.named_modules()}

    def begin(self, operator: str) -> None:
        """Name the operator that runs now; reasons will cite it."""
        self._operator = operator
        self._where = None
        self.operators.append(Ran(len(self.facts), operator, *self._find_line()))
        self._ordinal += 1

    def site(self, dim: int) -> Site:
        """The running operator, a view, as the one that makes the dim at position ``dim``."""
        return Site(self._ordinal, dim)

    def value(self, tensor: Tensor) -> Value:
        """The value of a tensor that the running operator reads; collapses a stack."""
        value = self.values.get(tensor)
        if value is None:
            stack = self.values.get_stack(tensor)
            return self._unseen(tensor) if stack is None else self._collapse(tensor, stack)
        if value.uses is not None:
            value.uses.append(Value(fresh(tensor.shape), value.constancy))
            value.uses[-1].is_use = True
            return value.uses[-1]
        for dim, reason in value.indexes:
            fix(dim, reason)
        return value

    def assign(self, tensor: Tensor, dims: Iterable[Dim], constancy: Constancy | None = None) -> Value:
        """Give a tensor that the running operator made a new value."""
        return self.values.set(tensor, Value(tuple(dims), constancy))

    def slicewise(self, tensor: Tensor, out: Tensor, move: Callable[[Value], Value]) -> None:
        """Give ``out`` what ``move`` makes of the value of ``tensor``, or of each slice of a stack."""
        stack = self.values.get_stack(tensor)
        if stack is None:
            self.values.set(out, move(self.value(tensor)))
        else:
            self.values.set_stack(out, Stack(stack.dim, [*map(move, stack.slices)], stack.site))

    def declared(self, tensor: Tensor) -> list[Value]:
        """The value of an output, or the values of its slices if it is a stack."""
        stack = self.values.get_stack(tensor)
        return [self.value(tensor)] if stack is None else list(stack.slices)

    def reason(self, kind: ReasonKind = "operator") -> Reason:
        """A reason that names the running operator and the innermost module that runs it."""
        if self._where is None:
            self._where = self._find_place()
        return Reason(kind, self._operator + self._where)

    def fix(self, dim: Dim, kind: ReasonKind = "operator") -> None:
        """Fix ``dim`` because of the running operator."""
        fix(dim, self.reason(kind))

    def fixed(self, shape: Iterable[int], kind: ReasonKind = "operator") -> tuple[Dim, ...]:
        """New dims that the running operator fixes."""
        return fresh(shape, self.reason(kind))

    def unify(self, a: Dim, b: Dim) -> Dim:
        """Make two dims the same axes; one of size 1 is broadcast instead. Returns the larger."""
        if size_of(a) != size_of(b):
            return b if size_of(a) == 1 else a
        unify(a, b, self.reason)
        return a or b

    def broadcast(self, values: Sequence[Value]) -> tuple[Dim, ...]:
        """Dims of the broadcast of ``values``."""
        rank = max((len(value.dims) for value in values), default=0)
        dims: list[Dim] = [()] * rank
        for value in values:
            offset = rank - len(value.dims)
            for i, dim in enumerate(value.dims):
                dims[offset + i] = self.unify(dims[offset + i], dim)
        return tuple(dims)

    def _collapse(self, tensor: Tensor, stack: Stack) -> Value:
        """One value for a stack: its slices lie on the same axes, and their index is fixed."""
        if stack.site is not None:
            self.sites.collapsed.add(stack.site)
        first, *others = stack.slices
        for other in others:
            for a, b in zip(first.dims, other.dims, strict=True):
                self.unify(a, b)
        index = self.fixed([len(stack.slices)], "position")
        whole = Value((*first.dims[: stack.dim], *index, *first.dims[stack.dim :]), stack.constancy)
        whole.weight = stack.weight
        for value in stack.slices:
            self.facts.move(value, [i + (i >= stack.dim) for i in range(len(value.dims))], whole)
        return self.values.set(tensor, whole)

    def _unseen(self, tensor: Tensor) -> Value:
        """A tensor that no traced operator made: a constant, or a view made out of sight."""
        lose_sight(self, tensor)
        reason = Reason("constant", f"a constant tensor met by {self.reason().text}")
        return self.values.set(tensor, Value(fresh(tensor.shape, reason), "constant"))

    def _find_line(self) -> tuple[str, Hashable]:
        """The module that runs now, and the lines of code down from it, the same in a loop."""
        lines: list[Hashable] = []
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            lines.append((id(code), frame.f_lasti))
            if code.co_argcount and code.co_varnames[0] == "self":
                path = self._paths.get(id(frame.f_locals.get("self")))
                if path is not None:
                    return path, tuple(lines)
            frame = frame.f_back
        return "", tuple(lines)

    def _find_place(self) -> str:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if code.co_argcount:
                path = self._paths.get(id(frame.f_locals.get(code.co_varnames[0])))
                if path is not None:
                    return f" in {path}"
            frame = frame.f_back
        return ""


def lose_sight(trace: Recorder, tensor: Tensor) -> None:
    """The storage of ``tensor`` can be read and written where no operator shows it: fix all values in it."""
    for value in trace.values.sharing(tensor):
        uses, value.uses = value.uses or [], None
        for known in (value, *uses):
            known.constancy = None if known.constancy == "zero" else known.constancy
            for dim in known.dims:
                trace.fix(dim)
            trace.facts.opaque(known)


Rule = Callable[[Recorder, Call], None]
