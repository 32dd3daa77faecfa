"""The CNN Wild Park: checkpoints of Ray with heterogeneous CNNs, one architecture a trial."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._layout import Architecture
from wsl.zoo._store import Zoo
from wsl.zoo.formats._architectures import traced
from wsl.zoo.formats._export import Columns, check_forward, split_of_rows, stored_networks, write_torch_file
from wsl.zoo.formats._files import as_float, as_int, entries, find_folder, read_json
from wsl.zoo.formats._networks import Network, batched, match, tensors_of
from wsl.zoo.formats._omegaconf import PICKLE_FUNCTIONS, PICKLE_RECORDS, plain_config
from wsl.zoo.formats._protocol import ImportOptions, Source, ZooFormat
from wsl.zoo.formats._torch_file import read_torch_file

_CHECKPOINT = re.compile(r"checkpoint_(?P<step>\d{6,9})")
_FILE = "checkpoint.pt"
_SPLITS = "cnn_park_splits.json"
_KINDS: dict[str, type] = {"model": str, "step": int, "test_acc": float, "test_loss": float}
_LISTS = ("channels", "kernel_size", "activation", "stride", "padding", "residual")


class WildParkFormat(ZooFormat):
    """``cifar10_zooV2/<trial>/checkpoint_<step>/checkpoint.pt`` and ``cnn_park_splits.json``.

    A checkpoint is a dictionary of ``model``, ``config`` and Ray's records; optimizers are not kept. The
    configuration may be a pickled one of OmegaConf: it is read as data, without that package. Splits are by
    model.

    Source: Kofinas et al. 2024 (arXiv:2403.12143).
    """

    name = "wildpark"
    summary = "the CNN Wild Park of Neural Graphs (<trial>/checkpoint_<step>/checkpoint.pt)"

    def read(self, source: Path, options: ImportOptions) -> Source:
        folder = find_folder(source, "a folder of trials of the CNN Wild Park", _has_trials)
        files = _files(folder)
        splits = _splits(folder, files)

        def networks() -> Iterator[Network]:
            for path, (model, step) in files.items():
                where = str(folder / path)
                content = read_torch_file(folder / path, PICKLE_FUNCTIONS, PICKLE_RECORDS)
                architecture, weights = _network(content, where)
                result = content.get("last_result")
                result = result if isinstance(result, dict) else {}
                accuracy, loss = (
                    as_float(result.get(f"test/{key}"), f"{where}: test/{key}") for key in ("acc", "loss")
                )
                if as_int(content.get("iteration"), f"{where}: iteration") != step:
                    raise ZooError(
                        f"{where} has the iteration {content['iteration']}, and its folder {step}."
                    )
                split, said = splits.get(path, ("", None))
                if said is not None and said != (accuracy, step):
                    raise ZooError(
                        f"{where} has accuracy and step {(accuracy, step)}, and the splits say {said}."
                    )
                columns = {"model": model, "step": step, "test_acc": accuracy, "test_loss": loss}
                yield Network(architecture, weights, columns, split)

        recipe = {"method": "imported", "column": "model"}
        recipes = dict.fromkeys({name for name, _ in splits.values()}, (recipe, 0))
        notes = [] if splits else [f"there is no {_SPLITS}, so the zoo has no splits."]
        provenance = {"format": self.name, "networks": len(files)}
        return Source(batched(networks(), _KINDS), provenance, recipes, notes)

    def write(self, zoo: Zoo, destination: Path) -> list[str]:
        columns = Columns(zoo, {"model": "text", "step": "int", "test_acc": "float", "test_loss": "float"})
        splits: dict[str, Any] = {name: {"path": [], "score": [], "step": []} for name in zoo.splits}
        split_of = split_of_rows(zoo)
        for network in stored_networks(zoo):
            row = columns.row(network.row)
            check_forward(network.architecture, "ParkCNN")
            if not re.fullmatch(r"[^/\0]{1,200}", row["model"]) or row["model"] in (".", ".."):
                raise ZooError(
                    f"row {network.row} has the model {row['model'][:60]!r}, which names no folder."
                )
            path = f"cifar10_zooV2/{row['model']}/checkpoint_{row['step']:06d}/{_FILE}"
            arguments = dict(network.architecture.forward.arguments)
            config = {name: arguments[name] for name in _LISTS}
            config |= {"n_layers": len(config["activation"]), "n_classes": arguments.get("classes", 10)}
            result = {"test/acc": row["test_acc"], "test/loss": row["test_loss"]}
            write_torch_file(
                destination / path, network.weights, "model",
                config=config, iteration=row["step"], last_result=result,
            )  # fmt: skip
            if split := split_of[network.row]:
                for key, value in (("path", path), ("score", row["test_acc"]), ("step", row["step"])):
                    splits[split][key].append(value)
        if splits:
            (destination / _SPLITS).write_text(json.dumps(splits), encoding="utf-8")
        return [
            *columns.notes,
            "config is a plain dictionary, where the published files have one of OmegaConf.",
        ]


def _has_trials(folder: Path) -> bool:
    return any(
        _CHECKPOINT.fullmatch(item.name) and (item / _FILE).is_file()
        for trial in entries(folder)
        if trial.is_dir()
        for item in entries(trial)
    )


def _files(folder: Path) -> dict[str, tuple[str, int]]:
    """Path in the folder -> trial and step, in this order."""
    found = {}
    for trial in entries(folder):
        for item in entries(trial) if trial.is_dir() else []:
            if (name := _CHECKPOINT.fullmatch(item.name)) and (item / _FILE).exists():
                found[f"{trial.name}/{item.name}/{_FILE}"] = (trial.name, int(name["step"]))
    return found


def _network(content: Any, where: str) -> tuple[Architecture, Any]:
    if not isinstance(content, dict) or not {"model", "config"} <= content.keys():
        raise ZooError(f"{where} is no dictionary with the entries model and config.")
    config = plain_config(content["config"], where)
    lists: dict[str, list[Any]] = {}
    for name in _LISTS:
        values = config.get(name)
        if not isinstance(values, list) or not 1 <= len(values) <= 100:
            raise ZooError(f"{where}: the entry {name} of config is no list of one value a layer.")
        lists[name] = [
            str(v) if name == "activation" else as_int(v, f"{where}: {name} of config") for v in values
        ]
    classes = as_int(config.get("n_classes"), f"{where}: n_classes of config")
    channels, kernels = lists["channels"], lists["kernel_size"]
    if len({len(channels) - 1, *(len(lists[name]) for name in _LISTS[1:]), config.get("n_layers")}) != 1:
        raise ZooError(f"{where}: the lists of config differ in length, or are not n_layers long.")
    if any(
        not 1 <= s <= 8 or not 0 <= p <= k
        for s, p, k in zip(lists["stride"], lists["padding"], kernels, strict=True)
    ):
        raise ZooError(
            f"{where}: strides {lists['stride']} or paddings {lists['padding']} of config are impossible."
        )
    shapes: dict[str, tuple[int, ...]] = {"fc.weight": (classes, channels[-1]), "fc.bias": (classes,)}
    for i, (inputs, outputs) in enumerate(pairwise(channels)):
        shapes |= {
            f"layers.{i}.weight": (outputs, inputs, kernels[i], kernels[i]),
            f"layers.{i}.bias": (outputs,),
        }
    weights = match(tensors_of(content["model"], where), {name: name for name in shapes}, shapes, where)
    forward = ForwardDefinition("wsl.models:ParkCNN", {**lists, "classes": classes})
    try:
        return traced(_title(lists), forward, (1, channels[0], 32, 32)), weights
    except ZooError as err:
        raise ZooError(f"{where}: {err}") from err


def _title(lists: dict[str, list[Any]]) -> str:
    layers = zip(
        *(lists[name] for name in ("kernel_size", "activation", "residual")),
        lists["channels"][1:],
        strict=True,
    )
    words = [f"{c}x{k}{a}" + (f"+{r}" if r >= 0 else "") for k, a, r, c in layers]
    return f"cnn-{lists['channels'][0]}-" + "-".join(words)


def _splits(folder: Path, files: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    """Path in the folder -> its split, and the accuracy and step that the file of splits gives."""
    place = next((f / _SPLITS for f in (folder, folder.parent) if (f / _SPLITS).is_file()), None)
    if place is None:
        return {}
    found: dict[str, tuple[str, Any]] = {}
    for name, content in read_json(place, dict).items():
        lists = (
            [content.get(key) for key in ("path", "score", "step")] if isinstance(content, dict) else [None]
        )
        if not all(isinstance(one, list) and len(one) == len(lists[0] or []) for one in lists):
            raise ZooError(f"{place}: {name} is no set of lists of one length, path, score and step.")
        for text, score, step in zip(*lists, strict=True):
            path = "/".join(str(text).split("/")[-3:])
            if path not in files:
                raise ZooError(
                    f"{place} puts {str(text)[:200]} into {name}, and {folder} has no {path[:200]}."
                )
            if path in found:
                raise ZooError(f"{place} has {path} in {found[path][0]} and in {name}.")
            found[path] = (
                name,
                (as_float(score, f"{place}: score of {path}"), as_int(step, f"{place}: step")),
            )
    return found
