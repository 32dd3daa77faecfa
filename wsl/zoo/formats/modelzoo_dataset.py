"""ModelZoos and phase-transition zoos: folders of Ray Tune."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wsl.zoo._errors import ZooError
from wsl.zoo._store import Zoo
from wsl.zoo.formats._export import Columns, check_forward, stored_networks, write_torch_file
from wsl.zoo.formats._files import entries, find_folder, parse_json, read_json
from wsl.zoo.formats._modelzoo_networks import Recipe, check_config
from wsl.zoo.formats._networks import Network, batched
from wsl.zoo.formats._protocol import ImportOptions, Source, ZooFormat
from wsl.zoo.formats._table import JsonColumns, column_name

_CHECKPOINT = re.compile(r"checkpoint_(?P<step>\d{1,9})")
_FILE, _RESULTS, _PARAMETERS = "checkpoints", "result.json", "params.json"
_STEP = "training_iteration"
_RECORDS = re.compile(
    r"config|date|done|episodes_total|experiment_id|experiment_tag|hostname|iterations_since_restore|node_ip|pid|"
    r"should_checkpoint|time_since_restore|time_this_iter_s|time_total_s|timers|timestamp|timesteps_since_restore|"
    r"timesteps_total|trial_id|trial_name|warmup_time|training_iteration"
)
_MOST_RESULT_BYTES = 1 << 20


class ModelZooFormat(ZooFormat):
    """``<trial>/{params.json, result.json, checkpoint_<step>/checkpoints}``.

    Columns are ``model`` (the trial), ``step``, every parameter, and every result but Ray's own records. A
    checkpoint's results are those of its ``training_iteration``; results that it lacks are NaN, as phase
    transition zoos measure the loss landscape at some epochs only. Names of tensors follow from the
    parameters (:class:`wsl.models.ModelZooCNN`, :class:`wsl.models.ResNet18`); other networks need a module.

    Source: Schuerholt et al. 2022 (arXiv:2209.14764); Schuerholt et al. 2025 (arXiv:2504.18072).
    """

    name = "modelzoo_dataset"
    summary = "ModelZoos and phase-transition zoos (Ray folders with params.json and result.json)"
    options = frozenset({"module"})

    def read(self, source: Path, options: ImportOptions) -> Source:
        folder = find_folder(source, "a folder of trials with params.json", _has_trials)
        trials = [trial for trial in entries(folder) if (trial / _PARAMETERS).is_file()]
        columns, metrics = JsonColumns(), JsonColumns()
        counts: dict[str, int] = {}
        for trial in trials:
            _see(trial, columns, metrics, counts)
        columns.complete(name for name in columns.kinds if counts[name] < len(trials))
        metrics.complete(metrics.kinds)  # a result may be missing at some step
        if (
            both := {"model", "step", *columns.kinds} & metrics.kinds.keys()
            or {"model", "step"} & columns.kinds.keys()
        ):
            raise ZooError(f"{folder}: {', '.join(sorted(both))} name a parameter and a result or column.")
        notes = ["optimizers and Ray's records (times, hosts, identifiers) are not kept."]

        def networks() -> Iterator[Network]:
            for trial in trials:
                where = str(trial / _PARAMETERS)
                config = read_json(trial / _PARAMETERS, dict)
                values = {name: columns.value(_renamed(config), name, where) for name in columns.kinds}
                recipe = Recipe.of(config, options)
                results = dict(_results(trial))
                for step, path in _checkpoints(trial):
                    result = _renamed(results.get(step, {}))
                    found = {name: metrics.value(result, name, str(path)) for name in metrics.kinds}
                    architecture, weights = recipe.network(path, notes)
                    yield Network(
                        architecture, weights, {"model": trial.name, "step": step, **values, **found}
                    )

        kinds: dict[str, type] = {"model": str, "step": int, **columns.kinds, **metrics.kinds}
        provenance = {"format": self.name, "models": len(trials), "parameters": sorted(columns.kinds)}
        return Source(batched(networks(), kinds), provenance, notes=notes)

    def write(self, zoo: Zoo, destination: Path) -> list[str]:
        parameters = set(zoo.provenance.get("parameters", ()))
        kinds = {
            name: {"i": "int", "f": "float", "U": "text"}[v.dtype.kind] for name, v in zoo.metadata.items()
        }
        columns = Columns(zoo, {"model": "text", "step": "int"} | kinds)
        notes = ["splits: this format has none."] if zoo.splits else []
        written: dict[str, dict[str, Any]] = {}
        for network in stored_networks(zoo):
            row = columns.row(network.row)
            check_forward(network.architecture, network.architecture.forward.factory.rpartition(":")[2])
            model, step = row.pop("model"), row.pop("step")
            config = {name: _as_json(row[name]) for name in row if name in parameters}
            result = {name: row[name] for name in row if name not in parameters and not _is_nan(row[name])}
            trial = destination / _folder_name(model, network.row)
            check_config(config, network.architecture, network.row)
            if written.setdefault(model, config) != config:
                raise ZooError(
                    f"row {network.row}: model {model} has other parameters than in an earlier row."
                )
            write_torch_file(trial / f"checkpoint_{step:06d}" / _FILE, network.weights)
            (trial / _PARAMETERS).write_text(json.dumps(config), encoding="utf-8")
            with open(trial / _RESULTS, "a", encoding="utf-8") as file:
                file.write(json.dumps(result | {_STEP: step}) + "\n")
        return notes


def _has_trials(folder: Path) -> bool:
    return any((trial / _PARAMETERS).is_file() for trial in entries(folder) if trial.is_dir())


def _see(trial: Path, columns: JsonColumns, metrics: JsonColumns, counts: dict[str, int]) -> None:
    config = read_json(trial / _PARAMETERS, dict)
    columns.see(config, str(trial / _PARAMETERS))
    for key in config:
        counts[column_name(key)] = counts.get(column_name(key), 0) + 1
    for _, result in _results(trial):
        metrics.see(result, str(trial / _RESULTS))


def _results(trial: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Step and results of each line, Ray's records left out; lines of one step must agree."""
    path = trial / _RESULTS
    if not path.is_file():
        return
    seen: dict[int, dict[str, Any]] = {}
    with open(path, "rb") as file:
        number = 0
        while line := file.readline(_MOST_RESULT_BYTES):
            number += 1
            if not line.strip():
                continue
            where = f"{path}: line {number}"
            content = parse_json(line, where, dict)
            step = content.get(_STEP)
            if type(step) is not int:
                raise ZooError(f"{where} has no {_STEP}, which says the checkpoint that it belongs to.")
            result = {key: value for key, value in content.items() if not _RECORDS.fullmatch(key)}
            if json.dumps(seen.setdefault(step, result), sort_keys=True) != json.dumps(
                result, sort_keys=True
            ):
                raise ZooError(f"{where} has other results for {_STEP} {step} than an earlier line.")
            yield step, result


def _checkpoints(trial: Path) -> list[tuple[int, Path]]:
    found: dict[int, Path] = {}
    for item in entries(trial):
        if (name := _CHECKPOINT.fullmatch(item.name)) and (item / _FILE).exists():
            step = int(name["step"])
            if step in found:
                raise ZooError(f"{trial} has two checkpoints of step {step}.")
            found[step] = item / _FILE
    return sorted(found.items())


def _renamed(record: Mapping[str, Any]) -> dict[str, Any]:
    return {column_name(key): value for key, value in record.items()}


def _folder_name(model: str, row: int) -> str:
    if not re.fullmatch(r"[^/\0]{1,200}", model) or model in (".", ".."):
        raise ZooError(f"row {row} has the model {model[:60]!r}, which names no folder.")
    return model


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _as_json(value: Any) -> Any:
    return None if _is_nan(value) else value
