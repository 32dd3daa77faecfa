"""Tasks by name: what ``configs/problems`` holds."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from wsl.bench._config import digest, read_config
from wsl.bench._errors import BenchError
from wsl.learnopt.tasks import Task

_SUFFIXES = (".yaml", ".yml")
# what a class says of its arguments, within jsonargparse's report of all types that a task may have
_UNION = re.compile(r"Errors:\s+- (.*?)\s*- Expected a <class 'NoneType'>", re.DOTALL)


@dataclass(frozen=True)
class Problem:
    """A task and how long optimizers train on it.

    Args:
        name: that of its file.
        task: ``class_path`` and ``init_args``.
        horizon: steps.
    """

    name: str
    task: dict[str, Any]
    horizon: int

    @property
    def digest(self) -> str:
        """Of the task alone."""
        return digest(self.task)

    def build(self) -> Task:
        """The task.

        Raises:
            BenchError: it cannot be built.
        """
        parser = ArgumentParser(exit_on_error=False)
        parser.add_subclass_arguments(Task, "task")
        try:
            made: Task = parser.instantiate(parser.parse_object({"task": self.task})).task
        except Exception as err:  # whatever jsonargparse and constructors raise on faulty arguments
            said = _UNION.search(str(err))
            words = " ".join((said[1] if said else str(err)).split())
            raise BenchError(f"the task of {self.name} cannot be built: {words}") from err
        return made


def read_problems(folder: Path, names: Sequence[str] = ()) -> list[Problem]:
    """The problems of these names in a folder, or of YAML files; all of the folder by default.

    Raises:
        BenchError: there is none of a name, two have the same, or a file holds something else.
    """
    known = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    found: dict[str, Path] = {}
    for name in names or known:
        path = Path(name) if name.endswith(_SUFFIXES) else known.get(name)
        if path is None or not path.is_file():
            shown = ", ".join(known) or "none"
            raise BenchError(f"there is no task {name!r} in {folder}; choose of {shown}, or give a file.")
        if found.setdefault(path.stem, path) != path:
            raise BenchError(f"{found[path.stem]} and {path} have the same name. Rename one of them.")
    if not found:
        raise BenchError(f"{folder} holds no tasks (*.yaml). Name the folder above with --configs.")
    return [_problem(name, path) for name, path in found.items()]


def _problem(name: str, path: Path) -> Problem:
    data = read_config(path).get("data")
    given = data.get("init_args") if isinstance(data, dict) else None
    task, horizon = (given.get(key) if isinstance(given, dict) else None for key in ("task", "horizon"))
    if not isinstance(task, dict) or "class_path" not in task or type(horizon) is not int or horizon < 1:
        raise BenchError(
            f"{path} names no task; expected data: with init_args:, in it task: with one class_path and "
            "horizon: of at least 1 step."
        )
    return Problem(name, task, horizon)
