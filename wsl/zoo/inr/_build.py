"""Builds a zoo of INRs: one network, or several independent ones, for every image of a source."""

import os
from collections.abc import Mapping
from concurrent.futures import CancelledError
from dataclasses import asdict, dataclass
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import Tensor

import wsl
from wsl.models import coordinate_grid
from wsl.trace import trace
from wsl.zoo._build import ShardedBuild
from wsl.zoo._errors import ZooError
from wsl.zoo._layout import Architecture
from wsl.zoo._shards import even_shards
from wsl.zoo._splits import check_splits, split_by_model
from wsl.zoo._store import Zoo
from wsl.zoo._workers import Made, write_pending
from wsl.zoo.images import ImageSet, ImageSource
from wsl.zoo.inr._architecture import InrArchitecture, SirenConfig
from wsl.zoo.inr._fit import fit_networks
from wsl.zoo.inr._points import phase_axes, phase_values, psnr
from wsl.zoo.inr._progress import FitProgress
from wsl.zoo.inr._recipe import FitRecipe

_SIREN, _RECIPE = SirenConfig(), FitRecipe()
_SPLITS = {"train": 0.7, "val": 0.1, "test": 0.2}
# Activations of one stack: large enough for full speed, small enough for the processor's cache. Part of the
# result's rounding, so it is a constant.
_STACK_VALUES = 2**20


@dataclass(frozen=True, eq=False)
class _Plan:
    """Everything that decides what a row holds."""

    images: ImageSet
    architecture: InrArchitecture
    recipe: FitRecipe
    seed: int
    shared_initialisation: bool

    def seed_of(self, image: int, view: int) -> int:
        """Seed of one network's initial weights, whatever else is built with it."""
        words = [self.seed] if self.shared_initialisation else [self.seed, image, view]
        return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> 1)


def build_inr_zoo(
    out: str | os.PathLike[str],
    source: ImageSource,
    architecture: InrArchitecture = _SIREN,
    recipe: FitRecipe = _RECIPE,
    views: int = 1,
    shared_initialisation: bool = False,
    splits: Mapping[str, float] | None = None,
    limit: int | None = None,
    seed: int = 0,
    shard_rows: int = 256,
    dtype: str = "float32",
    workers: int | None = None,
    progress: bool = True,
) -> Zoo:
    """Fit INRs to images and store them; an interrupted build goes on where it stopped when called again.

    Row ``view * images + image``. Columns: ``image``, ``view``, ``label`` (if the source has labels),
    ``seed`` (of the initial weights), ``steps``, ``psnr`` (dB, on the pixels) and ``psnr_offgrid`` (half a
    pixel between them, against bilinear interpolation). The result does not depend on ``workers`` or on
    interruptions.

    Args:
        out: the zoo file to make; never overwritten.
        source: the images.
        architecture: of the networks; :class:`SirenConfig` by default.
        recipe: how they are fitted.
        views: networks for each image, which differ in their initial weights.
        shared_initialisation: start all networks from the same weights. Tasks on such zoos are far easier,
            and networks of other initial weights are foreign to them. Needs ``views`` 1.
        splits: share of the images for each split; the views of an image stay together. By default 70 %
            train, 10 % val and 20 % test.
        limit: use the first images only.
        seed: of initial weights and splits.
        shard_rows: networks in a shard, which is what an interruption loses at most for each worker.
        dtype: stored type, ``float32`` or ``float16``.
        workers: threads that fit shards; by default the processor cores that this process may use.
        progress: show a progress bar on stderr.

    Raises:
        ZooError: unusable images, arguments or ``out``; nothing is written then.
    """
    if views < 1 or (shared_initialisation and views > 1):
        raise ZooError(
            f"views is {views} with shared_initialisation {shared_initialisation}; expected at least 1, and "
            "just 1 for shared initial weights, from which all views would come out the same."
        )
    if seed < 0:
        raise ZooError(f"seed is {seed}, expected 0 or more.")
    images = source.load().first(limit)
    plan = _Plan(images, architecture, recipe, seed, shared_initialisation)
    groups = np.tile(np.arange(len(images)), views)
    parts = split_by_model(groups, dict(_SPLITS if splits is None else splits), seed, column="image")
    check_splits(parts, {"image": groups}, len(groups))
    forward = architecture.forward_definition(images.grid, images.channels)
    spec = trace(forward.build(), coordinate_grid(images.grid))
    with ShardedBuild(
        out,
        architectures=[Architecture(forward.factory.partition(":")[2], spec, forward)],
        shards=even_shards(len(groups), shard_rows),
        provenance=_provenance(plan, source, views),
        dtype=dtype,
    ) as build:
        missing = sum(len(build.rows_of(shard)) for shard in build.pending)
        with FitProgress(len(groups), len(groups) - missing, shown=progress) as bar:

            def make(shard: int, stop: Event) -> Made:
                return _fit_rows(plan, list(spec.tensors), build.rows_of(shard), bar, stop)

            write_pending(build, make, workers)
        return build.pack(parts)


def _fit_rows(
    plan: _Plan, names: list[str], rows: range, bar: FitProgress, stop: Event
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights, by ``names``, and metadata of some rows, fitted in stacks of a fixed size."""
    images, channels = plan.images, plan.images.channels
    scale = plan.architecture.output_scale
    stack = plan.architecture.stack(channels)
    size = max(1, _STACK_VALUES // (max(stack.widths) * images.grid[0] * images.grid[1]))
    fitted: list[Tensor] = []
    columns: dict[str, list[np.ndarray]] = {}
    for start in range(0, len(rows), size):
        if stop.is_set():
            raise CancelledError
        numbers = np.array(rows[start : start + size])
        view, image = np.divmod(numbers, len(images))
        seeds = np.array([plan.seed_of(int(i), int(v)) for i, v in zip(image, view, strict=True)])
        wanted = (images.signals(image) - plan.architecture.output_offset) / scale
        initial = plan.architecture.initial_rows(seeds.tolist(), channels)
        fit = fit_networks(stack, initial, wanted, plan.recipe, output_scale=scale)
        quality = {}
        for column, phase in (("psnr", (0, 0)), ("psnr_offgrid", (1, 1))):
            outputs = stack.outputs(fit.rows, phase_axes(images.grid, phase))
            errors = (outputs - phase_values(wanted, phase)).square().mean((1, 2))
            quality[column] = psnr(errors * scale**2).numpy()
        found = {"image": image, "view": view, "seed": seeds, "steps": fit.steps.numpy(), **quality}
        if images.labels is not None:
            found["label"] = images.labels[image]
        for column, values in found.items():
            columns.setdefault(column, []).append(values)
        fitted.append(fit.rows)
        bar.advance(quality["psnr"], quality["psnr_offgrid"])
    weights = dict(zip(names, stack.tensors(torch.cat(fitted)), strict=True))
    return weights, {column: np.concatenate(values) for column, values in columns.items()}


def _provenance(plan: _Plan, source: ImageSource, views: int) -> dict[str, Any]:
    images = plan.images
    return {
        "builder": "wsl.zoo.inr.build_inr_zoo",
        "version": wsl.__version__,
        "source": {"class": type(source).__name__, "images": len(images), "identity": images.identity},
        "label_names": list(images.label_names),
        "architecture": {"class": type(plan.architecture).__name__, **vars(plan.architecture)},
        "recipe": asdict(plan.recipe),
        "views": views,
        "initialisation": "shared" if plan.shared_initialisation else "independent",
        "seed": plan.seed,
    }
