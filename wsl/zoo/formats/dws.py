"""INRs of MNIST and Fashion-MNIST as DWSNets and Neural Graphs publish them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wsl.zoo._errors import ZooError
from wsl.zoo._store import Zoo
from wsl.zoo.formats._architectures import siren
from wsl.zoo.formats._export import (
    Columns,
    check_forward,
    one_architecture,
    split_of_rows,
    stored_networks,
    write_torch_file,
)  # fmt: skip
from wsl.zoo.formats._files import as_int, entries, find_folder, read_json
from wsl.zoo.formats._networks import Network, batched
from wsl.zoo.formats._protocol import ImportOptions, Source, ZooFormat
from wsl.zoo.formats._sirens import SirenNames
from wsl.zoo.formats._torch_file import read_torch_file

_NAMES = SirenNames("seq.{}", "seq.{}")
_MNIST = re.compile(r"mnist_png_(?P<part>training|testing)_(?P<label>\d{1,9})_(?P<image>\d{1,9})")
_FASHION = re.compile(r"model_(?P<image>\d{1,9})\.pth")
_KINDS: dict[str, type] = {"label": int, "image": int, "part": str}
_MNIST_FILE = "checkpoints/model_final.pth"
_MNIST_SPLITS, _FASHION_SPLITS = "mnist_splits.json", "splits.json"


class DwsFormat(ZooFormat):
    """INRs with their label in the path or inside.

    ``mnist_png_{training,testing}_{label}_{image}/checkpoints/model_final.pth``, or
    ``{train,test}/model_{i}.pth`` with the label in it. Networks are ``sin(30 (W x + b))`` with 0.5 added to
    the output; the first coordinate runs along the columns.

    Splits: ``mnist_splits.json`` in the folder or beside it, ``splits.json`` in the folder; their paths are
    their authors', so that files are found by the last parts of the path.

    Source: Navon et al. 2023 (arXiv:2301.12780); Kofinas et al. 2024 (arXiv:2403.12143).
    """

    name = "dws"
    summary = "INRs of MNIST (mnist-inrs) and Fashion-MNIST (fmnist_inrs) of DWSNets and Neural Graphs"
    options = frozenset({"grid"})

    def read(self, source: Path, options: ImportOptions) -> Source:
        folder = find_folder(source, "a folder of DWSNets INRs", lambda f: _layout(f) is not None)
        layout = _layout(folder)
        files = _mnist_files(folder) if layout == "mnist" else _fashion_files(folder)
        splits = _splits(folder, layout, files)
        notes = [] if splits else ["there is no file of splits, so the zoo has none."]
        first = next(iter(files))
        state = _state(folder / first, layout)
        widths = _NAMES.widths({k: v for k, v in state.items() if k != "label"}, str(folder / first))
        architecture = siren(
            widths, 30.0, grid=options.grid or (28, 28), output=(0.5, 1.0), column_first=True
        )

        def networks() -> Iterator[Network]:
            for path, columns in files.items():
                where = str(folder / path)
                state = _state(folder / path, layout)
                if layout == "fashion":
                    columns = columns | {"label": as_int(state.pop("label", None), f"{where}: label")}
                split, label = splits.get(path, ("", None))
                if label is not None and label != columns["label"]:
                    raise ZooError(
                        f"{where} has the label {columns['label']}, and the split {split} says {label}."
                    )
                yield Network(architecture, _NAMES.read(state, widths, where), columns, split)

        provenance = {"format": self.name, "layout": layout, "networks": len(files)}
        return Source(batched(networks(), _KINDS), provenance, notes=notes)

    def write(self, zoo: Zoo, destination: Path) -> list[str]:
        check_forward(
            one_architecture(zoo), "Siren", w0=30.0, output_offset=0.5, output_scale=1.0, column_first=True
        )
        columns = Columns(zoo, {"label": "int", "image": "int", "part": "text"})
        parts = set(columns.values["part"].tolist())
        layouts = {"mnist": {"training", "testing"}, "fashion": {"train", "test"}}
        layout = next((name for name, allowed in layouts.items() if parts <= allowed), None)
        if layout is None:
            raise ZooError(
                f"the column part holds {sorted(parts)}, expected training and testing, or train and test."
            )
        root = destination / ("mnist-inrs" if layout == "mnist" else "fmnist_inrs")
        split_of, splits = split_of_rows(zoo), {name: _new_split(layout) for name in zoo.splits}
        for network in stored_networks(zoo):
            row = columns.row(network.row)
            if layout == "mnist":
                path = f"mnist_png_{row['part']}_{row['label']}_{row['image']}/{_MNIST_FILE}"
                write_torch_file(root / path, _NAMES.write(network.weights))
            else:
                path = f"{row['part']}/model_{row['image']}.pth"
                write_torch_file(root / path, _NAMES.write(network.weights), label=row["label"])
            if split := split_of[network.row]:
                _add(splits[split], f"{root.name}/{path}", row["label"])
        place = destination / _MNIST_SPLITS if layout == "mnist" else root / _FASHION_SPLITS
        if splits:
            place.write_text(json.dumps(splits), encoding="utf-8")
        return columns.notes


def _layout(folder: Path) -> str | None:
    names = [entry.name for entry in entries(folder)]
    if any(_MNIST.fullmatch(name) for name in names):
        return "mnist"
    parts = [folder / name for name in names if name in ("train", "test") and (folder / name).is_dir()]
    return "fashion" if any(_FASHION.fullmatch(e.name) for part in parts for e in entries(part)) else None


def _mnist_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Path in the folder -> columns, in order of part and image."""
    found = []
    for entry in entries(folder):
        if match := _MNIST.fullmatch(entry.name):
            columns = {"label": int(match["label"]), "image": int(match["image"]), "part": match["part"]}
            found.append((columns, f"{entry.name}/{_MNIST_FILE}"))
    found.sort(key=lambda pair: (pair[0]["part"] != "training", pair[0]["image"], pair[1]))
    return {path: columns for columns, path in found}


