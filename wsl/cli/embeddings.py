"""``embed``, ``probe``, ``neighbours``: what a run's embeddings say of the networks of its zoo."""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jsonargparse import ArgumentParser, Namespace, get_loader

import wsl
from wsl._files import write_text
from wsl.cli.failures import CommandError
from wsl.data import DataError, ZooDataModule
from wsl.tasks import BaseTask, InvariantTask
from wsl.tasks.embeddings import Embeddings, embed_splits, nearest, read_embeddings, write_embeddings
from wsl.tasks.factories import TaskError
from wsl.tasks.linear_probe import probe_classes, probe_numbers
from wsl.tasks.own_network import load_task
from wsl.zoo import ZooError

PURPOSES = {
    "embed": "Write a run's embeddings of all networks of its zoo, and their rows.",
    "probe": "Score a linear model that predicts a label from a run's embeddings.",
    "neighbours": "Print the networks that are nearest to one of them in a run's embeddings.",
}
SCORES = "probe.json"


def run(arguments: Sequence[str]) -> int:
    """Run one of :data:`PURPOSES`, the first of ``arguments``."""
    command, *given = arguments
    options = _parser(command).parse_args(given)
    folder = Path(options.runs) / options.name
    if options.limit is not None and options.limit < 1:
        raise CommandError(f"limit is {options.limit}; expected at least 1.")
    config = _config(folder, options.runs, options.name)
    data = _data(config, options.zoo, options.label if command == "probe" else None)
    out = folder / ("embeddings_untrained" if options.untrained else "embeddings")
    found = _embeddings(folder, out, config, data, options)
    if command == "probe":
        sys.stdout.write(_probed(found, data, out, options.kind))
    elif command == "neighbours":
        sys.stdout.write(_neighbours(found, data, options.row, options.count))
    else:
        sys.stdout.write(f"{out}  {' x '.join(map(str, found.vectors.shape))}\n")
    return 0


def _embeddings(
    folder: Path, out: Path, config: Mapping[str, Any], data: ZooDataModule, options: Namespace
) -> Embeddings:
    """Those that are there, if model and data are still the same, or else new ones, which are kept."""
    checkpoint = folder / "checkpoints" / "best.ckpt"
    if options.untrained:
        origin = json.dumps([config["model"], config["seed_everything"]]).encode()
    elif checkpoint.is_file():
        origin = checkpoint.read_bytes()
    else:
        raise CommandError(
            f"there is no checkpoint {checkpoint}. Train the run, or give --untrained for new weights."
        )
    source = {
        "model": hashlib.blake2b(origin, digest_size=16).hexdigest(),
        "zoo": data.fingerprint,
        "where": data.where,
        "limit": options.limit,
        "version": wsl.__version__,
    }
    if (found := read_embeddings(out, source)) is None:
        task = _untrained(config, data) if options.untrained else load_task(checkpoint)
        found = embed_splits(task, data, options.limit)
        (out / SCORES).unlink(missing_ok=True)  # of other embeddings
        write_embeddings(found, out, source)
    return found


def _untrained(config: Mapping[str, Any], data: ZooDataModule) -> InvariantTask:
    """The run's task with new weights, drawn from the run's seed, and the statistics of the data."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(BaseTask, "model", required=True)
    task = parser.instantiate_classes(parser.parse_object({"model": config["model"]})).model
    if not isinstance(task, InvariantTask):
        raise TaskError(f"{type(task).__name__} predicts nothing of a network by itself, so it embeds none.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(config["seed_everything"]))
        task.build(data)
    return task.eval()


def _config(folder: Path, runs: str, name: str) -> dict[str, Any]:
    path = folder / "config.yaml"
    if not path.is_file():
        raise CommandError(f"there is no run {name!r} in {runs}: {path} does not exist. Train it with `fit`.")
    try:
        config: Any = get_loader("yaml")(path.read_text("utf-8"))
    except Exception as err:  # yaml's own errors share no base with those of decoding
        raise CommandError(f"{path} does not read as YAML ({type(err).__name__}). Was it cut off?") from err
    if not isinstance(config, dict) or not {"model", "data", "seed_everything"} <= set(config):
        raise CommandError(f"{path} is no configuration of a run: it needs model, data and seed_everything.")
    return config


def _data(config: Mapping[str, Any], zoo: list[str] | str | None, label: str | None) -> ZooDataModule:
    """The run's data, or another zoo or label with its settings."""
    stored = config["data"]
    changed = {name: value for name, value in (("path", zoo), ("label", label)) if value is not None}
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(ZooDataModule, "data", required=True)
    given = {"class_path": stored["class_path"], "init_args": {**stored["init_args"], **changed}}
    data = parser.instantiate_classes(parser.parse_object({"data": given})).data
    assert isinstance(data, ZooDataModule)
    try:
        data.setup("predict")
    except DataError as err:
        raise DataError(str(err).replace("data.label", "--label") if label is not None else str(err)) from err
    return data


