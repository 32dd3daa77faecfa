"""One run from wherever it stands to its result: time some steps, train, test once."""

import json
import logging
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wsl._files import write_text
from wsl.bench._budget import Length
from wsl.bench._code import code_version
from wsl.bench._config import overlay
from wsl.bench._errors import BenchError
from wsl.bench._run import RESULT, Run
from wsl.bench._table import BASELINES, UNTRAINED
from wsl.report import learning_curves
from wsl.zoo import Zoo

logger = logging.getLogger(__name__)

Command = Callable[[Sequence[str]], object]
Measure = Callable[[Sequence[str]], tuple[float, int]]

LENGTH, CONFIG, METER = "length.json", "bench.json", "training.json"


def complete_run(run: Run, command: Command, measure: Measure, memory: float) -> dict[str, Any]:
    """Do what the run lacks; nothing that is there is done again.

    Args:
        command: runs ``fit``, ``test`` or ``probe`` with the options of ``python -m wsl``.
        measure: runs ``fit`` with a ``StepTimer``; seconds of a step, and steps of an epoch.
        memory: of this process before, in MB.

    Returns:
        The run's figures, as in its ``result.json``.

    Raises:
        BenchError: the code or the zoo is not that of the request.
    """
    if (found := run.result()) is not None:
        return found
    if (code := code_version()) != run.key["code"]:
        raise BenchError(
            f"the code is {code}, but the bench began with {run.key['code']}. Start the bench again, or run "
            "it from a copy of the checkout that does not change."
        )
    if (zoo := Zoo.open(run.zoo).fingerprint) != run.key["zoo"]:
        raise BenchError(
            f"{run.zoo} has fingerprint {zoo}, but the bench began with {run.key['zoo']}. Put that zoo back, "
            "or start the bench again."
        )
    length = _length(run, measure, memory)
    config = run.folder / CONFIG
    write_text(config, json.dumps(_training_config(run, length), indent=1) + "\n")
    given = ["--config", str(config), "--name", run.name, "--runs", str(run.out)]
    if not (run.folder / METER).is_file():
        started = (run.folder / "checkpoints" / "last.ckpt").is_file()
        command(["fit", *given, *(["--ckpt_path", "last"] if started else [])])
    if not (run.folder / "test.json").is_file():
        command(["test", *given, "--ckpt_path", "best"])
    found = {**_figures(run), **_probed(run, command)}
    write_text(run.folder / RESULT, json.dumps(found, indent=1) + "\n")
    return found


def _length(run: Run, measure: Measure, memory: float) -> Length:
    """As measured by the first process that works on the run; later ones keep to it."""
    path = run.folder / LENGTH
    if not path.is_file():
        with tempfile.TemporaryDirectory() as elsewhere:
            arguments = {"seconds": run.budget.measuring}
            timer = {"class_path": "wsl.tasks.meter.StepTimer", "init_args": arguments}
            limits = {
                "max_steps": 10**6,
                "check_val_every_n_epoch": 10**6,
                "logger": False,
                "callbacks": [timer],
            }
            config = Path(elsewhere) / CONFIG
            config.write_text(json.dumps(_config(run, limits)), "utf-8")
            given = ["--config", str(config), "--runs", elsewhere, "--name", "timed"]
            seconds, batches = measure(["fit", *given])
        length = run.budget.length(seconds, batches)
        found = {
            "steps": length.steps,
            "interval": length.interval,
            "step_seconds": seconds,
            "start_mb": memory,
        }
        write_text(path, json.dumps(found, indent=1) + "\n")
    found = json.loads(path.read_text("utf-8"))
    return Length(found["steps"], found["interval"])


def _training_config(run: Run, length: Length) -> dict[str, Any]:
    meter = {"class_path": "wsl.tasks.meter.Meter", "init_args": {"path": str(run.folder / METER)}}
    return _config(
        run,
        {
            "max_steps": length.steps,
            "val_check_interval": length.interval,
            "check_val_every_n_epoch": None,
            "callbacks": [meter],
        },
    )


def _config(run: Run, trainer: dict[str, Any]) -> dict[str, Any]:
    fixed = {"max_epochs": -1, "num_sanity_val_steps": 0, "enable_progress_bar": False, **trainer}
    data = {"init_args": {"path": str(run.zoo)}}
    own = {name: value for name, value in run.config.items() if name != "probe"}
    return overlay(own, {"data": data, "trainer": fixed, "patience": None})


def _figures(run: Run) -> dict[str, Any]:
    def read(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((run.folder / name).read_text("utf-8"))
        return found

    meter, length = read(METER), read(LENGTH)
    monitor = run.config["monitor"]
    curves = learning_curves(run.folder, by="step")
    _, values = curves[monitor]
    baselines = [f"val/{name}" for name in BASELINES]
    return {
        "parameters": meter["parameters"],
        "epochs": meter["epochs"],
        "steps": meter["steps"],
        "networks": meter["networks"],
        "cpu_seconds": meter["seconds"],
        "epoch_seconds": meter["seconds"] / meter["epochs"],
        "networks_per_second": meter["networks"] / meter["seconds"],
        "peak_mb": meter["peak_mb"] - length["start_mb"],
        monitor: float(values.max() if run.config["mode"] == "max" else values.min()),
        **{name: float(curves[name][1][-1]) for name in baselines if name in curves},
        **read("test.json"),
    }


def _probed(run: Run, command: Command) -> dict[str, float]:
    """Accuracies of a linear probe on the run's embeddings, and on those of new weights."""
    if run.probe is None:
        return {}
    given = [word for name, value in run.probe.items() for word in (f"--{name}", str(value))]
    found = {}
    for folder, options in (("embeddings", []), ("embeddings_untrained", ["--untrained"])):
        path = run.folder / folder / "probe.json"
        if not path.is_file():
            command(["probe", "--name", run.name, "--runs", str(run.out), *given, *options])
        found[folder] = json.loads(path.read_text("utf-8"))[run.probe["label"]]
    return {
        "val/probe_accuracy": found["embeddings"]["val/accuracy"],
        "test/probe_accuracy": found["embeddings"]["test/accuracy"],
        UNTRAINED: found["embeddings_untrained"]["test/accuracy"],
    }
