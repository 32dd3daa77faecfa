"""The text form of a specification: names, ``_``, products ``(c 8 8)`` and sums ``(a + b)``, nested."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from wsl.spec._dims import Dim, Factor
from wsl.spec._family import format_use, parse_use
from wsl.spec._values import (
    ANONYMOUS,
    SCALING_KINDS,
    Axis,
    Exponent,
    Note,
    Scaling,
    SpecError,
    TensorSpec,
)

_TOKEN = re.compile(r"[()+]|[^\s()+]+")
_EXPONENT = re.compile(r"(?P<key>.+?)(?:@(?P<dim>\d+))?(?P<power>[+-]\d+)")
_SIZES = f"{ANONYMOUS}="
_LINE_WIDTH = 110
_CONTINUED = " \\"


def format_dim(dim: Dim, axes: Mapping[str, Axis]) -> str:
    """Write one stored dimension: ``h1``, ``_``, ``(c1 8 8)``, ``(a + b)`` or ``(h1 (d1[h1] + d2[h1]))``."""
    if len(dim) == 1 and len(dim[0]) == 1:
        return ANONYMOUS if isinstance(dim[0][0], int) else _format_factor(dim[0][0], axes)
    return _format_factor(dim, axes)


def _format_factor(factor: Factor, axes: Mapping[str, Axis]) -> str:
    if isinstance(factor, int):
        return str(factor)
    if isinstance(factor, str):
        return format_use(factor, axes)
    return "(" + " + ".join(" ".join(_format_factor(f, axes) for f in term) for term in factor) + ")"


def format_tensor(name: str, tensor: TensorSpec, axes: Mapping[str, Axis], width: int = 0) -> str:
    """Write one tensor's line; ``width`` pads the name."""
    dims = [format_dim(dim, axes) for dim in tensor.dims]
    sizes = [str(size) for dim, size in zip(dims, tensor.shape, strict=True) if dim == ANONYMOUS]
    words = [name.ljust(width), " " + " ".join(dims)]
    return "  ".join(words + ([f" {_SIZES}{'x'.join(sizes)}"] if sizes else [])).rstrip()


def format_axes(axes: Iterable[Axis]) -> Iterator[str]:
    """Write the header lines that declare the axes."""
    entries = []
    for axis in axes:
        attributes = (axis.kind, axis.activation, axis.scaling)
        entries.append(f"{axis.name}: {axis.size} " + " ".join(word for word in attributes if word))
    return join_entries("axes ", entries)


def join_entries(keyword: str, entries: Iterable[str]) -> Iterator[str]:
    """Lines that start with ``keyword`` and hold as many entries as fit."""
    line = keyword
    for entry in entries:
        if len(line) + len(entry) + 3 > _LINE_WIDTH and line != keyword:
            yield line
            line = keyword
        line += f"   {entry}"
    yield line.rstrip()


def parse_entries(words: list[str], keyword: str) -> Iterator[tuple[str, list[str]]]:
    """Undo :func:`join_entries` on one line: names, which end with a colon, and what follows each."""
    entries: list[tuple[str, list[str]]] = []
    for word in words:
        if word.endswith(":"):
            entries.append((word[:-1], []))
        elif entries:
            entries[-1][1].append(word)
        else:
            raise SpecError(f"expected 'name:' after {keyword!r}, got {word!r}.")
    return iter(entries)


def format_scaling(scaling: Scaling) -> str:
    """Write the line of one scaling symmetry."""
    return continue_line(f"scaling:  {scaling.axis} {scaling.kind}", map(str, scaling.exponents))


def continue_line(start: str, words: Iterable[str]) -> str:
    """``start`` and the words as one line, continued after a backslash where it is long."""
    lines = [start]
    for word in words:
        if len(lines[-1]) + len(word) + 3 > _LINE_WIDTH:
            lines.append(" " * 4 + word)
        else:
            lines[-1] += f" {word}"
    return f"{_CONTINUED}\n".join(lines)


def format_note(note: Note) -> str:
    """Write the line of one note."""
    return f"note:  {note.axis} {note.reason}"


def read_lines(text: str) -> list[tuple[int, str]]:
    """The lines of a specification without comments, with their numbers; a backslash continues a line.

    Raises:
        SpecError: none of them declares axes, so this is something else.
    """
    lines = []
    first, line = 0, ""
    for number, part in enumerate([*text.splitlines(), ""], 1):
        first = first if line else number
        line = f"{line} {f' {part}'.split(' #')[0].strip()}".strip()
        if line.endswith(_CONTINUED) and part:
            line = line.removesuffix(_CONTINUED)
        elif line:
            lines.append((first, line))
            line = ""
    if not any(line.split()[0] == "axes" for _, line in lines):
        raise SpecError(
            f"the text declares no axes: {text[:80]!r}.\n  A specification begins with a line such as "
            "'axes   h: 4 hidden   x: 2 input'; to_json() and from_json() write and read another form."
        )
    return lines


