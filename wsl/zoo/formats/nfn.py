"""SIRENs of images as NFN publishes them, with further fits of the same images."""

import re
from collections.abc import Iterator
from pathlib import Path

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
from wsl.zoo.formats._files import entries, find_folder
from wsl.zoo.formats._networks import Network, batched, tensors_of
from wsl.zoo.formats._protocol import ImportOptions, Source, ZooFormat
from wsl.zoo.formats._sirens import SirenNames
from wsl.zoo.formats._torch_file import read_torch_file

_NAMES = SirenNames("net.{}.linear", "net.{}")
_FOLDER = re.compile(r"siren_(?P<dataset>mnist|fashion|cifar)_wts")
_CLASS = re.compile(r"randinit_smaller(?:_aug(?P<fit>\d{1,6}))?_(?P<label>\d{1,6})s")
_FILE = re.compile(r"net(?P<image>\d{1,9})\.pth")
_PIXELS = {"mnist": 28, "fashion": 28, "cifar": 32}
_FIRST_VAL, _FIRST_TEST = 45_000, 50_000
_KINDS: dict[str, type] = {"label": int, "image": int, "view": int, "dataset": str}
_RECIPE = {"method": "by image number", "val from": _FIRST_VAL, "test from": _FIRST_TEST, "column": "image"}


class NfnFormat(ZooFormat):
    """``siren_{dataset}_wts/randinit_smaller[_aug{k}]_{label}s/net{image}.pth``.

    ``_aug{k}`` are independent further fits of the same images: column ``view`` is 0 for the first fit and
    ``k + 1`` for these. Splits are by image, so that all fits of one stay together. Outputs are images in
    [-1, 1].

    Source: Zhou et al. 2023 (arXiv:2302.14040).
    """

    name = "nfn"
    summary = "SIRENs of MNIST, Fashion-MNIST and CIFAR-10 of NFN, with their further fits of each image"
    options = frozenset({"grid"})

    def read(self, source: Path, options: ImportOptions) -> Source:
        folder = find_folder(source, "a folder siren_…_wts of NFN", lambda f: bool(_FOLDER.fullmatch(f.name)))
        match = _FOLDER.fullmatch(folder.name)
        assert match is not None
        dataset = match["dataset"]
        files = _files(folder)
        first = folder / files[0][3]
        widths = _NAMES.widths(tensors_of(read_torch_file(first), str(first)), str(first))
        side = _PIXELS[dataset]
        architecture = siren(widths, 30.0, grid=options.grid or (side, side), output=(0.5, 0.5))

        def networks() -> Iterator[Network]:
            for image, view, label, path in files:
                where = str(folder / path)
                weights = _NAMES.read(read_torch_file(folder / path), widths, where)
                columns = {"label": label, "image": image, "view": view, "dataset": dataset}
                yield Network(architecture, weights, columns, split_of_image(image))

        recipes = dict.fromkeys(("train", "val", "test"), (_RECIPE, 0))
        provenance = {"format": self.name, "dataset": dataset, "networks": len(files)}
        return Source(batched(networks(), _KINDS), provenance, recipes)

    def write(self, zoo: Zoo, destination: Path) -> list[str]:
        check_forward(
            one_architecture(zoo), "Siren", w0=30.0, output_offset=0.5, output_scale=0.5, column_first=False
        )
        columns = Columns(zoo, {"label": "int", "image": "int", "view": "int", "dataset": "text"})
        datasets = sorted(set(columns.values["dataset"].tolist()))
        if len(datasets) != 1 or datasets[0] not in _PIXELS:
            raise ZooError(f"the column dataset holds {datasets}, expected one of {', '.join(_PIXELS)}.")
        ours = [split_of_image(image) for image in columns.values["image"].tolist()]
        notes = list(columns.notes)
        if (split_of_rows(zoo) != ours).any():
            notes.append(
                f"splits: this format has train below image {_FIRST_VAL}, val below {_FIRST_TEST}, then test."
            )
        for network in stored_networks(zoo):
            row = columns.row(network.row)
            fit = f"_aug{row['view'] - 1}" if row["view"] else ""
            folder = destination / f"siren_{datasets[0]}_wts" / f"randinit_smaller{fit}_{row['label']}s"
            write_torch_file(folder / f"net{row['image']}.pth", _NAMES.write(network.weights))
        return notes


def split_of_image(image: int) -> str:
    """The official split, by the number of the image."""
    return "train" if image < _FIRST_VAL else "val" if image < _FIRST_TEST else "test"


def _files(folder: Path) -> list[tuple[int, int, int, str]]:
    """Image, view, label and path of every network, in this order."""
    found: list[tuple[int, int, int, str]] = []
    labels: dict[int, int] = {}
    for child in entries(folder):
        match = _CLASS.fullmatch(child.name)
        if match is None or not child.is_dir():
            continue
        view = 0 if match["fit"] is None else int(match["fit"]) + 1
        for file in entries(child):
            if name := _FILE.fullmatch(file.name):
                image, label = int(name["image"]), int(match["label"])
                if labels.setdefault(image, label) != label:
                    raise ZooError(f"{file} has the label {label}, and another fit of it {labels[image]}.")
                found.append((image, view, label, f"{child.name}/{file.name}"))
    if not found:
        raise ZooError(f"{folder} has no networks: expected randinit_smaller_{{label}}s/net{{image}}.pth.")
    return sorted(found)