def _probed(found: Embeddings, data: ZooDataModule, out: Path, kind: str | None) -> str:
    """Score the probe, and keep the scores beside those of other labels."""
    labels = data.labels[found.rows]
    kind = kind or ("classes" if labels.dtype.kind == "i" else "numbers")
    probed = probe_classes(found, labels) if kind == "classes" else probe_numbers(found, labels)
    path = out / SCORES
    known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    write_text(path, json.dumps({**known, data.label: probed}, indent=1) + "\n")
    return "".join(f"{name}  {value:.4g}\n" for name, value in probed.items())


def _neighbours(found: Embeddings, data: ZooDataModule, row: int, count: int) -> str:
    """A line for the network and each of its neighbours, with what the zoo says of them."""
    places, cosines = nearest(found, row, count)
    own = int((found.rows == row).nonzero()[0][0])
    lines = [
        {"row": int(found.rows[place]), "cosine": cosine, "split": str(found.splits[place])}
        | _metadata(data, int(found.rows[place]))
        for place, cosine in zip([own, *places], [1.0, *cosines], strict=True)
    ]
    names = list(dict.fromkeys(name for line in lines for name in line))
    table = [names, *([_shown(line.get(name, "")) for name in names] for line in lines)]
    widths = [max(len(line[i]) for line in table) for i in range(len(names))]
    padded = (
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in table
    )
    return "".join(f"{line.rstrip()}\n" for line in padded)


def _metadata(data: ZooDataModule, row: int) -> dict[str, Any]:
    """By column; rows are numbered on from zoo to zoo."""
    for zoo in data.zoos.zoos:
        if row < len(zoo):
            return {name: column[row] for name, column in zoo.metadata.items()}
        row -= len(zoo)
    raise ZooError(f"the data have no row {row}.")


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _parser(command: str) -> ArgumentParser:
    parser = ArgumentParser(
        prog=f"python -m wsl {command}", exit_on_error=False, description=PURPOSES[command]
    )
    parser.add_argument("--name", type=str, required=True, help="the run's name, of `fit --name NAME`")
    parser.add_argument("--runs", type=str, default="runs", help="folder that holds the runs' folders")
    parser.add_argument(
        "--zoo", type=list[str] | str | None, default=None, help="another zoo than the run's, or several"
    )
    parser.add_argument(
        "--untrained", action="store_true", help="the run's model with new weights, for comparison"
    )
    parser.add_argument(
        "--limit",
        type=int | None,
        default=None,
        help="about how many networks of each split, evenly spread; by default all",
    )
    if command == "probe":
        parser.add_argument(
            "--label", type=str | None, default=None, help="column to predict; the run's label if not given"
        )
        parser.add_argument(
            "--kind",
            type=Literal["classes", "numbers"] | None,
            default=None,
            help="logistic or ridge regression; by default, whole numbers are classes",
        )
    if command == "neighbours":
        parser.add_argument("--row", type=int, required=True, help="the network's row in the zoo")
        parser.add_argument("--count", type=int, default=5, help="how many of its neighbours")
    return parser
