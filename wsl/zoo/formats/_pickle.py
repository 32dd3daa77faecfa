"""Reads pickles as data: a machine for the opcodes of plain values that can call nothing.

Classes and functions are looked up in a table by name; nothing is imported, and what the table lacks is
refused by name. Numbers, text and containers are built, listed classes become :class:`Record` values.
"""

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wsl.zoo._errors import ZooError

_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_VALUES = {
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
    "BINBYTES", "SHORT_BINBYTES",
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(eq=False)
class Record:
    """An instance of a class that the table lists: its name and its state, as data."""

    name: str
    state: Any = None


@dataclass(frozen=True)
class _Name:
    """A class or function that a pickle names; never the thing itself."""

    name: str


def read_pickle(
    data: bytes,
    functions: Mapping[str, Callable[..., Any]],
    records: frozenset[str] = frozenset(),
    load: Callable[[Any], Any] | None = None,
) -> Any:
    """Build the value of a pickle (protocols 2 to 5).

    Args:
        data: the pickle.
        functions: full name -> what a call of it builds. These are functions of ours, which check arguments.
        records: full names of classes whose instances become :class:`Record` values.
        load: builds persistent values (storages) from their identifiers.

    Raises:
        ZooError: an opcode beyond plain values, a name outside the tables, or damage.
    """
    try:
        return _Machine(functions, records, load).run(data)
    except ZooError:
        raise
    except Exception as err:  # damaged pickles underflow the stack, name memos that are not there, …
        raise ZooError(f"its pickle is damaged ({type(err).__name__}: {err}).") from err


class _Machine:
    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        records: frozenset[str],
        load: Callable[[Any], Any] | None,
    ) -> None:
        self.functions, self.records, self.load = functions, records, load
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(data):
            name = opcode.name
            if name == "STOP":
                break
            self.step(name, argument)
        (value,) = self.stack
        return value

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "TUPLE":
            stack.append(tuple(self.pop_mark()))
        elif name in _TUPLES:
            stack.append(tuple(self.pop(_TUPLES[name])))
        elif name in ("SETITEM", "SETITEMS"):
            items = self.pop_mark() if name == "SETITEMS" else self.pop(2)
            _checked(dict, stack[-1]).update(zip(map(_key, items[::2]), items[1::2], strict=True))
        elif name in ("APPEND", "APPENDS"):
            items = self.pop_mark() if name == "APPENDS" else self.pop(1)
            _checked(list, stack[-1]).extend(items)
        elif name == "GLOBAL":
            stack.append(_Name(argument.replace(" ", ".")))
        elif name == "STACK_GLOBAL":
            stack.append(_Name(".".join(map(str, self.pop(2)))))
        elif name == "REDUCE":
            self.call()
        elif name == "NEWOBJ":
            self.make()
        elif name == "BUILD":
            self.build()
        elif name == "BINPERSID" and self.load is not None:
            stack.append(self.load(stack.pop()))
        elif name not in ("PROTO", "FRAME"):
            raise ZooError(f"its pickle has the opcode {name}, which plain data does not need.")

    def pop(self, count: int) -> list[Any]:
        values = self.stack[-count:]
        if len(values) < count or any(value is _MARK for value in values):
            raise ValueError("too few values")
        del self.stack[-count:]
        return values

    def pop_mark(self) -> list[Any]:
        place = next(i for i in reversed(range(len(self.stack))) if self.stack[i] is _MARK)
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def call(self) -> None:
        function, arguments = self.pop(2)
        name = function.name if isinstance(function, _Name) else type(function).__name__
        if name not in self.functions:
            raise ZooError(
                f"its pickle calls {name}, which a file of data must not. Nothing was run. If you trust the "
                "file, load it yourself and save a plain dictionary of tensors."
            )
        self.stack.append(self.functions[name](*_checked(tuple, arguments)))

    def make(self) -> None:
        cls, arguments = self.pop(2)
        name = cls.name if isinstance(cls, _Name) else type(cls).__name__
        if name not in self.records or arguments != ():
            raise ZooError(
                f"its pickle holds a {name}, which a file of data must not. Nothing was run. If you trust "
                "the file, load it yourself and save a plain dictionary of tensors."
            )
        self.stack.append(Record(name))

    def build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, Record) and target.state is None:
            target.state = state
        elif not (isinstance(target, dict) and isinstance(state, dict) and set(state) <= {"_metadata"}):
            raise ZooError(f"its pickle sets the state of a {type(target).__name__}.")


def _checked(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def _key(value: Any) -> Any:
    """A key of a dictionary: text or an integer. Hashing nested tuples could take for ever."""
    return _checked(str | int, value)  # type: ignore[arg-type]
