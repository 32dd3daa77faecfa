"""From checkpoints of :class:`LearnedOptimization` to files that :func:`wsl.learnopt.load` reads."""

import json
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch

from wsl.learnopt import Card, Optimizer, save
from wsl.tasks.factories import Recipe, TaskError
from wsl.tasks.learned_optimization import LearnedOptimization

_SETTINGS = ("estimator", "optimizer", "schedule")


def learned_optimizer(path: Path) -> Optimizer:
    """The optimizer that a checkpoint holds, on the architecture that it was trained on.

    Raises:
        TaskError: the file is no checkpoint of :class:`LearnedOptimization`.
    """
    return _load(path)[0]


def export_optimizer(
    path: Path, out: Path, about: str, fails: str, code: str, tasks: str | None = None
) -> Card:
    """Write the optimizer of a checkpoint to a file, with a card.

    Args:
        out: the file, ``.safetensors``.
        about: what it is, in a line.
        fails: where it does worse than tuned optimizers, or diverges.
        code: the version of the code, for runs that do not say by which they were made.
        tasks: what it was trained on; by default the ``data`` of the run's ``config.yaml``.

    Raises:
        TaskError: the file is no such checkpoint, or what it was trained on is not known.
        OptimizerFileError: a class that files do not hold, or an entry of the card that says nothing.
    """
    optimizer, stored = _load(path)
    settings = {name: stored["hyper_parameters"][name] for name in _SETTINGS}
    trained = [
        f"{stored['global_step']} meta-steps",
        *(f"{name} {_call(how)}" for name, how in settings.items()),
    ]
    made_by = _codes(path) or f"exported by {code}, trained by another one or this"
    card = Card(about, "\n".join(trained), tasks or _problems(path), fails, made_by)
    save(optimizer, out, card)
    return card


def _load(path: Path) -> tuple[Optimizer, dict[str, Any]]:
    stored = _read(path)
    kind = Recipe(stored["hyper_parameters"]["class_path"], {}).load(object)
    if not issubclass(kind, LearnedOptimization):
        raise TaskError(
            f"{path} is a {kind.__name__}, which holds no optimizer.\n"
            "  Give a checkpoint of LearnedOptimization, see configs/task/learned_optimization.yaml."
        )
    held = {**stored["hyper_parameters"], **stored}
    if lacks := [name for name in ("state_dict", "global_step", *_SETTINGS) if name not in held]:
        raise _no_checkpoint(path, f"it lacks {', '.join(lacks)}")
    try:
        task = kind.load_from_checkpoint(path, map_location="cpu", weights_only=True)
    except TaskError:
        raise
    except Exception as err:  # whatever constructors raise on the contents of a damaged file
        words = " ".join(str(err).split())[:300]
        raise TaskError(
            f"{path} does not make an optimizer ({type(err).__name__}: {words}).\n"
            "  It is damaged, or of another version of wsl: make it anew."
        ) from err
    assert task.learned is not None
    return task.learned, stored


def _read(path: Path) -> dict[str, Any]:
    """The contents of a checkpoint, with a dictionary ``hyper_parameters`` that has a ``class_path``."""
    try:
        stored = torch.load(path, weights_only=True, map_location="cpu")
    except FileNotFoundError as err:
        raise TaskError(f"there is no checkpoint {path}.\n  Give runs/NAME/checkpoints/best.ckpt.") from err
    except (IsADirectoryError, PermissionError) as err:
        raise _no_checkpoint(path, f"it cannot be read: {err.strerror}") from err
    except Exception as err:  # whatever reading an arbitrary file raises
        reason = "it holds code, which is not read, or it is damaged"
        if not is_zipfile(path):
            reason = "torch.save did not make it, or it is cut off"
        raise _no_checkpoint(path, reason) from err
    if not isinstance(stored, dict):
        raise _no_checkpoint(path, f"it holds a {type(stored).__name__}")
    given = stored.get("hyper_parameters")
    if not isinstance(given, dict) or not isinstance(given.get("class_path"), str):
        names = ", ".join(map(repr, list(stored)[:5]))[:200] or "nothing"
        raise _no_checkpoint(path, f"its hyper_parameters name no class_path of a task; it holds {names}")
    return stored


def _no_checkpoint(path: Path, reason: str) -> TaskError:
    return TaskError(
        f"{path} is no checkpoint of `python -m wsl fit`: {reason}.\n  Give runs/NAME/checkpoints/best.ckpt."
    )


def _problems(path: Path) -> str:
    """What the run's ``config.yaml``, beside the folder of the checkpoint, says of its data."""
    config = path.parent.parent / "config.yaml"
    try:
        lines = config.read_text("utf-8").splitlines()
        start = lines.index("data:")
    except (OSError, ValueError) as err:
        raise TaskError(
            f"{config} does not say what the optimizer was trained on.\n  Say so with --tasks."
        ) from err
    end = next((at for at in range(start + 1, len(lines)) if lines[at][:1].strip()), len(lines))
    return "\n".join(lines[start + 1 : end])


def _codes(path: Path) -> str:
    """The versions of the code that began or resumed the run, as its logs in the run's folder say."""
    found = []
    logs = path.parent.parent.glob("metrics/*/hparams.yaml")
    for log in sorted(logs, key=lambda log: (len(log.parent.name), log.parent.name)):  # version_2, version_10
        lines = log.read_text("utf-8", "replace").splitlines()
        found += [line.removeprefix("code: ") for line in lines if line.startswith("code: ")]
    return ", ".join(dict.fromkeys(found))


def _call(recipe: dict[str, Any]) -> str:
    """A class and its arguments, as in ``PES(pairs=32, …)``."""
    given = ", ".join(
        f"{name}={_call(value) if _is_recipe(value) else json.dumps(value)}"
        for name, value in (recipe.get("init_args") or {}).items()
    )
    return f"{recipe['class_path'].rpartition('.')[2]}({given})"


def _is_recipe(value: Any) -> bool:
    return isinstance(value, dict) and "class_path" in value
