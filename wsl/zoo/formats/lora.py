"""Low-rank adapters as the PEFT library stores them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._json import dump_json
from wsl.zoo._layout import Architecture
from wsl.zoo.formats._architectures import traced
from wsl.zoo.formats._files import as_float, as_int, read_json
from wsl.zoo.formats._safetensors import read_safetensors, write_safetensors
from wsl.zoo.formats._state_folders import StateFolderFormat

_PREFIX = "base_model.model."
_TENSOR = re.compile(re.escape(_PREFIX) + r"(?P<target>[\w.\-]+)\.lora_(?P<side>[AB])\.weight")
_CONFIG, _FILE = "adapter_config.json", "adapter_model.safetensors"
_USUAL = {"format": "pt"}


class LoraFormat(StateFolderFormat):
    """Folders of one adapter each, ``adapter_model.safetensors`` and ``adapter_config.json``, and a CSV.

    The configuration becomes the column ``adapter_config``, as text, and from it ``base_model``, ``rank`` and
    ``alpha``. Networks are :class:`wsl.models.LowRankUpdates`: each rank has the symmetry of invertible
    matrices, which the product of the two factors does not see. Adapters with more than pairs of matrices
    (DoRA, embeddings, convolutions, full modules) are refused.

    Source: Hu et al. 2021 (arXiv:2106.09685).
    """

    name = "lora"
    summary = "PEFT LoRA adapters (adapter_model.safetensors, adapter_config.json) and a CSV of metadata"
    options = frozenset({"labels"})
    suffixes = (_FILE,)

    def load(self, path: Path) -> dict[str, np.ndarray]:
        tensors, metadata = read_safetensors(path)
        if metadata not in ({}, _USUAL):
            raise ZooError(
                f"{path} has metadata in its header ({', '.join(sorted(metadata))[:200]}), unlike adapters."
            )
        return tensors

    def beside(self, path: Path) -> dict[str, Any]:
        place = path.parent / _CONFIG
        config = read_json(place, dict, 1 << 20)
        base = config.get("base_model_name_or_path")
        return {
            "adapter_config": dump_json(str(place), config),
            "base_model": base if isinstance(base, str) else "",
            "rank": as_int(config.get("r"), f"{place}: r"),
            "alpha": as_float(config.get("lora_alpha"), f"{place}: lora_alpha"),
        }

    def infer(self, path: Path, tensors: Mapping[str, np.ndarray], number: int) -> Architecture:
        config = read_json(path.parent / _CONFIG, dict, 1 << 20)
        if (
            config.get("peft_type") != "LORA"
            or config.get("use_dora")
            or config.get("bias", "none") != "none"
        ):
            raise ZooError(
                "its configuration is not that of a plain LoRA adapter (peft_type, use_dora, bias)."
            )
        factors: dict[str, dict[str, tuple[int, ...]]] = {}
        for name, array in tensors.items():
            match = _TENSOR.fullmatch(name)
            if match is None or array.ndim != 2 or 0 in array.shape:
                raise ZooError(
                    f"{name} with the shape {array.shape} is no factor lora_A or lora_B of a linear layer."
                )
            factors.setdefault(match["target"], {})[match["side"]] = array.shape
        targets, scales = {}, {}
        for target, pair in factors.items():
            if set(pair) != {"A", "B"} or pair["A"][0] != pair["B"][1]:
                raise ZooError(f"the factors of {target} are missing, or have other ranks: {pair}.")
            rank = pair["A"][0]
            if rank != as_int(_pattern(config, "rank_pattern", target, config.get("r")), "the rank"):
                raise ZooError(f"the factors of {target} have the rank {rank}, and {_CONFIG} says another.")
            alpha = as_float(_pattern(config, "alpha_pattern", target, config.get("lora_alpha")), "the alpha")
            targets[target] = [rank, pair["A"][1], pair["B"][0]]
            scales[target] = alpha / (rank**0.5 if config.get("use_rslora") else rank)
        forward = ForwardDefinition("wsl.models:LowRankUpdates", {"targets": targets, "scale": scales})
        return traced(f"adapter-{number}", forward, *((2, inputs) for _, inputs, _ in targets.values()))

    def save(self, path: Path, tensors: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> None:
        if "adapter_config" not in record or not all(map(_TENSOR.fullmatch, tensors)):
            raise ZooError(
                "this format holds adapters: networks of lora_A and lora_B, with a column adapter_config."
            )
        write_safetensors(path, dict(tensors), _USUAL)
        (path.parent / _CONFIG).write_text(record["adapter_config"], encoding="utf-8")

    def file_name(self, row: int) -> str:
        return f"{row:06d}/{_FILE}"


def _pattern(config: Mapping[str, Any], key: str, target: str, default: Any) -> Any:
    """A value that the configuration may give for some targets, by the end of their names."""
    table = config.get(key)
    for name, value in table.items() if isinstance(table, dict) else ():
        if target == name or target.endswith(f".{name}"):
            return value
    return default