@contextmanager
def in_line(number: int, line: str) -> Iterator[None]:
    """What is malformed within is malformed in this line."""
    try:
        yield
    except SpecError as err:
        raise SpecError(f"{err}\n  in line {number}: {line}") from err


def parse_axes(words: list[str]) -> Iterator[Axis]:
    """Read ``c1: 6 hidden relu positive  x: 1 input …``."""
    for name, attributes in parse_entries(words, "axes"):
        scaling = attributes.pop() if attributes and attributes[-1] in SCALING_KINDS else None
        if len(attributes) not in (2, 3) or not attributes[0].isdecimal():
            raise SpecError(
                f"axis {name} is declared as {' '.join(attributes)!r}; expected 'size kind [activation]'."
            )
        activation = attributes[2] if len(attributes) == 3 else None
        yield Axis(name, int(attributes[0]), attributes[1], activation, scaling)  # type: ignore[arg-type]


def parse_tensor(
    line: str, sizes: Mapping[str, int], families: dict[str, tuple[str, ...]]
) -> tuple[str, TensorSpec]:
    """Read one tensor's line, given the sizes of all axes; families go to ``families``."""
    name, *rest = line.split(maxsplit=1)
    if name.endswith(":"):
        raise SpecError(
            f"a line begins with 'axes', 'nodes', 'edge:', 'scaling:', 'note:' or the name of a tensor, "
            f"which has no colon behind it; not with {name!r}."
        )
    text = rest[0] if rest else ""
    head, marker, tail = text.partition(_SIZES)
    anonymous = iter(tail.split("x") if marker else [])
    tokens = _TOKEN.findall(head)
    dims: list[Dim] = []
    while tokens:
        dims.append(_parse_dim(tokens, anonymous, families))
    if (extra := next(anonymous, None)) is not None:
        raise SpecError(f"size {extra} stands for no '_'; '_=5x5' gives one size for each.")
    return name, TensorSpec.from_dims(tuple(dims), sizes)


def _parse_dim(tokens: list[str], anonymous: Iterator[str], families: dict[str, tuple[str, ...]]) -> Dim:
    token = tokens.pop(0)
    if token == ANONYMOUS:
        size = next(anonymous, None)
        if size is None or not size.strip().isdecimal():
            raise SpecError("the size of a '_' is missing; add it at the end of the line, as in '_=5x5'.")
        return ((int(size),),)
    if token != "(":
        return ((_parse_factor(token, families),),)
    return _parse_sum(tokens, families)


def _parse_sum(tokens: list[str], families: dict[str, tuple[str, ...]]) -> Dim:
    """What follows an opening bracket, up to the closing one."""
    terms: list[list[Factor]] = [[]]
    while tokens:
        token = tokens.pop(0)
        if token == ")":
            return tuple(map(tuple, terms))
        if token == "+":
            terms.append([])
        elif token == "(":
            terms[-1].append(_parse_sum(tokens, families))
        else:
            terms[-1].append(_parse_factor(token, families))
    raise SpecError("a bracket is never closed.")


def _parse_factor(token: str, families: dict[str, tuple[str, ...]]) -> Factor:
    if token.isdecimal():
        return int(token)
    if token in ("(", ")", "+", ANONYMOUS):
        raise SpecError(
            f"unexpected {token!r}; a dimension is a name, '_', '(a 8 8)', '(a + b)' or '(a (b + c))'."
        )
    return parse_use(token, families)


def parse_scaling(words: list[str]) -> Scaling:
    """Read ``h1 positive fc1.weight+1 fc2.weight-1``."""
    if len(words) < 3 or words[1] not in SCALING_KINDS:
        raise SpecError(
            f"expected 'axis {'|'.join(SCALING_KINDS)} block+1 …' after 'scaling:', got {' '.join(words)!r}."
        )
    exponents = []
    for word in words[2:]:
        match = _EXPONENT.fullmatch(word)
        if match is None:
            raise SpecError(
                f"expected a block and its power, as in 'fc1.weight+1' or 'rnn.weight@0+1', got {word!r}."
            )
        dim = int(match["dim"]) if match["dim"] else None
        exponents.append(Exponent(match["key"], int(match["power"]), dim))
    return Scaling(words[0], words[1], tuple(exponents))  # type: ignore[arg-type]


def parse_note(text: str) -> Note:
    """Read ``f1 cumsum in layers.2``."""
    axis, _, reason = text.strip().partition(" ")
    if not reason:
        raise SpecError(f"expected 'axis reason' after 'note:', got {text!r}.")
    return Note(axis, reason.strip())
