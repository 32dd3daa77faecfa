"""Finding and reading the files of a foreign zoo: folders, JSON and numbers in names."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wsl.zoo._errors import ZooError

LARGEST_TEXT = 512 << 20
_DEEPEST = 8


def find_folder(source: Path, what: str, is_it: Callable[[Path], bool], depth: int = 3) -> Path:
    """``source`` if it is the folder looked for, else the only such folder at most ``depth`` below it.

    Raises:
        ZooError: there is none, or several: the message lists them.
    """
    if not source.is_dir():
        raise ZooError(f"{source} is {'a file' if source.exists() else 'not there'}, expected {what}.")
    if is_it(source):
        return source
    found = [folder for folder in _subfolders(source, depth) if is_it(folder)]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(str(folder) for folder in found[:5])
        raise ZooError(f"{source} holds {len(found)} zoos of this format, {shown}: name one of them.")
    raise ZooError(f"{source} is not {what}, and none is in it.")


def _subfolders(folder: Path, depth: int) -> Iterator[Path]:
    if depth:
        for child in entries(folder):
            if child.is_dir() and not child.is_symlink():
                yield child
                yield from _subfolders(child, depth - 1)


def entries(folder: Path) -> list[Path]:
    """What lies directly in a folder, sorted so that numbers in names count as numbers."""
    try:
        return sorted(folder.iterdir(), key=natural_key)
    except OSError as err:
        raise ZooError(f"{folder} cannot be read: {err.strerror or err}.") from err


def files_below(root: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Every regular file below ``root`` with one of the suffixes, in natural order.

    Raises:
        ZooError: a link leads out of ``root``, or folders are nested too deeply.
    """
    found: list[Path] = []
    _collect(root, root.resolve(), suffixes, found, _DEEPEST)
    return sorted(found, key=lambda path: natural_key(path.relative_to(root)))


def _collect(folder: Path, root: Path, suffixes: tuple[str, ...], found: list[Path], depth: int) -> None:
    if depth < 0:
        raise ZooError(f"{folder} is nested too deeply: networks are looked for {_DEEPEST} folders deep.")
    try:
        with os.scandir(folder) as items:
            children = list(items)
    except OSError as err:
        raise ZooError(f"{folder} cannot be read: {err.strerror or err}.") from err
    for item in children:
        path = Path(item.path)
        if item.is_dir(follow_symlinks=False):
            _collect(path, root, suffixes, found, depth - 1)
        elif item.name.endswith(suffixes) and item.is_file():
            inside(path, root)
            found.append(path)


def inside(path: Path, root: Path) -> Path:
    """``path``, unless it leads out of ``root`` (resolved already): then ZooError."""
    if not path.resolve().is_relative_to(root):
        raise ZooError(f"{path} leads out of {root}: it is a link. Copy the file itself into the folder.")
    return path


def natural_key(path: Path) -> tuple[tuple[int, str], ...]:
    """Sorts by the numbers in names, then by the text between them."""
    parts = re.split(r"(\d+)", str(path))
    return tuple(
        (int(part[:18]), part) if part.isdecimal() and part.isascii() else (-1, part) for part in parts
    )


def read_bytes(path: Path, limit: int = LARGEST_TEXT) -> bytes:
    """A whole file of at most ``limit`` bytes; raises ZooError for a larger, missing or special one."""
    try:
        if not path.is_file():
            raise ZooError(f"{path} is {'no regular file' if path.exists() else 'not there'}.")
        if path.stat().st_size > limit:
            raise ZooError(f"{path} has {path.stat().st_size} bytes, expected at most {limit}.")
        return path.read_bytes()
    except OSError as err:
        raise ZooError(f"{path} cannot be read: {err.strerror or err}.") from err


def read_json(path: Path, kind: type, limit: int = LARGEST_TEXT) -> Any:
    """The JSON value in a file; raises ZooError unless it is a ``kind``."""
    return parse_json(read_bytes(path, limit), str(path), kind)


def parse_json(text: bytes, what: str, kind: type) -> Any:
    """A JSON value (NaN and infinities allowed); raises ZooError unless it is a ``kind``."""
    try:
        value = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as err:
        raise ZooError(f"{what} is not valid JSON: {err}. It is damaged, or no file of this format.") from err
    if not isinstance(value, kind):
        raise ZooError(f"{what} holds a JSON {type(value).__name__}, expected a {kind.__name__}.")
    return value


def as_int(value: Any, what: str) -> int:
    """``value`` as an integer of 64 bits; raises ZooError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ZooError(f"{what} is {shown(value)}, expected an integer.")
    return value


def as_float(value: Any, what: str) -> float:
    """``value`` as a float; raises ZooError for anything that is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ZooError(f"{what} is {shown(value)}, expected a number.")
    try:
        return float(value)
    except OverflowError as err:
        raise ZooError(f"{what} is {shown(value)}, which no float holds.") from err


def shown(value: Any) -> str:
    """A value from a file, short enough for a message."""
    if not isinstance(value, str | int | float | bool | None):
        return f"a {type(value).__name__}"
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**20 else "a huge number"
    return text if len(text) <= 60 else f"{text[:57]}…"
