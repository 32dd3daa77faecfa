"""Folders of safetensors files, as they are or in the layout of the Hugging Face hub."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._json import dump_json
from wsl.zoo.formats._files import read_json
from wsl.zoo.formats._safetensors import read_safetensors, write_safetensors
from wsl.zoo.formats._state_folders import StateFolderFormat

_USUAL = {"format": "pt"}


class SafetensorsFormat(StateFolderFormat):
    """``*.safetensors`` with a network each, and a CSV; see the base class.

    In the layout of the hub a network is a folder with ``model.safetensors`` and ``config.json``: the
    configuration becomes the column ``config``, as text. Networks cut into several files and files of
    adapters are refused.
    """

    name = "safetensors"
    summary = "a folder of safetensors files and a CSV of metadata; holds any zoo"
    suffixes = (".safetensors",)

    def load(self, path: Path) -> dict[str, np.ndarray]:
        if (path.parent / "adapter_config.json").exists():
            raise ZooError(f"{path} is an adapter of another network: import its folder as lora.")
        if (path.parent / f"{path.name}.index.json").exists() or list(
            path.parent.glob("*.safetensors.index.json")
        ):
            raise ZooError(f"{path} is a part of a network that is cut into several files: save it as one.")
        tensors, metadata = read_safetensors(path)
        if metadata not in ({}, _USUAL):
            raise ZooError(
                f"{path} has metadata in its header ({', '.join(sorted(metadata))[:200]}), which have no "
                "place in a zoo: put them into the CSV and save the file without them."
            )
        return tensors

    def save(self, path: Path, tensors: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> None:
        write_safetensors(path, dict(tensors), _USUAL)
        if path.name == "model.safetensors" and "config" in record:
            (path.parent / "config.json").write_text(record["config"], encoding="utf-8")

    def beside(self, path: Path) -> dict[str, Any]:
        place = path.parent / "config.json"
        if path.name != "model.safetensors" or not place.is_file():
            return {}
        return {"config": dump_json(str(place), read_json(place, dict, 1 << 20))}
