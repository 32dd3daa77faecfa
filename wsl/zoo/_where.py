"""A small language on metadata, for conditions and numbers: ``step == 86 and activation == 'relu'``.

Read with Python's own grammar and computed by this module alone: nothing of it is ever run as code.
"""

import ast
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._metadata import MissingColumnError

_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_LANGUAGE = (
    "Use columns, numbers, strings, comparisons, and, or, not, in [..], + - * / and parentheses, such as "
    "step == 86 and activation == 'relu'. A column whose name is no identifier goes in backticks."
)
_LONGEST = 100_000
_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|`([^`]*)`""")


def where(
    expression: str, columns: Mapping[str, np.ndarray], rows: int, owner: str = "the zoo"
) -> np.ndarray:
    """The rows for which an expression over metadata columns holds.

    A comparison with NaN does not hold, except ``!=``, as in IEEE 754: ``loss != loss`` finds missing values.

    Args:
        expression: see the module; columns are named as they are, dots included.
        columns: name -> ``(rows,)``.
        owner: what has the columns, for messages.

    Returns:
        ``(n,)`` int64 row numbers, ascending.

    Raises:
        ZooError: no such column (the message lists them), something outside the language, or text where
            numbers are expected.
    """
    mask = _evaluate(expression, columns, owner, _Evaluation.truth)
    return np.flatnonzero(np.broadcast_to(mask, (rows,)))


def compute(
    expression: str, columns: Mapping[str, np.ndarray], rows: int, owner: str = "the zoo"
) -> np.ndarray:
    """A value for every row, such as ``train_accuracy - test_accuracy``: ``(rows,)`` numbers or text.

    Args and errors as of :func:`where`.
    """
    values = _evaluate(expression, columns, owner, _Evaluation.value)
    return np.broadcast_to(np.asarray(values), (rows,))


def _evaluate(
    expression: str,
    columns: Mapping[str, np.ndarray],
    owner: str,
    take: Callable[["_Evaluation", ast.expr], Any],
) -> Any:
    names: dict[str, str] = {}

    def stand_in(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        name = f"_column_{len(names)}_"
        names[name] = match[2]
        return name

    if not isinstance(expression, str) or len(expression) > _LONGEST:
        raise ZooError(f"The condition is no text of at most {_LONGEST} characters. {_LANGUAGE}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd but valid Python; what is not of the language is refused
            tree = ast.parse(_QUOTED.sub(stand_in, expression).strip(), mode="eval")
        return take(_Evaluation(expression, columns, names, owner), tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as err:
        if isinstance(err, ZooError):
            raise
        raise ZooError(f"The condition {_short(expression)} cannot be read: {err}. {_LANGUAGE}") from err


class _Evaluation:
    """One pass over the syntax tree. Values are columns, numbers or strings; truths are bool arrays."""

    def __init__(
        self, expression: str, columns: Mapping[str, np.ndarray], names: Mapping[str, str], owner: str
    ) -> None:
        self.expression, self.columns, self.names, self.owner = expression, columns, names, owner

    def truth(self, node: ast.expr) -> Any:
        if isinstance(node, ast.BoolOp):
            combine = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            result = self.truth(node.values[0])
            for value in node.values[1:]:
                result = combine(result, self.truth(value))
            return result
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return np.logical_not(self.truth(node.operand))
        if isinstance(node, ast.Compare):
            return self.comparison(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return node.value
        value = self.value(node)
        if _is_text(value):
            raise self.error(f"{self.source(node)} is text, and not true or false: compare it with something")
        return np.not_equal(value, 0)

    def comparison(self, node: ast.Compare) -> Any:
        result, left, left_node = True, self.value(node.left), node.left
        for kind, right_node in zip(node.ops, node.comparators, strict=True):
            if isinstance(kind, ast.In | ast.NotIn):
                found = self.membership(left, left_node, right_node)
                result = np.logical_and(result, found if isinstance(kind, ast.In) else ~found)
                continue
            if type(kind) not in _COMPARISONS:
                raise self.error("`is` does not compare values: use ==")
            right = self.value(right_node)
            self.check_alike(left, left_node, right, right_node)
            result = np.logical_and(result, _COMPARISONS[type(kind)](left, right))
            left, left_node = right, right_node
        return result

    def membership(self, value: Any, node: ast.expr, choices: ast.expr) -> np.ndarray:
        if not isinstance(choices, ast.List | ast.Tuple | ast.Set):
            raise self.error(f"after `in` comes a list, such as {self.source(node)} in [1, 2]")
        found = np.zeros(np.shape(value), dtype=bool)
        for choice in choices.elts:
            other = self.value(choice)
            self.check_alike(value, node, other, choice)
            found = found | (value == other)
        return found

    def value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
            return np.float64(node.value) if isinstance(node.value, float) else self.literal(node.value)
        if isinstance(node, ast.Name | ast.Attribute):
            return self.column(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            number = self.number(node.operand)
            return -number if isinstance(node.op, ast.USub) else number
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return self.arithmetic(node, _ARITHMETIC[type(node.op)])
        if isinstance(node, ast.BoolOp | ast.Compare) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        ):
            return np.asarray(self.truth(node)).astype(np.int64)
        raise self.error(f"{self.source(node)} is not part of the language")

    def literal(self, value: int | str) -> int | str:
        if isinstance(value, int) and value.bit_length() > 63:
            raise self.error(f"{_short(str(value))} is too large: integers have 64 bits")
        return int(value) if isinstance(value, bool) else value

    def arithmetic(self, node: ast.BinOp, operate: Callable[[Any, Any], Any]) -> Any:
        left, right = np.asarray(self.number(node.left)), np.asarray(self.number(node.right))
        with np.errstate(all="ignore"):  # 1 / 0 is infinite
            result = operate(left, right)
            rounded = operate(left.astype(np.float64), right.astype(np.float64))
        if result.dtype.kind == "i" and np.abs(rounded).max(initial=0) >= 2.0**63:
            raise self.error(
                f"{self.source(node)} overflows: integers have 64 bits. Write a number with a dot"
            )
        return result

    def column(self, node: ast.expr) -> np.ndarray:
        name = self.dotted(node)
        if name not in self.columns:
            raise MissingColumnError(name, self.owner, self.columns)
        return self.columns[name]

    def dotted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Attribute):
            return f"{self.dotted(node.value)}.{node.attr}"
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        raise self.error(f"{self.source(node)} is not part of the language")

    def number(self, node: ast.expr) -> Any:
        value = self.value(node)
        if _is_text(value):
            raise self.error(f"{self.source(node)} is text, and arithmetic takes numbers")
        return value

    def check_alike(self, left: Any, left_node: ast.expr, right: Any, right_node: ast.expr) -> None:
        if _is_text(left) != _is_text(right):
            kinds = ["text" if _is_text(value) else "a number" for value in (left, right)]
            raise self.error(
                f"{self.source(left_node)} is {kinds[0]} and {self.source(right_node)} is {kinds[1]}, which "
                "cannot be compared: text stands in quotation marks, numbers do not"
            )

    def source(self, node: ast.expr) -> str:
        text = ast.unparse(node)
        for name, column in self.names.items():
            text = text.replace(name, f"`{column}`")
        return _short(text)

    def error(self, reason: str) -> ZooError:
        return ZooError(f"In the condition {_short(self.expression)}, {reason}. {_LANGUAGE}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, np.ndarray) and value.dtype.kind == "U")


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
