"""The text form of a specification: names, ``_``, products ``(c 8 8)`` and sums ``(a + b)``."""

import re
from collections.abc import Iterable, Iterator, Mapping

from wsl.spec._values import ANONYMOUS, SCALING_KINDS, Axis, Dim, Factor, Note, Scaling, SpecError, TensorSpec

_TOKEN = re.compile(r"[()+]|[^\s()+]+")
_EXPONENT = re.compile(r"(?P<key>.+)(?P<power>[+-]\d+)")
_SIZES = f"{ANONYMOUS}="
_LINE_WIDTH = 110


def format_dim(dim: Dim) -> str:
    """Write one stored dimension: ``h1``, ``_``, ``(c1 8 8)`` or ``(a + b)``."""
    if len(dim) == 1 and len(dim[0]) == 1:
        factor = dim[0][0]
        return ANONYMOUS if isinstance(factor, int) else factor
    return "(" + " + ".join(" ".join(map(str, term)) for term in dim) + ")"


def format_tensor(name: str, tensor: TensorSpec, width: int = 0) -> str:
    """Write one tensor's line; ``width`` pads the name."""
    sizes = [
        str(size) for dim, size in zip(tensor.dims, tensor.shape, strict=True) if format_dim(dim) == ANONYMOUS
    ]
    words = [name.ljust(width), " " + " ".join(map(format_dim, tensor.dims))]
    return "  ".join(words + ([f" {_SIZES}{'x'.join(sizes)}"] if sizes else [])).rstrip()


def format_axes(axes: Iterable[Axis]) -> Iterator[str]:
    """Write the header lines that declare the axes."""
    line = "axes "
    for axis in axes:
        attributes = (axis.kind, axis.activation, axis.scaling)
        entry = f"   {axis.name}: {axis.size} " + " ".join(word for word in attributes if word)
        if len(line) + len(entry) > _LINE_WIDTH and line.strip() != "axes":
            yield line
            line = "axes "
        line += entry
    yield line.rstrip()


def format_scaling(scaling: Scaling) -> str:
    """Write the line of one scaling symmetry."""
    powers = " ".join(f"{key}{power:+d}" for key, power in scaling.exponents)
    return f"scaling:  {scaling.axis} {scaling.kind} {powers}"


def format_note(note: Note) -> str:
    """Write the line of one note."""
    return f"note:  {note.axis} {note.reason}"


def parse_axes(words: list[str]) -> Iterator[Axis]:
    """Read ``c1: 6 hidden relu positive  x: 1 input …``."""
    entries: list[list[str]] = []
    for word in words:
        if word.endswith(":"):
            entries.append([word[:-1]])
        elif entries:
            entries[-1].append(word)
        else:
            raise SpecError(f"expected 'name:' after 'axes', got {word!r}.")
    for name, *attributes in entries:
        scaling = attributes.pop() if attributes and attributes[-1] in SCALING_KINDS else None
        if len(attributes) not in (2, 3) or not attributes[0].isdecimal():
            raise SpecError(
                f"axis {name} is declared as {' '.join(attributes)!r}; expected 'size kind [activation]'."
            )
        activation = attributes[2] if len(attributes) == 3 else None
        yield Axis(name, int(attributes[0]), attributes[1], activation, scaling)  # type: ignore[arg-type]


def parse_tensor(line: str, sizes: Mapping[str, int]) -> tuple[str, TensorSpec]:
    """Read one tensor's line, given the sizes of all axes."""
    name, *rest = line.split(maxsplit=1)
    text = rest[0] if rest else ""
    head, marker, tail = text.partition(_SIZES)
    anonymous = iter(tail.split("x") if marker else [])
    tokens = _TOKEN.findall(head)
    dims: list[Dim] = []
    while tokens:
        dims.append(_parse_dim(tokens, anonymous, line))
    if (extra := next(anonymous, None)) is not None:
        raise SpecError(f"size {extra} stands for no '_' in {line!r}.")
    return name, TensorSpec.from_dims(tuple(dims), sizes)


def _parse_dim(tokens: list[str], anonymous: Iterator[str], line: str) -> Dim:
    token = tokens.pop(0)
    if token == ANONYMOUS:
        size = next(anonymous, None)
        if size is None or not size.strip().isdecimal():
            raise SpecError(f"the size of a '_' is missing in {line!r}; add it at the end, as in '_=5x5'.")
        return ((int(size),),)
    if token != "(":
        return ((_parse_factor(token, line),),)
    terms: list[list[Factor]] = [[]]
    while tokens:
        token = tokens.pop(0)
        if token == ")":
            return tuple(map(tuple, terms))
        if token == "+":
            terms.append([])
        else:
            terms[-1].append(_parse_factor(token, line))
    raise SpecError(f"a bracket is never closed in {line!r}.")


def _parse_factor(token: str, line: str) -> Factor:
    if token.isdecimal():
        return int(token)
    if token in ("(", ")", "+", ANONYMOUS):
        raise SpecError(
            f"unexpected {token!r} in {line!r}; a dimension is a name, '_', '(a 8 8)' or '(a + b)'."
        )
    return token


def parse_scaling(words: list[str]) -> Scaling:
    """Read ``h1 positive fc1.weight+1 fc2.weight-1``."""
    if len(words) < 3 or words[1] not in SCALING_KINDS:
        raise SpecError(f"expected 'axis positive|sign block+1 …' after 'scaling:', got {' '.join(words)!r}.")
    exponents = []
    for word in words[2:]:
        match = _EXPONENT.fullmatch(word)
        if match is None:
            raise SpecError(f"expected a block and its power, as in 'fc1.weight+1', got {word!r}.")
        exponents.append((match["key"], int(match["power"])))
    return Scaling(words[0], words[1], tuple(exponents))  # type: ignore[arg-type]


def parse_note(text: str) -> Note:
    """Read ``f1 cumsum in layers.2``."""
    axis, _, reason = text.strip().partition(" ")
    if not reason:
        raise SpecError(f"expected 'axis reason' after 'note:', got {text!r}.")
    return Note(axis, reason.strip())
