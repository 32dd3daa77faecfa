"""All that a run's folder tells of it, to compare it with other runs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jsonargparse import get_loader

from wsl.report.curves import Curve, learning_curves
from wsl.report.errors import ReportError
from wsl.report.numbers import NumberPredictions, read_number_predictions
from wsl.report.predictions import Predictions, read_predictions

_FALLING = ("loss", "mae")  # how names of metrics end that are better when lower
_OWN = ("name", "runs", "ckpt_path")  # settings that say where a run is, not what


class Best(NamedTuple):
    """The best value of a metric over all validations, the epoch of it, and the last value."""

    best: float
    epoch: int
    last: float


@dataclass(frozen=True, eq=False)
class RunRecord:
    """What a run wrote; parts that it has not written are empty or ``None``.

    Attributes:
        name: tells it from the other runs.
        facts: ``task``, ``encoder``, ``parameters``, ``seed``, ``zoo`` (its fingerprint) and ``code``.
        settings: the configuration, flat: ``model.encoder.channels`` -> its value as text.
        curves: metric -> ``(epochs, values)``, finite values only.
        tested: metric -> value on the test split.
        classes, numbers: predictions.
        pictures: the grid of pictures, a file.
    """

    name: str
    facts: dict[str, str]
    settings: dict[str, str]
    curves: dict[str, Curve]
    tested: dict[str, float]
    classes: Predictions | None
    numbers: NumberPredictions | None
    pictures: Path | None

    def validated(self) -> dict[str, Best]:
        """Metric without its stage -> best and last, of every validation metric."""
        found = {}
        for name, (epochs, values) in self.curves.items():
            if name.startswith("val/") and len(values):
                place = int(values.argmin() if falls(name) else values.argmax())
                found[name[4:]] = Best(float(values[place]), int(epochs[place]), float(values[-1]))
        return found


def falls(metric: str) -> bool:
    """Whether lower values of a metric are better."""
    return metric.endswith(_FALLING)


def read_run(folder: Path, name: str | None = None) -> RunRecord:
    """Read a run's folder.

    Raises:
        ReportError: it is no folder of a run, or a file in it does not read as what it should be.
    """
    if not folder.is_dir():
        raise ReportError(
            f"there is no folder {folder}. Give a run's folder, e.g. runs/NAME of `fit --name NAME`."
        )
    numbers = read_number_predictions(folder)
    tells_classes = numbers is None and (folder / "predictions.csv").is_file()
    settings = read_settings(folder)
    pictures = folder / "pictures.png"
    return RunRecord(
        name=name or folder.resolve().name,
        facts=_facts(folder, settings),
        settings={key: value for key, value in settings.items() if key not in _OWN},
        curves={key: _finite(curve) for key, curve in learning_curves(folder).items()},
        tested=read_metrics(folder / "test.json") if (folder / "test.json").is_file() else {},
        classes=read_predictions(folder) if tells_classes else None,
        numbers=numbers,
        pictures=pictures if pictures.is_file() else None,
    )


def read_runs(folders: list[Path]) -> list[RunRecord]:
    """:func:`read_run` of each; where names are the same, the whole path is the name."""
    names = [folder.resolve().name for folder in folders]
    return [
        read_run(folder, name if names.count(name) == 1 else str(folder))
        for folder, name in zip(folders, names, strict=True)
    ]


def runs_below(folder: Path) -> list[Path]:
    """The folder itself, or the runs in folders below it where it is none and there are some."""
    if (folder / "metrics").is_dir():
        return [folder]
    found = {path.parents[2] for path in folder.rglob("metrics/version_*/metrics.csv")}
    return sorted(found) or [folder]


def read_settings(folder: Path) -> dict[str, str]:
    """The configuration of a run, flat (:func:`flatten`); empty if there is none.

    Raises:
        ReportError: the file does not read as settings.
    """
    return flatten(_mapping(folder / "config.yaml"))


def read_metrics(path: Path) -> dict[str, float]:
    """The metrics of ``fit.json``, ``validate.json`` or ``test.json``.

    Raises:
        ReportError: the file does not read as metrics.
    """
    try:
        return {name: float(value) for name, value in json.loads(path.read_text("utf-8")).items()}
    except (ValueError, TypeError, AttributeError) as err:
        raise ReportError(f"{path} does not read as metrics ({err}). Test the run anew.") from err


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested mappings as ``a.b.c`` -> text; the levels called ``init_args`` are left out of the keys."""
    flat: dict[str, str] = {}
    for key, value in config.items():
        name = prefix if key == "init_args" and prefix else f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, name))
        else:
            flat[name] = json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)
    return flat


def differing(runs: list[RunRecord]) -> dict[str, list[str | None]]:
    """Settings in which the runs differ -> the value of each run, ``None`` where it has no such setting."""
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    values = {key: [run.settings.get(key) for run in runs] for key in keys}
    return {key: row for key, row in values.items() if len(set(row)) > 1}


def _facts(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    logged: dict[str, Any] = {}
    for path in sorted((folder / "metrics").glob("version_*/hparams.yaml")):
        logged.update(_mapping(path))
    given = {
        "task": settings.get("model.class_path", "").rpartition(".")[2],
        "encoder": settings.get("model.encoder.class_path", "").rpartition(".")[2],
        "seed": settings.get("seed_everything", ""),
        **{name: str(logged.get(name, "")) for name in ("parameters", "zoo", "code")},
    }
    return {name: value for name, value in given.items() if value}


def _mapping(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = get_loader("yaml")(path.read_text("utf-8"))
    except Exception as err:  # yaml's own errors share no base with those of decoding
        raise ReportError(f"{path} does not read as YAML ({type(err).__name__}). Was it cut off?") from err
    if not isinstance(found, dict):
        raise ReportError(f"{path} holds no settings but a {type(found).__name__}. Was it cut off?")
    return found


def _finite(curve: Curve) -> Curve:
    kept = np.isfinite(curve[1])
    return curve[0][kept], curve[1][kept]
