"""The zoo: a population of trained networks in one file."""

import os
from collections import ChainMap
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wsl.spec import WeightSpec
from wsl.zoo._architecture import Located, ZooArchitecture, locate
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._layout import Parameter, Tables, fingerprint
from wsl.zoo._map import RowFile, Rows, select
from wsl.zoo._metadata import Metadata
from wsl.zoo._reader import Content, Stored, read_content
from wsl.zoo._splits import Split
from wsl.zoo._where import compute, where


class Zoo:
    """A zoo file, opened for reading. A row is one checkpoint.

    Holds no file handle: the tables are in memory, the weights in the file. Pickles as its path and
    reopens where it is used first, so it works in forked and spawned loader workers. Never changes its file.

    :attr:`spec`, :attr:`forward`, :attr:`parameters`, :meth:`weights` and :meth:`matrix` are those of the one
    architecture that all rows share; a zoo of several raises ZooError and has them in :attr:`architectures`.

    Raises:
        ZooError: on opening, see :func:`Zoo.open`; on use after unpickling, when the file has changed since.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()
        self._content: Content | None = read_content(self._path)
        self._digest = self._content.digest
        self._file: RowFile | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Zoo":
        """Open a zoo, checking all of it but the weights (for those: :func:`wsl.zoo.verify_zoo`).

        Raises:
            ZooError: the file is missing, not a zoo, of another format, truncated, damaged, or inconsistent.
        """
        return cls(path)

    def __len__(self) -> int:
        return self.tables.rows

    def __repr__(self) -> str:
        return f"Zoo({str(self._path)!r}, rows={len(self)}, fingerprint={self.fingerprint!r})"

    @property
    def path(self) -> Path:
        return self._path

    @property
    def architectures(self) -> Mapping[str, ZooArchitecture]:
        """The architectures by name, in their order; each counts its rows from 0."""
        return self._architectures

    @property
    def spec(self) -> WeightSpec:
        """The specification that all rows share."""
        return self._only("spec").spec

    @property
    def forward(self) -> ForwardDefinition:
        """How to rebuild and run the networks."""
        return self._only("forward").forward

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Name, shape and place of each tensor in a row of :meth:`matrix`."""
        return self._only("parameters").parameters

    @property
    def dtype(self) -> str:
        """How the weights are stored: ``float32`` or ``float16``."""
        return self.tables.dtype

    @property
    def metadata(self) -> Metadata:
        """Column name -> ``(rows,)`` int64, float64 or text."""
        return Metadata(self.tables.columns, owner=str(self._path))

    @property
    def splits(self) -> Mapping[str, Split]:
        """Split name -> row numbers with their recipe and seed."""
        return MappingProxyType(dict(self.tables.splits))

    @property
    def provenance(self) -> dict[str, Any]:
        """Identity of the source data, recipe, package version, seed."""
        return dict(self.tables.provenance)

    @property
    def hashes(self) -> np.ndarray:
        """``(rows, 16)`` uint8, blake2b of each row as it was written."""
        return self.tables.hashes

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the content (not of the file or its provenance), 32 hex digits."""
        return fingerprint(self.tables)

    def split(self, name: str) -> np.ndarray:
        """``(n,)`` sorted int64 row numbers of one split; raises ZooError for an unknown name."""
        splits = self.tables.splits
        if name not in splits:
            raise ZooError(f"{self._path} has no split {name!r}; it has {', '.join(splits) or 'none'}.")
        return splits[name].indices

    def matrix(self, rows: Rows = None, dtype: Any = np.float32) -> np.ndarray:
        """``(B, P)``, a copy of some rows as they lie in the file; see :meth:`ZooArchitecture.matrix`."""
        return self._only("matrix").matrix(rows, dtype)

    def weights(self, rows: Rows = None, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        """Tensor name -> ``(B, *shape)``, the weights of some rows.

        Args:
            rows: row numbers in any order (negative ones count from the end), a boolean mask, a slice, or
                None for all.
            dtype: of the tensors; a float16 zoo is widened to it.

        Raises:
            ZooError: a row that does not exist, something that is not a row number, or several architectures.
        """
        return self._only("weights").weights(rows, dtype)

    def network(self, row: int) -> nn.Module:
        """One network as the module that it was trained in, with its weights, in evaluation mode.

        Raises:
            ZooError: a row that does not exist, or a zoo that does not say how its networks run.
        """
        (place,) = self.locate([row])
        module = place.architecture.forward.build()
        state = {name: tensor[0] for name, tensor in place.weights().items()}
        module.load_state_dict(module.state_dict() | state)  # constants are not in the zoo
        return module

    def architecture_of(self, rows: Rows = None) -> np.ndarray:
        """``(B,)`` text, the name of each row's architecture; ``rows`` as in :meth:`weights`."""
        names = np.array([architecture.name for architecture in self.tables.architectures])
        return names[self.tables.numbers[select(rows, len(self))]]

    def locate(self, rows: Rows = None) -> list[Located]:
        """Where some rows are: for each architecture among them, in order of the zoo, a :class:`Located`."""
        selection = select(rows, len(self))
        numbers, places = self.tables.numbers[selection], self.tables.places[selection]
        return locate(self._architectures, numbers, places)

    def where(self, expression: str) -> np.ndarray:
        """``(n,)`` int64, ascending: the rows whose metadata meet a condition.

        Args:
            expression: such as ``"step == 86 and activation in ['relu', 'tanh']"``. Columns, numbers,
                strings, comparisons, ``and``, ``or``, ``not``, ``in [..]``, ``+ - * /`` and parentheses; a
                column whose name is no identifier in backticks. Besides the columns, ``row`` is a row's
                number and ``architecture`` its architecture's name (unless a column has that name).

        Raises:
            ZooError: no such column, or something that is not of the language. Nothing is run as code.
        """
        return where(expression, self._all_columns, len(self), str(self._path))

    def column(self, expression: str) -> np.ndarray:
        """``(len(self),)``: a metadata column, or what an expression of columns gives for each row.

        Args:
            expression: a column's name, or such as ``"train_accuracy - test_accuracy"``, in the language of
                :meth:`where`.

        Raises:
            ZooError: as of :meth:`where`.
        """
        if expression in self.metadata:
            return self.metadata[expression]
        return compute(expression, self._all_columns, len(self), str(self._path))

    @property
    def _all_columns(self) -> ChainMap[str, np.ndarray]:
        return ChainMap(dict(self.tables.columns), _Virtual(self))  # type: ignore[arg-type]

    def trajectory(self, model: Any) -> np.ndarray:
        """``(n,)`` int64: the rows of one model in the order of their steps.

        Args:
            model: its value in the column ``model``. ``(model, step)`` identify a checkpoint.

        Raises:
            ZooError: the zoo has no columns ``model`` and ``step``, or no such model.
        """
        models, steps = self.metadata["model"], self.metadata["step"]
        rows = np.flatnonzero(models == model)
        if not len(rows):
            raise ZooError(
                f"{self._path} has no model {model!r}; it has {len(np.unique(models))} models, such as "
                f"{models[0].item()!r}."
            )
        return rows[np.argsort(steps[rows], kind="stable")]

    @property
    def tables(self) -> Tables:
        """Everything but the weights, for the parts of this package."""
        return self._read().tables

    @property
    def stored(self) -> tuple[Stored, ...]:
        """Where the weights of each architecture lie in the file, for the parts of this package."""
        return self._read().stored

    def opened(self) -> tuple[Content, RowFile]:
        """What was read of the file, and what reads its rows, for the parts of this package."""
        content = self._read()
        if self._file is None:
            self._file = RowFile(self._path, content.stamp)
        return content, self._file

    def __getstate__(self) -> dict[str, Any]:
        return {"_path": self._path, "_digest": self._digest, "_content": None, "_file": None}

    @cached_property
    def _architectures(self) -> Mapping[str, ZooArchitecture]:
        names = [architecture.name for architecture in self.tables.architectures]
        return MappingProxyType({name: ZooArchitecture(self, i) for i, name in enumerate(names)})

    def _only(self, wanted: str) -> ZooArchitecture:
        views = self._architectures
        if len(views) > 1:
            call = f"{wanted}(rows)" if wanted in ("weights", "matrix") else wanted
            shown = ", ".join(list(views)[:6]) + (", …" if len(views) > 6 else "")
            raise ZooError(
                f"{self._path} holds {len(views)} architectures ({shown}), so zoo.{call} has no one meaning. "
                f"Use zoo.architectures[name].{call}, whose rows count within the architecture; "
                "zoo.locate(rows) finds rows of the whole zoo."
            )
        return next(iter(views.values()))

    def _read(self) -> Content:
        if self._content is None:
            content = read_content(self._path)
            if content.digest != self._digest:
                raise ZooError(
                    f"{self._path} was replaced by another zoo while in use "
                    f"(digest {content.digest}, was {self._digest}). Open it anew."
                )
            self._content = content
        return self._content


class _Virtual(Mapping[str, np.ndarray]):
    """What :meth:`Zoo.where` knows of a row besides its metadata."""

    def __init__(self, zoo: Zoo) -> None:
        self._zoo = zoo

    def __getitem__(self, name: str) -> np.ndarray:
        if name == "row":
            return np.arange(len(self._zoo))
        if name == "architecture":
            return self._zoo.architecture_of()
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(("architecture", "row"))

    def __len__(self) -> int:
        return 2
