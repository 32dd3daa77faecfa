"""`Run`: one encoder trained with one seed, in a folder of its own."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wsl._files import write_text
from wsl.bench._budget import Budget
from wsl.bench._errors import BenchError

REQUEST, RESULT, FAILURE, LOG = "run.json", "result.json", "failure.txt", "log.txt"


@dataclass(frozen=True)
class Run:
    """What is to be trained, and what it is keyed by.

    Attributes:
        encoder: its name, that of its configuration file.
        seed: of initial weights, batches and augmentations.
        out: the bench's folder; the run's own is ``out/encoder/seedN``.
        zoo: the file of networks.
        budget: of training.
        config: task, data, encoder and all else, as ``python -m wsl fit`` takes it, and perhaps ``probe``.
        key: hash of the configuration, fingerprint of the zoo, version of the code.
    """

    encoder: str
    seed: int
    out: Path
    zoo: Path
    budget: Budget
    config: Mapping[str, Any]
    key: Mapping[str, str]

    @property
    def name(self) -> str:
        """The run's name in ``out``, as of ``--name``."""
        return f"{self.encoder}/seed{self.seed}"

    @property
    def folder(self) -> Path:
        """Where all of the run lies."""
        return self.out / self.encoder / f"seed{self.seed}"

    @property
    def probe(self) -> Mapping[str, Any] | None:
        """Options of ``python -m wsl probe``, for tasks that are judged by a linear probe of classes."""
        found: Mapping[str, Any] | None = self.config.get("probe")
        return found

    @property
    def metric(self) -> str:
        """What tables show: the metric that selects, or the accuracy of the probe."""
        return "val/probe_accuracy" if self.probe else str(self.config["monitor"])

    @property
    def mode(self) -> str:
        """Which way :attr:`metric` improves, ``max`` or ``min``."""
        return "max" if self.probe else str(self.config["mode"])

    @property
    def done(self) -> bool:
        """Whether there is a result."""
        return (self.folder / RESULT).is_file()

    @property
    def foreign(self) -> bool:
        """Whether the folder is there, but not a bench's."""
        return self.folder.exists() and not (self.folder / REQUEST).is_file()

    def save(self) -> None:
        """Write the request, from which :meth:`load` reads it."""
        values = {**asdict(self), "out": str(self.out), "zoo": str(self.zoo)}
        write_text(self.folder / REQUEST, json.dumps(values, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> "Run":
        """The run that a folder was made for.

        Raises:
            BenchError: there is none.
        """
        try:
            values = json.loads((folder / REQUEST).read_text("utf-8"))
            budget = Budget(**values.pop("budget"))
            return cls(out=Path(values.pop("out")), zoo=Path(values.pop("zoo")), budget=budget, **values)
        except OSError as err:
            raise BenchError(f"{folder} is no run of a bench: it has no {REQUEST}.") from err
        except (ValueError, TypeError, KeyError) as err:
            raise BenchError(f"{folder / REQUEST} does not read as a run. Delete {folder}.") from err

    def result(self) -> dict[str, Any] | None:
        """The finished run's figures; ``None`` before."""
        if not self.done:
            return None
        found: dict[str, Any] = json.loads((self.folder / RESULT).read_text("utf-8"))
        return found

    def failure(self) -> str | None:
        """What stopped the last attempt, if something did and no result came after it."""
        path = self.folder / FAILURE
        return path.read_text("utf-8").strip() if path.is_file() and not self.done else None

    def made_otherwise(self) -> list[str]:
        """How a run that the folder holds already differs from this one; nothing if none does."""
        if not (self.folder / REQUEST).is_file():
            return []
        before = Run.load(self.folder)
        told = {"budget": str(before.budget), **before.key}
        asked = {"budget": str(self.budget), **self.key}
        return [
            f"{name} was {told.get(name)}, is {asked[name]}"
            for name in asked
            if told.get(name) != asked[name]
        ]

    def clear(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder)
