"""Neural fields of fit-a-nef and the Neural Field Arena: HDF5 files of flattened parameters."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._store import Zoo
from wsl.zoo.formats._export import Columns, one_architecture, split_of_rows
from wsl.zoo.formats._files import entries, find_folder, read_json
from wsl.zoo.formats._nef_fields import architecture_of, layout_of, split_of_index
from wsl.zoo.formats._nef_files import read_chunks, read_structure, write_fields
from wsl.zoo.formats._protocol import ImportOptions, Rows, Source, ZooFormat

_FILE = re.compile(r"nefs_(?P<start>\d{1,12})-(?P<stop>\d{1,12})\.hdf5")
_CONFIGS = ("nef.json", "nef_cfg.json")
_STATISTICS = "metadata.json (means and spreads of the parameters) is not kept: they follow from the weights."


class NefFormat(ZooFormat):
    """``nefs_{start}-{stop}.hdf5`` with ``params``, ``param_config`` and ``labels``, and ``nef_cfg.json``.

    The configuration may also be called ``nef.json``. Names and shapes come from ``param_config``; flax
    kernels are (in, out) and become (out, in). SIRENs run if ``omega_0`` is in the configuration or given;
    other fields are kept without a network. The dataset is the name of the folder above (``MNIST/SIREN``): it
    says pixels, normalisation and the official splits.

    Source: Papa et al. 2023 (arXiv:2312.10531).
    """

    name = "nef"
    summary = "neural fields of fit-a-nef and the Neural Field Arena (nefs_{a}-{b}.hdf5)"
    options = frozenset({"grid", "w0"})

    def read(self, source: Path, options: ImportOptions) -> Source:
        folder = find_folder(source, "a folder with nefs_{start}-{stop}.hdf5", lambda f: bool(_files(f)))
        files = _files(folder)
        dataset, config = folder.resolve().parent.name, _config(folder)
        layout, labels = read_structure(folder / files[0][2])
        architecture, notes = architecture_of(layout, dataset, config, options)
        if (folder / "metadata.json").exists():
            notes.append(_STATISTICS)

        def chunks() -> Iterator[Rows]:
            for start, stop, name in files:
                yield from read_chunks(folder / name, (start, stop), (layout, labels), architecture, dataset)

        recipe = {"method": "by network number", "dataset": dataset}
        recipes = dict.fromkeys(("train", "val", "test"), (recipe, 0))
        return Source(
            chunks(), {"format": self.name, "dataset": dataset, "networks": files[-1][1]}, recipes, notes
        )

    def write(self, zoo: Zoo, destination: Path) -> list[str]:
        architecture = one_architecture(zoo)
        names = [name for name in zoo.metadata if re.fullmatch(r"label(_\d+)?", name)]
        columns = Columns(zoo, {"dataset": "text", "index": "int"} | dict.fromkeys(names, "int"))
        datasets, index = sorted(set(columns.values["dataset"].tolist())), columns.values["index"]
        if len(datasets) != 1 or not re.fullmatch(r"\w[\w.\-]{0,60}", datasets[0]):
            raise ZooError(f"the column dataset holds {datasets[:5]}, expected one name of a dataset.")
        if not np.array_equal(index, np.arange(index[0], index[0] + len(zoo))):
            raise ZooError("the column index does not count the networks one by one, as this format does.")
        layout, config = layout_of(architecture)
        expected = architecture_of(layout, datasets[0], config, ImportOptions())[0]
        if expected.spec != architecture.spec or expected.forward != architecture.forward:
            raise ZooError(
                f"networks of {datasets[0]} in this format run with {expected.forward.to_dict()}, and those "
                f"of the zoo with {architecture.forward.to_dict()}."
            )
        notes = list(columns.notes)
        if (split_of_rows(zoo) != split_of_index(index, datasets[0])).any():
            notes.append(f"splits: those of this format follow from the numbers of {datasets[0]}'s networks.")
        folder = destination / datasets[0] / config["nef_type"]
        folder.mkdir(parents=True)
        (folder / _CONFIGS[1]).write_text(json.dumps(config), encoding="utf-8")
        labels = np.stack([columns.values[name] for name in names], axis=1) if names else None
        write_fields(folder / f"nefs_{index[0]}-{index[0] + len(zoo)}.hdf5", zoo, layout, labels)
        return notes


def _files(folder: Path) -> list[tuple[int, int, str]]:
    """First network, network after the last, and name of each file; raises ZooError if they overlap."""
    found = sorted(
        (int(m["start"]), int(m["stop"]), entry.name)
        for entry in entries(folder)
        if (m := _FILE.fullmatch(entry.name))
    )
    for (_, stop, one), (start, _, other) in pairwise(found):
        if start < stop:
            raise ZooError(f"{folder}: {one} and {other} hold some of the same networks.")
    return found


def _config(folder: Path) -> dict[str, Any]:
    for name in _CONFIGS:
        if (folder / name).is_file():
            content: dict[str, Any] = read_json(folder / name, dict)
            inner = content.get("params")
            return content | (inner if isinstance(inner, dict) else {})
    return {}
