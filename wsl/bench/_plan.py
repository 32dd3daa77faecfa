"""Which runs a bench consists of, and whether its folder can take them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wsl.bench._budget import Budget
from wsl.bench._code import code_version
from wsl.bench._config import digest, overlay, read_config
from wsl.bench._errors import BenchError
from wsl.bench._run import Run
from wsl.zoo import Zoo

SMOKE_BUDGET = Budget(4, "steps")
SMOKE_BATCHES, SMOKE_NETWORKS = 2, 128
_SHOWN = 5


@dataclass(frozen=True)
class Request:
    """What ``python -m wsl bench encoders`` was asked for.

    Attributes:
        zoo: the file of networks.
        out: folder of runs, tables and figure.
        configs: folder with ``bench/TASK.yaml`` and ``encoder/NAME.yaml``.
        budget: of each run.
        task: the configuration that all runs share: a name in ``configs/bench``, or the path of a YAML file
            that ``python -m wsl fit`` takes, such as those of ``configs/experiment``.
        encoders: names of configurations, or paths of YAML files. If empty, all of ``configs/encoder``; for
            the path of a task, the one that it names.
        seeds: number of runs of each encoder.
        smoke: evaluate on few batches.
        redo: delete runs that were made with other settings, instead of refusing.
    """

    zoo: Path
    out: Path
    configs: Path
    budget: Budget
    task: str = "inr_classification"
    encoders: Sequence[str] = ()
    seeds: int = 3
    smoke: bool = False
    redo: bool = False


def plan_runs(request: Request, zoo: Zoo) -> list[Run]:
    """All runs, seed by seed, so that an unfinished bench has something of every encoder.

    Raises:
        BenchError: an unknown encoder or task, a configuration without a metric to select by, or no seeds.
    """
    if request.seeds < 1:
        raise BenchError(f"seeds is {request.seeds}; expected at least 1.")
    encoders = _encoders(request)
    key = {"zoo": zoo.fingerprint, "code": code_version()}
    runs = []
    for seed in range(request.seeds):
        for name, config in encoders.items():
            full = overlay(config, _of_run(config, seed, request.smoke))
            settings = {"configuration": digest(full), **key}
            runs.append(Run(name, seed, request.out, request.zoo, request.budget, full, settings))
    return runs


def check_folder(runs: Sequence[Run], redo: bool) -> None:
    """Refuse or delete what earlier benches made otherwise.

    Raises:
        BenchError: a run differs in configuration, budget, zoo or code, and ``redo`` is not set; or something
            else is in its place.
    """
    for run in runs:
        if run.foreign:
            raise BenchError(f"{run.folder} was not made by a bench. Choose another folder with --out.")
    other = [(run, changed) for run in runs if (changed := run.made_otherwise())]
    if other and not redo:
        lines = [f"  {run.folder}: {'; '.join(changed)}" for run, changed in other]
        more = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        raise BenchError(
            "\n".join(["runs with other settings are there already.", *lines[:_SHOWN], *more])
            + "\n  Keep the settings, choose another folder with --out, or train these anew with --redo."
        )
    for run, _ in other:
        run.clear()


def _encoders(request: Request) -> dict[str, dict[str, Any]]:
    """What to train, by name: the shared configuration with each encoder's laid over it."""
    named = not _is_file(request.task)
    path = request.configs / "bench" / f"{request.task}.yaml" if named else Path(request.task)
    shared = read_config(path)
    if not str(shared.get("monitor", "")).startswith("val/") or shared.get("mode") not in ("max", "min"):
        raise BenchError(
            f"{path} does not say what to select by; expected monitor: val/… and mode: max or min."
        )
    model = shared.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("init_args"), dict):
        raise BenchError(f"{path} names no task; expected model: with class_path and init_args.")
    if not named and not request.encoders:
        return {path.stem: shared}
    for name in ("encoder", "probes"):  # those of the encoders take their place
        model["init_args"].pop(name, None)
    return {path.stem: overlay(shared, read_config(path)) for path in _encoder_files(request)}


def _encoder_files(request: Request) -> list[Path]:
    folder = request.configs / "encoder"
    known = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if not known and not request.encoders:
        raise BenchError(f"{folder} holds no encoders (*.yaml). Name the folder above with --configs.")
    found: dict[str, Path] = {}
    for name in request.encoders or known:
        path = Path(name) if _is_file(name) else known.get(name)
        if path is None:
            raise BenchError(
                f"there is no encoder {name!r} in {folder}; choose of {', '.join(known)}, or give a file."
            )
        if found.setdefault(path.stem, path) != path:
            raise BenchError(f"{found[path.stem]} and {path} have the same name. Rename one of them.")
    return list(found.values())


def _is_file(name: str) -> bool:
    return name.endswith((".yaml", ".yml"))


def _of_run(config: Mapping[str, Any], seed: int, smoke: bool) -> dict[str, Any]:
    own: dict[str, Any] = {"seed_everything": seed, "data": {"init_args": {"seed": seed}}, "trainer": {}}
    if smoke:
        own["trainer"] = {"limit_val_batches": SMOKE_BATCHES, "limit_test_batches": SMOKE_BATCHES}
        if "probe" in config:
            own["probe"] = {"limit": SMOKE_NETWORKS}
    return own
