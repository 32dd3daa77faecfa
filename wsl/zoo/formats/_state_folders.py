"""Folders of state dicts, one file a network, with a table of metadata: what the generic formats share.

Our own exports hold a file ``wsl.json`` beside the table: architectures and recipes of splits, which no table
holds. With it the zoo comes back exactly.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._layout import Architecture
from wsl.zoo._store import Zoo
from wsl.zoo.formats._architectures import described, fixed, shapes_of, undescribed
from wsl.zoo.formats._export import split_of_rows, stored_networks
from wsl.zoo.formats._files import files_below
from wsl.zoo.formats._networks import Network, as_float32, batched, match
from wsl.zoo.formats._protocol import ImportOptions, Source, ZooFormat
from wsl.zoo.formats._sidecar import SIDECAR, TABLE, Sidecar, Titles, read_records, read_sidecar
from wsl.zoo.formats._table import write_table

_COUNTER = "num_batches_tracked"


class StateFolderFormat(ZooFormat):
    """A folder of files with one network each, and ``labels.csv`` (or another CSV, if told).

    The CSV has a column ``file``, the path in the folder with ``/``, and a line for every file; ``split``, if
    there, is the split of each network (empty: none); other columns are metadata. Networks without a module
    or specification get one that claims no symmetry, an architecture for each set of names and shapes.
    """

    options = frozenset({"module", "spec", "labels"})
    suffixes: ClassVar[tuple[str, ...]]

    @abstractmethod
    def load(self, path: Path) -> dict[str, np.ndarray]:
        """The tensors in a file."""

    @abstractmethod
    def save(self, path: Path, tensors: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> None:
        """The inverse of :meth:`load` and :meth:`beside`; ``record`` has the metadata of the network."""

    def beside(self, path: Path) -> dict[str, Any]:
        """Metadata that lie beside the file of a network."""
        return {}

    def infer(self, path: Path, tensors: Mapping[str, np.ndarray], number: int) -> Architecture:
        """The architecture of a network that nobody described; ``number`` counts them."""
        return fixed(f"network-{number}", {name: array.shape for name, array in tensors.items()})

    def file_name(self, row: int) -> str:
        """Where the network of a row is written if the zoo does not say it."""
        return f"{row:06d}{self.suffixes[0]}"

    def read(self, source: Path, options: ImportOptions) -> Source:
        if not source.is_dir():
            raise ZooError(f"{source} is {'a file' if source.exists() else 'not there'}, expected a folder.")
        files = [path.relative_to(source).as_posix() for path in files_below(source, self.suffixes)]
        if not files:
            raise ZooError(f"{source} holds no files that end in {' or '.join(self.suffixes)}.")
        sidecar = read_sidecar(source / SIDECAR)
        titles = sidecar.titles if sidecar else Titles()
        kinds: dict[str, type] = {titles.file: str}
        records: list[dict[str, Any]] = [{titles.file: file} for file in files]
        if options.labels is not None or (source / TABLE).is_file():
            kinds, records = read_records(options.labels or source / TABLE, files, titles)
        dropped = {titles.split, titles.architecture}
        if sidecar is not None and not sidecar.keeps_files:
            dropped.add(titles.file)
        kept = self._kept(source / files[0], {n: kind for n, kind in kinds.items() if n not in dropped})
        chooser, notes = _Chooser(self, options, sidecar), list[str]()

        def networks() -> Iterator[Network]:
            for record in records:
                path = source / record[titles.file]
                tensors = self.load(path)
                architecture = chooser.choose(path, tensors, record)
                weights = _fitted(tensors, architecture, str(path), notes)
                found = {**record, **self.beside(path)}
                if found.keys() - dropped != kept.keys():
                    raise ZooError(f"{path} has other things beside it than {files[0]}.")
                columns = {name: found[name] for name in kept}
                yield Network(architecture, weights, columns, record.get(titles.split, ""))

        provenance = {"format": self.name, "networks": len(files)}
        return Source(batched(networks(), kept), provenance, sidecar.recipes if sidecar else {}, notes)

    def write(self, zoo: Zoo, destination: Path) -> list[str]:
        keeps_files = "file" in zoo.metadata and _usable(zoo.metadata["file"].tolist(), self.suffixes)
        names = [name for name in zoo.metadata if not (name == "file" and keeps_files)]
        titles = Titles.beside(names)
        lines = self._save_all(zoo, destination, titles, keeps_files)
        first, apart = next(lines)
        types: dict[str, type] = {"i": int, "f": float, "U": str}
        kinds: dict[Any, type] = {titles.file: str, titles.split: str, titles.architecture: int}
        kinds |= {name: types[zoo.metadata[name].dtype.kind] for name in names if name not in apart}
        every = chain([first], (line for line, _ in lines))
        write_table(destination / TABLE, kinds, ([line[name] for name in kinds] for line in every))
        Sidecar.of(zoo, titles, keeps_files).write(destination / SIDECAR)
        return []

    def _save_all(
        self, zoo: Zoo, destination: Path, titles: Titles, keeps_files: bool
    ) -> Iterator[tuple[dict[Any, Any], set[str]]]:
        """Save network after network; gives the line of each in the table, and what now lies beside it."""
        split_of, numbers = split_of_rows(zoo), zoo.tables.numbers
        columns = {name: zoo.metadata[name] for name in zoo.metadata}
        apart: set[str] | None = None
        for network in stored_networks(zoo):
            row = network.row
            record = {name: column[row].item() for name, column in columns.items()}
            path = destination / (record["file"] if keeps_files else self.file_name(row))
            path.parent.mkdir(parents=True, exist_ok=True)
            self.save(path, network.weights, record)
            found = self.beside(path)
            if found.items() - record.items() or (apart is not None and apart != found.keys()):
                raise ZooError(f"row {row} of {zoo.path}: its metadata differ from those read back, {found}.")
            apart = set(found)
            control: dict[Any, Any] = {titles.file: path.relative_to(destination).as_posix()}
            control |= {titles.split: str(split_of[row]), titles.architecture: int(numbers[row])}
            yield record | control, apart

    def _kept(self, first: Path, kinds: Mapping[str, type]) -> dict[str, type]:
        """The columns of the zoo and their types: those of the table, and what lies beside the files."""
        beside = {name: type(value) for name, value in self.beside(first).items()}
        if both := beside.keys() & kinds.keys():
            raise ZooError(
                f"the table has the columns {', '.join(sorted(both))}, and so have the files, as {first}."
            )
        return {**kinds, **beside}


class _Chooser:
    """Finds the architecture of a network: told by the user, by the sidecar, or read off its tensors."""

    def __init__(self, owner: StateFolderFormat, options: ImportOptions, sidecar: Sidecar | None) -> None:
        self.owner, self.sidecar = owner, sidecar
        self.given: Architecture | None = None
        if options.module is not None and options.spec is not None:
            raise ZooError("give a module or a specification, not both: the module is traced.")
        if options.module is not None:
            self.given = described(options.module)
        elif options.spec is not None:
            self.given = undescribed("network", options.spec)
        self.found: dict[Any, Architecture] = {}

    def choose(
        self, path: Path, tensors: Mapping[str, np.ndarray], record: Mapping[str, Any]
    ) -> Architecture:
        if self.given is not None:
            return self.given
        if self.sidecar is not None:
            number = record.get(self.sidecar.titles.architecture or "", -1)
            if not 0 <= number < len(self.sidecar.architectures):
                raise ZooError(f"{path} has no architecture that {SIDECAR} describes.")
            return self.sidecar.architectures[number]
        try:
            found = self.owner.infer(path, tensors, len(self.found))
        except ZooError as err:
            raise ZooError(f"{path}: {err}") from err
        return self.found.setdefault((found.spec, str(found.forward)), found)


def _fitted(
    tensors: Mapping[str, np.ndarray], architecture: Architecture, where: str, notes: list[str]
) -> dict[str, np.ndarray]:
    shapes = shapes_of(architecture)
    extra = [name for name in tensors if name not in shapes and name.rpartition(".")[2] == _COUNTER]
    if extra:
        sentence = f"{_COUNTER}, which has no part in the function, is not kept."
        notes += [sentence] if sentence not in notes else []
    narrow = {n: as_float32(v, f"{where}: {n}", notes) for n, v in tensors.items() if n not in extra}
    return match(narrow, {name: name for name in shapes}, shapes, where)


def _usable(files: list[Any], suffixes: tuple[str, ...]) -> bool:
    """Whether a column of paths can name the files of an export: they stay within it, and differ."""
    return len(set(files)) == len(files) and all(
        isinstance(file, str)
        and re.fullmatch(r"[^\0\\:]{1,200}", file)
        and file.endswith(suffixes)
        and not PurePosixPath(file).is_absolute()
        and PurePosixPath(file).as_posix() == file
        and not set(PurePosixPath(file).parts) & {"..", "."}
        for file in files
    )
