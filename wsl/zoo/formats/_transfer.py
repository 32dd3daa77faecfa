"""Importing a foreign zoo into a zoo file, and exporting a zoo file into a foreign format."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np

import wsl
from wsl.zoo._errors import ZooError
from wsl.zoo._files import check_free
from wsl.zoo._layout import Architecture
from wsl.zoo._splits import Split
from wsl.zoo._store import Zoo
from wsl.zoo._streaming import ZooWriter
from wsl.zoo.formats._protocol import ImportOptions, Rows, Source, ZooFormat

FLAG = "diverged"


class Imported(NamedTuple):
    """A zoo that was imported, and what could not be kept exactly: one sentence each."""

    zoo: Zoo
    notes: list[str]


def import_zoo(
    form: ZooFormat,
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    options: ImportOptions | None = None,
) -> Imported:
    """Read a zoo of a foreign format into a new zoo file. Memory does not grow with the number of networks.

    Networks with values that are not finite are kept; a column ``diverged`` then says 1 for them and 0 for
    the others, unless the source has such a column itself.

    Args:
        form: one of :data:`FORMATS`.
        source: its folder.
        out: the zoo file to make.

    Raises:
        ZooError: the source is damaged or of another format, an option has no meaning for it, or ``out``
            exists. There is no file ``out`` then, unless there was one before.
    """
    options = options or ImportOptions()
    if unknown := [name for name in options.given() if name not in form.options]:
        takes = f"takes {', '.join(sorted(form.options))}" if form.options else "takes no options"
        raise ZooError(f"{form.name} has no use for {', '.join(unknown)}: it {takes}.")
    check_free(Path(out))
    try:
        return _import(form, Path(source), Path(out), options, flagged=False)
    except _DivergedError:
        return _import(form, Path(source), Path(out), options, flagged=True)


class _DivergedError(Exception):
    """Networks that are not finite came up, and the rows before them have no column that says so."""


def _import(form: ZooFormat, folder: Path, out: Path, options: ImportOptions, *, flagged: bool) -> Imported:
    source = form.read(folder, options)
    provenance = {**source.provenance, "source": folder.resolve().name, "version": wsl.__version__}
    out.parent.mkdir(parents=True, exist_ok=True)
    splits: dict[str, list[np.ndarray]] = {}
    with ZooWriter(out, provenance=provenance) as writer:
        names = _Names(writer)
        for chunk in source.chunks:
            for name in np.unique(chunk.splits).tolist():
                if name:
                    splits.setdefault(name, []).append(len(writer) + np.flatnonzero(chunk.splits == name))
            writer.append(names.of(chunk.architecture), chunk.weights, _columns(chunk, flagged))
        if not len(writer):
            raise ZooError(f"{folder} holds no networks.")
        return Imported(writer.finish(_with_recipes(splits, source, form)), source.notes)


def _columns(chunk: Rows, flagged: bool) -> dict[str, np.ndarray]:
    columns = dict(chunk.columns)
    if FLAG in columns:
        return columns
    wrong = np.zeros(len(chunk), dtype=bool)
    for array in chunk.weights.values():
        wrong |= ~np.isfinite(array.reshape(len(chunk), -1)).all(axis=1)
    if wrong.any() and not flagged:
        raise _DivergedError
    return columns | {FLAG: wrong.astype(np.int64)} if flagged else columns


def _with_recipes(splits: dict[str, list[np.ndarray]], source: Source, form: ZooFormat) -> dict[str, Split]:
    usual = ({"method": "imported", "format": form.name}, 0)
    found = {}
    for name, rows in splits.items():
        recipe, seed = source.recipes.get(name, usual)
        found[name] = Split(np.concatenate(rows), dict(recipe), seed)
    return found


class _Names:
    """Names of architectures in the zoo: as the reader calls them, numbered where two would share one."""

    def __init__(self, writer: ZooWriter) -> None:
        self.writer = writer
        self.known: dict[int, tuple[Architecture, str]] = {}  # kept: ids stay theirs
        self.by_content: dict[str, str] = {}
        self.taken: set[str] = set()

    def of(self, architecture: Architecture) -> str:
        if id(architecture) not in self.known:
            content = f"{architecture.spec_text}\n{architecture.forward.to_dict()}"
            if content not in self.by_content:
                self.by_content[content] = self._add(architecture)
            self.known[id(architecture)] = (architecture, self.by_content[content])
        return self.known[id(architecture)][1]

    def _add(self, architecture: Architecture) -> str:
        name, number = architecture.name, 1
        while name in self.taken:
            number += 1
            name = f"{architecture.name}-{number}"
        self.taken.add(name)
        self.writer.add(Architecture(name, architecture.spec, architecture.forward))
        return name


def export_zoo(zoo: Zoo, form: ZooFormat, destination: str | os.PathLike[str]) -> list[str]:
    """Write a zoo into a new folder of a foreign format.

    Returns:
        What the format cannot hold and was left out: one sentence each.

    Raises:
        ZooError: the format cannot hold these networks, the folder exists, or the disk refuses. There is no
            folder then.
    """
    place = Path(destination).absolute()
    check_free(place)
    partial = place.with_name(f"{place.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        notes = form.write(zoo, partial)
        check_free(place)
        os.replace(partial, place)
    except OSError as err:
        raise ZooError(
            f"{place} could not be written: {err.strerror or err}. Make room or choose another folder."
        ) from err
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return notes
