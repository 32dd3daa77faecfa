"""Neural fields of fit-a-nef: the layout of their parameters, and the datasets that say how they run."""

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._forward import UNKNOWN
from wsl.zoo._layout import Architecture
from wsl.zoo.formats._architectures import fixed, shapes_of, siren
from wsl.zoo.formats._files import as_float, parse_json
from wsl.zoo.formats._protocol import ImportOptions

Layout = list[tuple[str, tuple[int, ...]]]
_LAYER = re.compile(r"(?:kernel_net_(?P<number>\d{1,3})\.linear|output_linear)\.(?P<kind>bias|kernel)")
_DATASETS: dict[str, tuple[int, Any, Any]] = {  # pixels of a side, mean and spread of each channel
    "MNIST": (28, 0.13066047, 0.30810782),
    "CIFAR10": (32, (0.49186882, 0.48265392, 0.44717726), (0.24697122, 0.24338895, 0.2615926)),
    "MicroImageNet": (
        64,
        (0.4643375754, 0.4339415729, 0.3821317673),
        (0.1894976445, 0.1870717479, 0.2144598670),
    ),
}
_SPLITS = {  # the first network of val and of test, and their number
    "MNIST": (55_000, 60_000, 70_000),
    "CIFAR10": (45_000, 50_000, 60_000),
    "ShapeNet": (27_840, 31_320, 34_800),
    "MicroImageNet": (45_000, 50_000, 60_000),
}


def parse_layout(text: bytes, path: Path) -> Layout:
    """The entry ``param_config``: names and shapes; raises ZooError for anything else."""
    layout: Layout = []
    for entry in parse_json(text, f"{path}: param_config", list):
        fine = (
            isinstance(entry, list)
            and len(entry) == 2
            and isinstance(entry[0], str)
            and isinstance(entry[1], list)
        )
        if not fine or not all(type(n) is int and 0 < n < 2**31 for n in entry[1]):
            raise ZooError(f"{path}: param_config is no list of names and shapes.")
        layout.append((entry[0], tuple(entry[1])))
    if len({name for name, _ in layout}) != len(layout) or not layout:
        raise ZooError(f"{path}: param_config has no parameters, or a name twice.")
    return layout


def architecture_of(
    layout: Layout, dataset: str, config: dict[str, Any], options: ImportOptions
) -> tuple[Architecture, list[str]]:
    """The architecture of fields with some layout, and what is not known of it: one sentence each.

    Raises:
        ZooError: the layout is no chain of layers, or contradicts the configuration.
    """
    shapes = dict(layout)
    if config.get("nef_type", config.get("name", "SIREN")) != "SIREN" or not all(
        map(_LAYER.fullmatch, shapes)
    ):
        notes = ["these fields are no SIRENs: they are kept without a network, and cannot be run."]
        return fixed("nef", shapes), notes
    hidden = len(shapes) // 2 - 1
    layers = [f"kernel_net_{i}.linear" for i in range(hidden)] + ["output_linear"]
    if hidden < 1 or set(shapes) != {f"{layer}.{kind}" for layer in layers for kind in ("bias", "kernel")}:
        raise ZooError(f"param_config has the parameters {', '.join(shapes)[:300]}, which are no SIREN's.")
    kernels = [shapes[f"{layer}.kernel"] for layer in layers]
    chained = all(len(k) == 2 for k in kernels) and all(a[1] == b[0] for a, b in pairwise(kernels))
    if not chained or any(shapes[f"{layer}.bias"] != k[1:] for layer, k in zip(layers, kernels, strict=True)):
        raise ZooError(f"param_config has kernels {kernels}, which do not follow one another as layers do.")
    if "num_layers" in config and config["num_layers"] != hidden + 1:
        raise ZooError(
            f"param_config has {hidden + 1} layers, and the configuration {str(config['num_layers'])[:60]}."
        )
    widths = [kernels[0][0], *(kernel[1] for kernel in kernels)]
    w0 = as_float(config["omega_0"], "omega_0") if "omega_0" in config else options.w0
    notes = (
        []
        if w0 is not None
        else ["the configuration has no omega_0, so these SIRENs cannot be run: say it with --w0."]
    )
    side, offset, scale = _DATASETS.get(dataset, (0, 0.0, 1.0))
    if isinstance(offset, tuple) and len(offset) != widths[-1]:
        offset, scale = 0.0, 1.0
    grid = options.grid or ((side, side) if side and widths[0] == 2 else None)
    return siren(widths, w0, grid=grid, output=(offset, scale), column_first=True), notes


def as_tensors(layout: Layout, block: np.ndarray, architecture: Architecture) -> dict[str, np.ndarray]:
    """Rows of flattened parameters as tensors of torch: the kernels of SIRENs become (out, in)."""
    tensors, place = {}, 0
    for name, shape in layout:
        size = int(np.prod(shape))
        ours = _our_name(name, len(layout) // 2) if name not in architecture.spec.tensors else name
        values = block[:, place : place + size].reshape(-1, *shape)
        tensors[ours] = values if ours == name else values.swapaxes(1, -1)
        place += size
    return tensors


def flatten(layout: Layout, weights: Mapping[str, np.ndarray]) -> np.ndarray:
    """The inverse of :func:`as_tensors` for one network: ``(P,)``."""
    pieces = []
    for name, _ in layout:
        values = weights[name] if name in weights else weights[_our_name(name, len(layout) // 2)].T
        pieces.append(values.reshape(-1))
    return np.concatenate(pieces)


def _our_name(name: str, layers: int) -> str:
    match = _LAYER.fullmatch(name)
    assert match is not None, name
    layer = layers - 1 if match["number"] is None else int(match["number"])
    return f"layers.{layer}.{'bias' if match['kind'] == 'bias' else 'weight'}"


def split_of_index(index: np.ndarray, dataset: str) -> np.ndarray:
    """The official split of each network, by its number; empty for datasets and numbers without one."""
    if dataset not in _SPLITS:
        return np.full(len(index), "", dtype="U5")
    return np.array(["train", "val", "test", ""])[np.searchsorted(_SPLITS[dataset], index, side="right")]


def layout_of(architecture: Architecture) -> tuple[Layout, dict[str, Any]]:
    """The layout of a zoo's networks in fit-a-nef's order, biases first, and their configuration."""
    shapes = shapes_of(architecture)
    layers = len(shapes) // 2
    if set(shapes) != {f"layers.{i}.{kind}" for i in range(layers) for kind in ("weight", "bias")}:
        return list(shapes.items()), {"nef_type": "unknown"}
    layout: Layout = []
    for i in range(layers):
        stem = "output_linear" if i == layers - 1 else f"kernel_net_{i}.linear"
        layout += [(f"{stem}.bias", shapes[f"layers.{i}.bias"])]
        layout += [(f"{stem}.kernel", shapes[f"layers.{i}.weight"][::-1])]
    config: dict[str, Any] = {"nef_type": "SIREN", "num_layers": layers, "hidden_dim": layout[0][1][0]}
    if architecture.forward.factory != UNKNOWN:
        config["omega_0"] = architecture.forward.arguments.get("w0")
    return layout, config
