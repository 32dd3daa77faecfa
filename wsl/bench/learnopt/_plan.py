"""`Trial`: one optimizer on one task, in a folder of its own."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wsl._files import write_text
from wsl.bench._config import digest
from wsl.bench._errors import BenchError
from wsl.bench.learnopt._problems import Problem
from wsl.bench.learnopt._rivals import Rival

_REQUEST, _TUNING, _RESULT, _FAILURE = "trial.json", "tuning.json", "result.json", "failure.txt"
_BEGINNING = {f"{_REQUEST}.partial"}
"""What the folder of a trial holds that was killed before it said whose the folder is."""


@dataclass(frozen=True)
class Settings:
    """What all trials have in common.

    Args:
        seeds: problems that results are of.
        tuning_seeds: other problems that rates and schedules are chosen by.
        points: evaluations of each training, besides the first.

    Raises:
        BenchError: a number below 1.
    """

    seeds: int = 5
    tuning_seeds: int = 5
    points: int = 25

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise BenchError(f"{name} is {value}; expected at least 1.")


@dataclass(frozen=True)
class Trial:
    """What is to be trained, and what it is keyed by.

    Args:
        out: the bench's folder; the trial's own is ``out/TASK/OPTIMIZER``.
        code: version of the code.
    """

    problem: Problem
    rival: Rival
    settings: Settings
    out: Path
    code: str

    @property
    def name(self) -> str:
        return f"{self.problem.name}/{self.rival.name}"

    @property
    def folder(self) -> Path:
        return self.out / self.problem.name / self.rival.name

    @property
    def key(self) -> dict[str, str]:
        """What a result depends on."""
        return {
            "task": self.problem.digest,
            "horizon": str(self.problem.horizon),
            "optimizer": digest(self.rival.config),
            "settings": digest(asdict(self.settings)),
            "code": self.code,
        }

    @property
    def tuning(self) -> dict[str, Any] | None:
        """What tuning came to, once it is done."""
        return self._read(_TUNING)

    @property
    def result(self) -> dict[str, Any] | None:
        """The finished trial's figures."""
        return self._read(_RESULT)

    @property
    def failure(self) -> str | None:
        """Why the last attempt has no result."""
        path = self.folder / _FAILURE
        return path.read_text("utf-8").strip() if path.is_file() and self.result is None else None

    def begin(self) -> None:
        """Write what is to be done."""
        write_text(self.folder / _REQUEST, json.dumps(self.key, indent=1) + "\n")
        (self.folder / _FAILURE).unlink(missing_ok=True)

    def save_tuning(self, found: dict[str, Any]) -> None:
        write_text(self.folder / _TUNING, json.dumps(found, indent=1) + "\n")

    def save_result(self, found: dict[str, Any]) -> None:
        write_text(self.folder / _RESULT, json.dumps(found, indent=1) + "\n")

    def save_failure(self, message: str) -> None:
        write_text(self.folder / _FAILURE, message + "\n")

    def made_otherwise(self) -> list[str]:
        """How what the folder holds already differs from this trial; nothing if it does not.

        Raises:
            BenchError: the folder is no trial's.
        """
        if not self.folder.exists() or {path.name for path in self.folder.iterdir()} <= _BEGINNING:
            return []
        before = self._read(_REQUEST)
        if before is None:
            raise BenchError(f"{self.folder} was not made by a bench. Choose another folder with --out.")
        return [
            f"{name} was {before.get(name)}, is {value}"
            for name, value in self.key.items()
            if before.get(name) != value
        ]

    def clear(self) -> None:
        """Delete the folder; what says whose it is last."""
        for name in (_RESULT, _TUNING, _FAILURE):
            (self.folder / name).unlink(missing_ok=True)
        shutil.rmtree(self.folder)

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        if not path.is_file():
            return None
        try:
            found: dict[str, Any] = json.loads(path.read_text("utf-8"))
            if not isinstance(found, dict):
                raise ValueError(f"a {type(found).__name__}")
        except ValueError as err:
            raise BenchError(f"{path} does not read as a part of a bench. Delete {self.folder}.") from err
        return found
