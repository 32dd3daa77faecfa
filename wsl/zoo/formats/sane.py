"""Token sequences of networks as SANE prepares them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._store import Zoo
from wsl.zoo.formats._architectures import fixed
from wsl.zoo.formats._export import (
    Columns,
    one_architecture,
    split_of_rows,
    stored_networks,
    write_torch_file,
)
from wsl.zoo.formats._files import entries, find_folder, read_json
from wsl.zoo.formats._networks import Network, as_float32, batched
from wsl.zoo.formats._protocol import ImportOptions, Source, ZooFormat
from wsl.zoo.formats._table import column_name
from wsl.zoo.formats._torch_file import read_torch_file

_FOLDER = re.compile(r"dataset_torch\.(?P<split>train|val|test)")
_FILE = re.compile(r"sample_(?P<sample>\d{1,9})\.pt")
_ENTRIES = {"w": "f", "m": "b", "p": "i", "props": "f"}
_SPLITS = ("train", "val", "test")
_REASON = "tokens of one network and their places"


class SaneFormat(ZooFormat):
    """``dataset_torch.{split}/sample_{i}.pt`` = ``{w, m, p, props}`` and ``dataset_info_{split}.json``.

    A sample is a window of tokens, perhaps in several permutations of the network: each is a row, with its
    number as ``permutation``. The tensors ``tokens``, ``mask`` (1 where a token has weights) and ``position``
    (place in the sequence, layer, channel) are kept as they are: which layer has which shape is not stored,
    so that no network can be built from them and no symmetry is claimed. The info files and
    ``dataset_normalization_{split}.json`` are kept in the provenance.

    Source: Schuerholt et al. 2024 (arXiv:2406.09997).
    """

    name = "sane"
    summary = "token sequences of SANE (dataset_torch.{split}/sample_{i}.pt)"

    def read(self, source: Path, options: ImportOptions) -> Source:
        folder = find_folder(source, "a folder with dataset_torch.{split}", lambda f: bool(_parts(f)))
        files, properties, infos = [], None, {}
        for split in _parts(folder):
            info, norms = (
                _json(folder / f"dataset_{kind}_{split}.json") for kind in ("info", "normalization")
            )
            infos[split] = {"info": info, "normalization": norms}
            names = _properties(info, folder / f"dataset_info_{split}.json")
            if properties not in (None, names):
                raise ZooError(f"{folder}: the splits have other properties: {properties} and {names}.")
            properties = names
            files += [(split, *pair) for pair in _samples(folder / f"dataset_torch.{split}")]
        kinds: dict[str, type] = {
            "sample": int,
            "permutation": int,
            **dict.fromkeys(properties or [], float),
        }
        shape = _sample(files[0][2], len(properties or []))["w"].shape[1:]

        def networks() -> Iterator[Network]:
            for split, sample, path in files:
                content = _sample(path, len(properties or []))
                tokens = as_float32(content["w"], f"{path}: w")
                if tokens.shape[1:] != shape:
                    raise ZooError(
                        f"{path}: w has tokens of the shape {tokens.shape[1:]}, and the first sample {shape}."
                    )
                mask, position = (
                    as_float32(content["m"], f"{path}: m"),
                    as_float32(content["p"], f"{path}: p"),
                )
                architecture = fixed(
                    "tokens", {"tokens": shape, "mask": shape, "position": (shape[0], 3)}, _REASON
                )
                values = dict(zip(properties or [], content["props"].astype(float).tolist(), strict=True))
                for permutation, one in enumerate(tokens):
                    weights = {"tokens": one, "mask": mask, "position": position}
                    columns = {"sample": sample, "permutation": permutation, **values}
                    yield Network(architecture, weights, columns, split)

        provenance = {"format": self.name, "samples": len(files), "splits": infos}
        return Source(batched(networks(), kinds), provenance)

    def write(self, zoo: Zoo, destination: Path) -> list[str]:
        if set(one_architecture(zoo).spec.tensors) != {"tokens", "mask", "position"}:
            raise ZooError(
                "this format holds zoos of SANE tokens only: the tensors tokens, mask and position."
            )
        infos = zoo.provenance.get("splits", {})
        names = [name for name in zoo.metadata if name not in ("sample", "permutation")]
        columns = Columns(zoo, {"sample": "int", "permutation": "int"} | dict.fromkeys(names, "float"))
        split_of, pending = split_of_rows(zoo), list[tuple[dict[str, Any], str, Any]]()
        for network in stored_networks(zoo):
            row, split = columns.row(network.row), str(split_of[network.row])
            if split not in _SPLITS:
                raise ZooError(
                    f"row {network.row} is in the split {split!r}, and this format has {', '.join(_SPLITS)}."
                )
            if pending and (pending[0][0]["sample"], pending[0][1]) != (row["sample"], split):
                _write_sample(destination, pending, names)
                pending = []
            pending.append((row, split, network.weights))
        _write_sample(destination, pending, names)
        for split in sorted({str(name) for name in split_of}):
            found = infos.get(split, {}) if isinstance(infos, dict) else {}
            info = dict(found.get("info", {})) | {"properties": _original(found, names), "split": split}
            for kind, content in (("info", info), ("normalization", found.get("normalization", {}))):
                place = destination / f"dataset_{kind}_{split}.json"
                place.write_text(json.dumps(content), encoding="utf-8")
        return columns.notes


def _parts(folder: Path) -> list[str]:
    found = {match["split"] for entry in entries(folder) if (match := _FOLDER.fullmatch(entry.name))}
    return [split for split in _SPLITS if split in found]


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_json(path, dict, 1 << 20) if path.is_file() else {}
    return found


def _properties(info: dict[str, Any], path: Path) -> list[str]:
    names = info.get("properties")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ZooError(f"{path} is missing, or has no list of properties, which say what props holds.")
    ours = [column_name(name) for name in names]
    if len({*ours, "sample", "permutation"}) != len(ours) + 2:
        raise ZooError(f"{path} has a property twice, or one called sample or permutation.")
    return ours


def _original(found: dict[str, Any], names: list[str]) -> list[str]:
    """The names of the properties, in the order of ``names``, as the info file had them."""
    theirs = found.get("info", {}).get("properties", names)
    table = {column_name(name): name for name in theirs}
    return [table.get(name, name) for name in names]


def _samples(folder: Path) -> list[tuple[int, Path]]:
    found = [(int(m["sample"]), e) for e in entries(folder) if (m := _FILE.fullmatch(e.name))]
    if not found:
        raise ZooError(f"{folder} has no samples: expected sample_{{i}}.pt.")
    return sorted(found)


def _sample(path: Path, properties: int) -> dict[str, np.ndarray]:
    content = read_torch_file(path)
    if not isinstance(content, dict) or set(content) != set(_ENTRIES):
        raise ZooError(f"{path} is no dictionary of {', '.join(_ENTRIES)}.")
    for name, kind in _ENTRIES.items():
        if not isinstance(content[name], np.ndarray) or content[name].dtype.kind != kind:
            raise ZooError(f"{path}: {name} is no tensor of its type.")
    tokens = content["w"]
    if tokens.ndim == 2:
        tokens = tokens[None]
    window = tokens.shape[1] if tokens.ndim == 3 else 0
    shapes = {name: content[name].shape for name in ("m", "p", "props")}
    if not tokens.size or shapes != {"m": tokens.shape[1:], "p": (window, 3), "props": (properties,)}:
        raise ZooError(
            f"{path}: w, m, p and props have the shapes {tokens.shape}, {shapes}, which do not fit."
        )
    return {**content, "w": tokens}


def _write_sample(destination: Path, rows: list[Any], names: list[str]) -> None:
    (first, split, weights) = rows[0]
    if [row["permutation"] for row, _, _ in rows] != list(range(len(rows))):
        raise ZooError(f"sample {first['sample']} has not the permutations 0, 1, … in a row.")
    for row, _, tensors in rows:
        same = all(np.array_equal(tensors[n], weights[n]) for n in ("mask", "position"))
        if not same or any(not _same(row[name], first[name]) for name in names):
            raise ZooError(
                f"sample {first['sample']} has permutations that differ in more than their tokens."
            )
    tokens = np.stack([tensors["tokens"] for _, _, tensors in rows])
    half = tokens.astype(np.float16)
    state = {
        "w": half if np.array_equal(half.astype(np.float32), tokens, equal_nan=True) else tokens,
        "m": weights["mask"] != 0,
        "p": weights["position"].astype(np.int16 if weights["position"].max() < 2**15 else np.int32),
        "props": _narrow(np.array([first[name] for name in names], dtype=np.float64)),
    }
    write_torch_file(destination / f"dataset_torch.{split}" / f"sample_{first['sample']}.pt", state)


def _narrow(values: np.ndarray) -> np.ndarray:
    narrow = values.astype(np.float32)
    return narrow if np.array_equal(narrow.astype(np.float64), values, equal_nan=True) else values


def _same(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)
