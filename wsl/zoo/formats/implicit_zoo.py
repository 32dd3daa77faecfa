"""INRs of CIFAR-10 as Implicit-Zoo publishes them."""

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
    stored_networks,
    write_torch_file,
)  # fmt: skip
from wsl.zoo.formats._files import as_float, entries, find_folder, read_json
from wsl.zoo.formats._networks import Network, batched, tensors_of
from wsl.zoo.formats._protocol import ImportOptions, Source, ZooFormat
from wsl.zoo.formats._sirens import SirenNames
from wsl.zoo.formats._torch_file import read_torch_file

_NAMES = SirenNames("seq.{}", "seq.{}")
_FILE = re.compile(r"(?P<image>\d{6,9})_(?P<seed>\d{7,9})\.ckpt")
_QUALITY = re.compile(r"(?P<start>\d{1,9})_(?P<stop>\d{1,9})\.json")
_MEAN, _SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_KINDS: dict[str, type] = {"label": int, "image": int, "seed": int, "psnr": float}


class ImplicitZooFormat(ZooFormat):
    """``ckpts/{label}/{image}_{seed}.ckpt`` = ``{image_idx, params}``; PSNR in ``{start}_{stop}.json``.

    Networks are ``sin(30 (W x + b))``; outputs are images normalised by ImageNet's mean and spread of each
    channel; the first coordinate runs along the columns. Networks of three layers are those of CIFAR-10,
    rendered on 32x32 pixels; for others say the grid.

    Source: Ma et al. 2024 (arXiv:2406.17438).
    """

    name = "implicit_zoo"
    summary = "INRs of colour images of Implicit-Zoo (ckpts/{label}/{image}_{seed}.ckpt)"
    options = frozenset({"grid"})

    def read(self, source: Path, options: ImportOptions) -> Source:
        folder = find_folder(source, "a folder of Implicit-Zoo", lambda f: (f / "ckpts").is_dir())
        files = _files(folder / "ckpts")
        quality = _quality(folder)
        first = files[0][-1]
        widths = _NAMES.widths(_params(first, None), str(first))
        grid = options.grid or ((32, 32) if len(widths) == 4 and widths[-1] == 3 else None)
        notes = (
            []
            if grid
            else ["the number of pixels is unknown, so that images cannot be rendered: say the grid."]
        )
        output: tuple[Any, Any] = (_MEAN, _SPREAD) if widths[-1] == 3 else (0.0, 1.0)
        architecture = siren(widths, 30.0, grid=grid, output=output, column_first=True)

        def networks() -> Iterator[Network]:
            for image, seed, label, path in files:
                weights = _NAMES.read(_params(path, image), widths, str(path))
                columns = {
                    "label": label,
                    "image": image,
                    "seed": seed,
                    "psnr": quality.get(image, float("nan")),
                }
                yield Network(architecture, weights, columns)

        provenance = {"format": self.name, "networks": len(files)}
        return Source(batched(networks(), _KINDS), provenance, notes=notes)

    def write(self, zoo: Zoo, destination: Path) -> list[str]:
        check_forward(
            one_architecture(zoo),
            "Siren",
            w0=30.0,
            output_offset=_MEAN,
            output_scale=_SPREAD,
            column_first=True,
        )
        columns = Columns(
            zoo, {"label": "int", "image": "int", "seed": "int", "psnr": "float"}, {"psnr": float("nan")}
        )
        notes = [*columns.notes, *(["splits: this format has none."] if zoo.splits else [])]
        quality: dict[int, float] = {}
        for network in stored_networks(zoo):
            row = columns.row(network.row)
            name = f"{row['image']:06d}_{row['seed']:07d}.ckpt"
            path = destination / "ckpts" / f"{row['label']:02d}" / name
            write_torch_file(path, _NAMES.write(network.weights), "params", image_idx=row["image"])
            if (
                quality.setdefault(row["image"], row["psnr"]) not in (row["psnr"],)
                and row["psnr"] == row["psnr"]
            ):
                raise ZooError(f"image {row['image']} has several values of psnr, and this format keeps one.")
        known = {str(image): value for image, value in quality.items() if value == value}
        if known:
            place = destination / f"{min(quality)}_{max(quality) + 1}.json"
            place.write_text(json.dumps(known), encoding="utf-8")
        return notes


def _files(folder: Path) -> list[tuple[int, int, int, Path]]:
    """Image, seed, label and path of every network, in this order."""
    found = []
    for child in entries(folder):
        if not re.fullmatch(r"\d{2,9}", child.name) or not child.is_dir():
            continue
        for file in entries(child):
            if match := _FILE.fullmatch(file.name):
                found.append((int(match["image"]), int(match["seed"]), int(child.name), file))
    if not found:
        raise ZooError(f"{folder} has no networks: expected {{label}}/{{image}}_{{seed}}.ckpt.")
    return sorted(found)


def _params(path: Path, image: int | None) -> Any:
    content = read_torch_file(path)
    if not isinstance(content, dict) or set(content) != {"image_idx", "params"}:
        raise ZooError(f"{path} is no dictionary of image_idx and params.")
    if image is not None and (type(content["image_idx"]) is not int or content["image_idx"] != image):
        raise ZooError(f"{path} holds another image than its name says.")
    return tensors_of(content["params"], str(path))


def _quality(folder: Path) -> dict[int, float]:
    """Image -> PSNR."""
    found: dict[int, float] = {}
    for file in entries(folder):
        if _QUALITY.fullmatch(file.name):
            for image, value in read_json(file, dict).items():
                if not re.fullmatch(r"\d{1,9}", image):
                    raise ZooError(f"{file} has the key {image[:60]!r}, expected the number of an image.")
                found[int(image)] = as_float(value, f"{file}: image {image}")
    return found
