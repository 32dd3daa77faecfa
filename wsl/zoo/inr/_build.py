"""Builds a zoo of INRs: one network, or several independent ones, for every signal of a source."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

import wsl
from wsl.models import coordinate_grid
from wsl.trace import trace
from wsl.zoo._build import ShardedBuild
from wsl.zoo._errors import ZooError
from wsl.zoo._executors import ExecutorName, executor_of
from wsl.zoo._layout import Architecture
from wsl.zoo._shards import even_shards
from wsl.zoo._splits import Split, check_splits, split_by_model
from wsl.zoo._store import Zoo
from wsl.zoo._workers import Made, Report, write_pending
from wsl.zoo.images import ImageSource
from wsl.zoo.inr._architecture import InrArchitecture, SirenConfig
from wsl.zoo.inr._fit import fit_networks
from wsl.zoo.inr._meta import MetaRecipe, learn_initialisation
from wsl.zoo.inr._points import Points
from wsl.zoo.inr._progress import FitProgress
from wsl.zoo.inr._recipe import FitRecipe
from wsl.zoo.inr._signals import Signals, signals_of
from wsl.zoo.inr._stack import NetworkStack
from wsl.zoo.shapes import ShapeSource
from wsl.zoo.training import finite_rows

_SIREN, _RECIPE = SirenConfig(), FitRecipe()
_SPLITS = {"train": 0.7, "val": 0.1, "test": 0.2}
# Activations of one stack: large enough for full speed, small enough for the processor's cache. Part of the
# result's rounding, so it is a constant.
_STACK_VALUES = 2**20
_INITIALISATIONS = ("independent", "shared", "meta")


@dataclass(frozen=True, eq=False)
class _Plan:
    """Everything that decides what a row holds."""

    signals: Signals
    architecture: InrArchitecture
    recipe: FitRecipe
    seed: int
    initialisation: str
    meta: MetaRecipe | None
    learned_from: np.ndarray | None
    """Numbers of the signals that initial weights are learned from."""
    learned: Tensor | None = None
    """Learned initial weights ``(P,)``."""

    def seed_of(self, signal: int, view: int) -> int:
        """Seed of one network's initial weights, whatever else is built with it."""
        words = [self.seed, signal, view] if self.initialisation == "independent" else [self.seed]
        return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> 1)

    def ready(self) -> "_Plan":
        """With learned initial weights, where there are any to learn."""
        if self.meta is None or self.learned_from is None:
            return self
        learned = learn_initialisation(
            self.signals, self.learned_from, self.architecture, self.recipe, self.meta, self.seed_of(0, 0)
        )
        return replace(self, learned=learned)

    def initial_rows(self, seeds: np.ndarray) -> Tensor:
        """``(len(seeds), P)``, of a plan that is ready."""
        if self.learned is not None:
            return self.learned.repeat(len(seeds), 1)
        inputs, channels = len(self.signals.grid), self.signals.channels
        return self.architecture.initial_rows(seeds.tolist(), inputs, channels)

    def provenance(self, views: int) -> dict[str, Any]:
        """What identifies the build."""
        learned = {}
        if self.meta is not None and self.learned_from is not None:
            numbers = hashlib.sha256(self.learned_from.astype("<i8").tobytes()).hexdigest()[:32]
            found = {"signals": len(self.learned_from), "identity": numbers}
            learned = {"meta": {"algorithm": "Reptile", **asdict(self.meta), **found}}
        return {
            "builder": "wsl.zoo.inr.build_inr_zoo",
            "version": wsl.__version__,
            "source": self.signals.origin,
            "label_names": self.signals.label_names,
            "architecture": {"class": type(self.architecture).__name__, **vars(self.architecture)},
            "recipe": asdict(self.recipe),
            "views": views,
            "initialisation": self.initialisation,
            **learned,
            "seed": self.seed,
        }


