"""Builds a zoo of classifiers: populations whose networks differ in their hyperparameters."""

import os
from collections.abc import Mapping
from concurrent.futures import CancelledError
from dataclasses import asdict, dataclass
from threading import Event
from typing import Any

import numpy as np
import torch

import wsl
from wsl.spec import SpecError
from wsl.trace import TraceError, trace
from wsl.zoo._build import ShardedBuild
from wsl.zoo._errors import ZooError
from wsl.zoo._layout import STORED_DTYPES, Architecture
from wsl.zoo._shards import Shard
from wsl.zoo._splits import check_splits, split_by_model
from wsl.zoo._store import Zoo
from wsl.zoo._workers import Made, write_pending
from wsl.zoo.classifiers._architecture import ClassifierArchitecture, SmallCnns, Task
from wsl.zoo.classifiers._data import LabelledImages, labelled_images
from wsl.zoo.classifiers._plan import NetworkPlan, draw_plans, stacks_of
from wsl.zoo.classifiers._recipe import TrainingRecipe
from wsl.zoo.classifiers._stack import ClassifierStack
from wsl.zoo.classifiers._train import Checkpoint, evaluate, network_images, train_networks
from wsl.zoo.images import ImageSet, ImageSource
from wsl.zoo.training import TrainProgress

_RECIPE = TrainingRecipe()
_SPLITS = {"train": 0.7, "val": 0.1, "test": 0.2}
_TESTED_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class _Population:
    """Everything that decides what a row holds."""

    train: LabelledImages
    test: LabelledImages
    task: Task
    architecture: ClassifierArchitecture
    stacks: list[list[NetworkPlan]]
    evaluated: int | None
    dtype: str


def build_classifier_zoo(
    out: str | os.PathLike[str],
    source: ImageSource,
    networks: int,
    test_source: ImageSource | None = None,
    architecture: ClassifierArchitecture | None = None,
    recipe: TrainingRecipe = _RECIPE,
    evaluated: int | None = None,
    splits: Mapping[str, float] | None = None,
    limit: int | None = None,
    seed: int = 0,
    dtype: str = "float32",
    workers: int | None = None,
    progress: bool = True,
) -> Zoo:
    """Train classifiers and store their checkpoints; called again, an interrupted build goes on.

    A row is a checkpoint. Columns: ``model``, ``step`` (the epoch), ``updates`` (optimizer steps so far),
    ``train_loss``, ``train_accuracy`` (on the network's own images and labels), ``test_loss``,
    ``test_accuracy``, ``diverged``, ``train_images``, those of the architecture, and all hyperparameters.
    ``diverged`` is 1 where weights or a loss are not finite: such networks are stored like all others. Images
    for which a network's outputs are not finite count as wrong. Rows are ordered by the networks that train
    together, then by network and epoch. The result does not depend on ``workers`` or on interruptions.

    Args:
        out: the zoo file to make; never overwritten.
        source: labelled images to train on. All values are brought to [-1, 1].
        networks: how many to train.
        test_source: labelled images to test on; by default a fifth of ``source``, drawn by ``seed``.
        architecture: of the networks; by default :class:`SmallCnns`.
        recipe: how they are trained.
        evaluated: images at most for each loss and accuracy; by default all.
        splits: share of the networks for each split. By default 70 % train, 10 % val and 20 % test.
        limit: use the first images of each source only.
        seed: of everything that is drawn. A network depends on it and on its own number.
        dtype: stored type, ``float32`` or ``float16``.
        workers: threads that train networks; by default the processor cores that this process may use.
        progress: show a progress bar on stderr.

    Raises:
        ZooError: unusable images, arguments or ``out``; nothing is written then.
    """
    if networks < 1 or seed < 0 or (evaluated is not None and evaluated < 1):
        raise ZooError(
            f"networks is {networks}, seed {seed} and evaluated {evaluated}; expected at least 1, 0 and 1."
        )
    # Not the default itself: on the command line, another class would take over its arguments.
    architecture = SmallCnns() if architecture is None else architecture
    given = source.load().first(limit)
    tested = None if test_source is None else test_source.load().first(limit)
    train, test, task = _images(given, tested, seed)
    plans = draw_plans(networks, architecture, recipe, task, seed)
    stacks = stacks_of(plans, len(train))
    population = _Population(train, test, task, architecture, stacks, evaluated, dtype)
    architectures, shards = _architectures(population)
    models = np.array([plan.model for stack in stacks for plan in stack for _ in plan.stored_epochs])
    parts = split_by_model(models, dict(_SPLITS if splits is None else splits), seed, column="model")
    check_splits(parts, {"model": models}, len(models))
    provenance = {
        "builder": "wsl.zoo.classifiers.build_classifier_zoo",
        "version": wsl.__version__,
        "source": _identity(source, given),
        "test_source": None if test_source is None or tested is None else _identity(test_source, tested),
        "label_names": list(given.label_names),
        "architecture": {"class": type(architecture).__name__, **vars(architecture)},
        "recipe": asdict(recipe),
        "networks": networks,
        "evaluated": evaluated,
        "seed": seed,
    }
    with ShardedBuild(
        out, architectures=architectures, shards=shards, provenance=provenance, dtype=dtype
    ) as build:
        work = [sum(plan.images_seen(len(train)) for plan in stack) for stack in stacks]
        pending = build.pending
        done = sum(work) - sum(work[shard] for shard in pending)
        stored = networks - sum(len(stacks[shard]) for shard in pending)
        with TrainProgress(
            sum(work), done, networks, stored, unit="images", quality=_right_words, shown=progress
        ) as bar:

            def make(shard: int, stop: Event) -> Made:
                return _made(population, stacks[shard], bar, stop)

            write_pending(build, make, workers)
        return build.pack(parts)


