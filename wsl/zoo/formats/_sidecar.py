"""What an export of ours says beside its table: architectures, recipes of splits, names of columns."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wsl.spec import SpecError, WeightSpec
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._layout import Architecture
from wsl.zoo._store import Zoo
from wsl.zoo.formats._files import read_json
from wsl.zoo.formats._table import read_table

TABLE, SIDECAR = "labels.csv", "wsl.json"


@dataclass(frozen=True)
class Titles:
    """Titles of the columns of a table that are no metadata; ``architecture`` only in exports of ours."""

    file: str = "file"
    split: str = "split"
    architecture: str | None = None

    @classmethod
    def beside(cls, metadata: Collection[str]) -> "Titles":
        """Titles that no metadata column has."""
        return cls(*(_free(title, metadata) for title in ("file", "split", "architecture")))


def _free(title: str, taken: Collection[str]) -> str:
    while title in taken:
        title += "_"
    return title


@dataclass(frozen=True, eq=False)
class Sidecar:
    """The content of ``wsl.json``: data, which may name classes of :mod:`wsl.models` only.

    Args:
        architectures: by their numbers in the table.
        recipes: split name -> recipe and seed.
        titles: of the table's columns that are no metadata.
        keeps_files: whether the paths of the files are metadata too, as the column ``file``.
    """

    architectures: tuple[Architecture, ...]
    recipes: Mapping[str, tuple[Mapping[str, Any], int]]
    titles: Titles
    keeps_files: bool

    @classmethod
    def of(cls, zoo: Zoo, titles: Titles, keeps_files: bool) -> "Sidecar":
        recipes = {name: (split.recipe, split.seed) for name, split in zoo.splits.items()}
        return cls(zoo.tables.architectures, recipes, titles, keeps_files)

    def write(self, path: Path) -> None:
        """The inverse of :func:`read_sidecar`."""
        content = {
            "architectures": [
                {"name": one.name, "spec": one.spec_text, "forward": one.forward.to_dict()}
                for one in self.architectures
            ],
            "splits": {
                name: {"recipe": recipe, "seed": seed} for name, (recipe, seed) in self.recipes.items()
            },
            "titles": vars(self.titles),
            "keeps_files": self.keeps_files,
        }
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def read_sidecar(path: Path) -> Sidecar | None:
    """What lies beside a table, if anything; raises ZooError if it is damaged."""
    if not path.is_file():
        return None
    content = read_json(path, dict)
    try:
        architectures = [
            Architecture(
                str(one["name"]), WeightSpec.parse(one["spec"]), ForwardDefinition.from_dict(one["forward"])
            )
            for one in content["architectures"]
        ]
        recipes = {name: (dict(one["recipe"]), int(one["seed"])) for name, one in content["splits"].items()}
        titles = Titles(**{key: str(value) for key, value in content["titles"].items()})
        return Sidecar(tuple(architectures), recipes, titles, content["keeps_files"] is True)
    except ZooError as err:
        raise ZooError(f"{path}: {err}") from err
    except (SpecError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as err:
        raise ZooError(f"{path} is damaged ({type(err).__name__}: {err}). Copy it again.") from err


def read_records(
    path: Path, files: Collection[str], titles: Titles
) -> tuple[dict[str, type], list[dict[str, Any]]]:
    """The table of some networks: kinds of its columns, and a record for each network.

    Raises:
        ZooError: a network without a row or with two, a row without a network, or titles of another kind.
    """
    kinds, records = read_table(path)
    if kinds.get(titles.file) is not str:
        raise ZooError(f"{path} has no column {titles.file} with the paths of the networks.")
    if kinds.get(titles.split, str) is not str:
        raise ZooError(f"{path}: the column {titles.split} holds numbers, expected names of splits.")
    if titles.architecture is not None and kinds.get(titles.architecture) is not int:
        raise ZooError(f"{path} has no column {titles.architecture} of numbers, which {SIDECAR} describes.")
    known, seen = set(files), set()
    for number, record in enumerate(records, 1):
        file = record[titles.file]
        if file not in known:
            raise ZooError(f"{path}: row {number} names {file[:200]!r}, and there is no such network.")
        if file in seen:
            raise ZooError(f"{path}: row {number} names {file[:200]!r} a second time.")
        seen.add(file)
    if missing := sorted(known - seen):
        raise ZooError(f"{path} has no row for {len(missing)} networks, such as {missing[0]}.")
    return kinds, records