def build_inr_zoo(
    out: str | os.PathLike[str],
    source: ImageSource | ShapeSource,
    architecture: InrArchitecture = _SIREN,
    recipe: FitRecipe = _RECIPE,
    views: int = 1,
    initialisation: Literal["independent", "shared", "meta"] = "independent",
    meta: MetaRecipe | None = None,
    splits: Mapping[str, float] | None = None,
    limit: int | None = None,
    seed: int = 0,
    shard_rows: int = 256,
    dtype: str = "float32",
    executor: ExecutorName = "local",
    address: str | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Zoo:
    """Fit INRs to images or solids and store them; called again, an interrupted build goes on.

    Row ``view * signals + signal``. Columns: ``image`` or ``shape`` (its number), ``view``, ``label`` (if the
    source has labels), further metadata of the source, ``seed`` (of the initial weights), ``steps``,
    ``diverged`` (1 where weights are not finite: such networks are stored like all others), and the quality:
    of images ``psnr`` (dB, on the pixels) and ``psnr_offgrid`` (half a pixel between them, against bilinear
    interpolation), of solids ``iou``, ``surface_accuracy``, ``uniform_error`` and ``surface_error`` at points
    that the fit did not see. The result does not depend on the executor, on ``workers`` or on interruptions.

    Args:
        out: the zoo file to make; never overwritten.
        source: the images or solids.
        architecture: of the networks; :class:`SirenConfig` by default.
        recipe: how they are fitted.
        views: networks for each signal, which differ in their initial weights.
        initialisation: initial weights drawn for each network (``independent``), drawn once for all
            (``shared``), or learned from the signals of the split ``train``, so that few steps fit (``meta``;
            arXiv:2012.02189). The latter two need ``views`` 1. Tasks on such zoos are far easier, and
            networks of other initial weights are foreign to them.
        meta: how initial weights are learned; only with ``initialisation`` ``meta``, and by default
            :class:`MetaRecipe`.
        splits: share of the signals for each split; the views of a signal stay together. By default 70 %
            train, 10 % val and 20 % test.
        limit: use this many signals at most: the first, or of images sorted by class each class's share.
        seed: of initial weights and splits.
        shard_rows: networks in a shard, which is what an interruption loses at most for each worker.
        dtype: stored type, ``float32`` or ``float16``.
        executor: where shards are fitted: ``local``, in threads of this process, or ``ray``, a Ray cluster.
        address: ``HOST:PORT`` of the cluster's head; by default ``RAY_ADDRESS``, or the one that this machine
            belongs to.
        workers: shards that are fitted at once; by default one for each processor core of this process, or of
            the cluster.
        progress: show a progress bar on stderr.

    Raises:
        ZooError: an unusable source, arguments or ``out``; nothing is written then.
    """
    machines = executor_of(executor, address, workers)
    signals = signals_of(source, limit)
    if seed < 0:
        raise ZooError(f"seed is {seed}, expected 0 or more.")
    _check_initialisation(initialisation, meta, views)
    groups = np.tile(np.arange(signals.count), views)
    parts = split_by_model(groups, dict(_SPLITS if splits is None else splits), seed, column=signals.noun)
    check_splits(parts, {signals.noun: groups}, len(groups))
    learned_from = None
    if initialisation == "meta":
        meta, learned_from = meta or MetaRecipe(), _training_signals(parts)
    plan = _Plan(signals, architecture, recipe, seed, initialisation, meta, learned_from)
    forward = architecture.forward_definition(signals.grid, signals.channels, clipped=signals.clipped)
    spec = trace(forward.build(), coordinate_grid((2,) * len(signals.grid)))
    shards = even_shards(len(groups), shard_rows)
    with ShardedBuild(
        out,
        architectures=[Architecture(forward.factory.partition(":")[2], spec, forward)],
        shards=shards,
        provenance=plan.provenance(views),
        dtype=dtype,
    ) as build:
        if build.pending:
            plan = plan.ready()
        missing = sum(len(build.rows_of(shard)) for shard in build.pending)
        with FitProgress(len(groups), len(groups) - missing, shown=progress) as bar:
            rows = [build.rows_of(i) for i in range(len(shards))]
            maker = _ShardMaker(plan, list(spec.tensors), rows, dtype)
            write_pending(build, maker, machines, bar.advance)
        return build.pack(parts)


def _check_initialisation(initialisation: str, meta: MetaRecipe | None, views: int) -> None:
    if initialisation not in _INITIALISATIONS:
        raise ZooError(
            f"initialisation is {initialisation!r}, expected one of {', '.join(_INITIALISATIONS)}."
        )
    if views < 1 or (initialisation != "independent" and views > 1):
        raise ZooError(
            f"views is {views} with {initialisation} initialisation; expected at least 1, and just 1 unless "
            "it is independent: from the same initial weights all views would come out the same."
        )
    if meta is not None and initialisation != "meta":
        raise ZooError(
            f"meta is given, but initialisation is {initialisation}. Leave meta out, or set that to meta."
        )


def _training_signals(parts: Mapping[str, Split]) -> np.ndarray:
    if "train" not in parts:
        raise ZooError(
            f"Initial weights are learned from the split train, but the splits are {', '.join(parts)}. "
            "Name one of them train, or choose another initialisation."
        )
    return parts["train"].indices


@dataclass(frozen=True, eq=False)
class _ShardMaker:
    """Fits the rows of a shard."""

    plan: _Plan
    names: list[str]
    """Of the tensors."""
    rows: list[range]
    """Of each shard."""
    dtype: str
    """In which weights are stored."""

    def __call__(self, shard: int, report: Report) -> Made:
        return _fit_rows(self.plan, self.names, self.rows[shard], self.dtype, report)


def _fit_rows(plan: _Plan, names: list[str], rows: range, dtype: str, report: Report) -> Made:
    """Weights, by ``names``, and metadata of some rows, fitted in stacks of a fixed size."""
    signals, architecture = plan.signals, plan.architecture
    stack = architecture.stack(len(signals.grid), signals.channels)
    size = max(1, _STACK_VALUES // (max(stack.widths) * signals.step_points))
    fitted: list[Tensor] = []
    columns: dict[str, list[np.ndarray]] = {}
    for start in range(0, len(rows), size):
        view, number = np.divmod(np.array(rows[start : start + size]), signals.count)
        seeds = np.array([plan.seed_of(int(i), int(v)) for i, v in zip(number, view, strict=True)])
        targets = signals.targets(number, between=plan.recipe.half_pixel_phases).map(architecture.outputs_of)
        initial, scale = plan.initial_rows(seeds), architecture.output_scale
        fit = fit_networks(stack, initial, targets, plan.recipe, output_scale=scale)
        quality = signals.quality(number, partial(_run, architecture, stack, fit.rows))
        found = {
            **signals.columns(number),
            "view": view,
            "seed": seeds,
            "steps": fit.steps.numpy(),
            "diverged": (~finite_rows(fit.rows, dtype)).astype(np.int64),
            **quality,
        }
        for column, values in found.items():
            columns.setdefault(column, []).append(values)
        fitted.append(fit.rows)
        report(quality)
    weights = dict(zip(names, stack.tensors(torch.cat(fitted)), strict=True))
    return weights, {column: np.concatenate(values) for column, values in columns.items()}


def _run(architecture: InrArchitecture, stack: NetworkStack, rows: Tensor, points: Points) -> Tensor:
    """Signals of networks at points: ``(M, C, points)``."""
    return stack.outputs(rows, points) * architecture.output_scale + architecture.output_offset