def _images(
    given: ImageSet, tested: ImageSet | None, seed: int
) -> tuple[LabelledImages, LabelledImages, Task]:
    labels = [images.labels for images in (given, tested) if images is not None and images.labels is not None]
    classes = 1 + max((int(array.max()) for array in labels), default=0)
    train = labelled_images(given, classes, "training")
    if tested is None:
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(train)))
        count = round(_TESTED_SHARE * len(train))
        if not 0 < count < len(train):
            raise ZooError(f"{len(train)} images are too few to train on some and to test on others.")
        train, test = (
            LabelledImages(train.pixels[rows], train.labels[rows]) for rows in (order[count:], order[:count])
        )
    else:
        test = labelled_images(tested, classes, "test")
    if train.pixels.shape[1:] != test.pixels.shape[1:]:
        raise ZooError(
            f"The training images are {tuple(train.pixels.shape[1:])} and the test images "
            f"{tuple(test.pixels.shape[1:])}, expected one size."
        )
    return train, test, Task(given.channels, given.grid, classes)


def _architectures(population: _Population) -> tuple[list[Architecture], list[Shard]]:
    """The architectures in the order in which stacks have them, and each stack's rows."""
    found: dict[str, Architecture] = {}
    shards, task = [], population.task
    for stack in population.stacks:
        forward = stack[0].forward
        name = population.architecture.name(forward)
        if name not in found:
            example = torch.randn(2, task.channels, *task.size, generator=torch.Generator().manual_seed(0))
            try:
                found[name] = Architecture(name, trace(forward.build(), example), forward)
            except (TraceError, SpecError) as err:
                raise ZooError(
                    f"{forward.factory} cannot be traced with {dict(forward.arguments)}: {err}"
                ) from err
        rows = sum(len(plan.stored_epochs) for plan in stack)
        shards.append(Shard(rows, list(found).index(name)))
    return list(found.values()), shards


def _made(population: _Population, plans: list[NetworkPlan], bar: TrainProgress, stop: Event) -> Made:
    """Weights and metadata of the checkpoints of one stack."""

    def advance(images: int) -> None:
        if stop.is_set():
            raise CancelledError
        bar.advance(images)

    stack = population.architecture.stack(plans[0].forward)
    checkpoints = train_networks(stack, plans, population.train, population.task.classes, advance)
    columns: dict[str, list[Any]] = {}
    for plan, own in zip(plans, checkpoints, strict=True):
        for name, values in _columns(population, stack, plan, own).items():
            columns.setdefault(name, []).extend(values)
        advance(0)
    accuracy = np.array(columns["test_accuracy"])[np.cumsum([len(own) for own in checkpoints]) - 1]
    bar.finish(accuracy)
    rows = torch.stack([checkpoint.row for own in checkpoints for checkpoint in own])
    return stack.tensors(rows), columns


def _columns(
    population: _Population, stack: ClassifierStack, plan: NetworkPlan, checkpoints: list[Checkpoint]
) -> dict[str, Any]:
    """Metadata of all checkpoints of one network."""
    train, test, count = population.train, population.test, len(checkpoints)
    seen = network_images(plan, train.labels, population.task.classes)
    rows = torch.stack([checkpoint.row for checkpoint in checkpoints])
    cap = population.evaluated
    on_train = evaluate(stack, rows, train.pixels, seen.rows[:cap], seen.labels[:cap])
    on_test = evaluate(stack, rows, test.pixels, np.arange(len(test))[:cap], test.labels.numpy()[:cap])
    with np.errstate(over="ignore"):
        finite = np.isfinite(rows.numpy().astype(STORED_DTYPES[population.dtype])).all(1)
    finite &= np.isfinite(on_train.loss) & np.isfinite(on_test.loss)
    constant = {"model": plan.model, "train_images": len(seen)}
    constant |= population.architecture.columns(plan.forward) | asdict(plan.hyperparameters)
    return {name: [value] * count for name, value in constant.items()} | {
        "step": [checkpoint.epoch for checkpoint in checkpoints],
        "updates": [checkpoint.updates for checkpoint in checkpoints],
        "train_loss": on_train.loss,
        "train_accuracy": on_train.accuracy,
        "test_loss": on_test.loss,
        "test_accuracy": on_test.accuracy,
        "diverged": (~finite).astype(np.int64),
    }


def _identity(source: ImageSource, images: ImageSet) -> dict[str, Any]:
    return {"class": type(source).__name__, "images": len(images), "identity": images.identity}


def _right_words(accuracy: float) -> str:
    return f"{100 * accuracy:.1f} % right"