def _fashion_files(folder: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for part in ("train", "test"):
        for entry in entries(folder / part) if (folder / part).is_dir() else []:
            if match := _FASHION.fullmatch(entry.name):
                found[f"{part}/{entry.name}"] = {"image": int(match["image"]), "part": part}
    return found


def _state(path: Path, layout: str | None) -> dict[str, Any]:
    state = read_torch_file(path)
    if not isinstance(state, dict) or (layout == "fashion" and "label" not in state):
        raise ZooError(
            f"{path} holds no {'label beside its tensors' if layout == 'fashion' else 'state dict'}."
        )
    return dict(state)


def _splits(folder: Path, layout: str | None, files: dict[str, Any]) -> dict[str, tuple[str, int | None]]:
    """Path in the folder -> its split, and its label if the file of splits gives it."""
    places = [folder / _FASHION_SPLITS] if layout == "fashion" else [folder / _MNIST_SPLITS]
    if layout == "mnist":
        places.append(folder.parent / _MNIST_SPLITS)
    place = next((path for path in places if path.is_file()), None)
    if place is None:
        return {}
    found: dict[str, tuple[str, int | None]] = {}
    for name, content in read_json(place, dict).items():
        paths, labels = (content, None) if isinstance(content, list) else _lists(content, f"{place}: {name}")
        for number, text in enumerate(paths):
            path = "/".join(str(text).split("/")[-3 if layout == "mnist" else -2 :])
            if path not in files:
                raise ZooError(
                    f"{place} puts {str(text)[:200]} into {name}, and {folder} has no {path[:200]}."
                )
            if path in found:
                raise ZooError(f"{place} has {path} in {found[path][0]} and in {name}.")
            label = None if labels is None else _label(labels[number], f"{place}: the label of {path}")
            found[path] = (name, label)
    return found


def _lists(content: Any, where: str) -> tuple[list[Any], list[Any]]:
    paths, labels = (
        (content.get(key) for key in ("path", "label")) if isinstance(content, dict) else (None, None)
    )
    if not isinstance(paths, list) or not isinstance(labels, list) or len(paths) != len(labels):
        raise ZooError(f"{where} is no pair of lists of one length, path and label.")
    return paths, labels


def _label(value: Any, what: str) -> int:
    """Labels are integers, or text of digits."""
    return as_int(int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value) else value, what)


def _new_split(layout: str) -> Any:
    return {"path": [], "label": []} if layout == "mnist" else []


def _add(split: Any, path: str, label: int) -> None:
    if isinstance(split, list):
        split.append(path)
    else:
        split["path"].append(path)
        split["label"].append(str(label))
