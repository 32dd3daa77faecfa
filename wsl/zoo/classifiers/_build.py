"""Builds a zoo of classifiers: populations whose networks differ in their hyperparameters."""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

import wsl
from wsl.zoo._errors import ZooError
from wsl.zoo._store import Zoo
from wsl.zoo.classifiers._architecture import ClassifierArchitecture, SmallCnns, Task
from wsl.zoo.classifiers._data import LabelledImages, labelled_images
from wsl.zoo.classifiers._plan import NetworkPlan, draw_plans, stacks_of
from wsl.zoo.classifiers._recipe import TrainingRecipe
from wsl.zoo.classifiers._stack import ClassifierStack
from wsl.zoo.classifiers._train import Checkpoint, evaluate, network_images, train_networks
from wsl.zoo.images import ImageSet, ImageSource
from wsl.zoo.training import Population, TrainedStack, build_population, finite_rows

_RECIPE = TrainingRecipe()
_TESTED_SHARE = 0.2


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
    training = _Training(train, test, task, architecture, evaluated, dtype)
    population = Population(
        stacks=stacks_of(plans, len(train)),
        name=architecture.name,
        example=lambda _: torch.randn(
            2, task.channels, *task.size, generator=torch.Generator().manual_seed(0)
        ),
        checkpoints=lambda plan: len(plan.stored_epochs),
        examples=lambda plan: plan.images_seen(len(train)),
        train=training.train,
        unit="images",
        quality=lambda accuracy: f"{100 * accuracy:.1f} % right",
    )
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
    return build_population(
        out,
        population,
        provenance,
        splits=splits,
        seed=seed,
        dtype=dtype,
        workers=workers,
        progress=progress,
    )


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


def _identity(source: ImageSource, images: ImageSet) -> dict[str, Any]:
    return {"class": type(source).__name__, "images": len(images), "identity": images.identity}


@dataclass(frozen=True, eq=False)
class _Training:
    """Trains stacks and describes their checkpoints."""

    train_images: LabelledImages
    test_images: LabelledImages
    task: Task
    architecture: ClassifierArchitecture
    evaluated: int | None
    dtype: str

    def train(self, plans: list[NetworkPlan], advance: Callable[[int], None]) -> TrainedStack:
        stack = self.architecture.stack(plans[0].forward)
        checkpoints = train_networks(stack, plans, self.train_images, self.task.classes, advance)
        columns: dict[str, list[Any]] = {}
        last = []
        for plan, own in zip(plans, checkpoints, strict=True):
            for name, values in self._columns(stack, plan, own).items():
                columns.setdefault(name, []).extend(values)
            last.append(columns["test_accuracy"][-1])
            advance(0)
        rows = torch.stack([checkpoint.row for own in checkpoints for checkpoint in own])
        return TrainedStack(stack.tensors(rows), columns, np.array(last))

    def _columns(
        self, stack: ClassifierStack, plan: NetworkPlan, checkpoints: list[Checkpoint]
    ) -> dict[str, Any]:
        """Metadata of all checkpoints of one network."""
        train, test, count = self.train_images, self.test_images, len(checkpoints)
        seen = network_images(plan, train.labels, self.task.classes)
        rows = torch.stack([checkpoint.row for checkpoint in checkpoints])
        cap = self.evaluated
        on_train = evaluate(stack, rows, train.pixels, seen.rows[:cap], seen.labels[:cap])
        on_test = evaluate(stack, rows, test.pixels, np.arange(len(test))[:cap], test.labels.numpy()[:cap])
        finite = finite_rows(rows, self.dtype) & np.isfinite(on_train.loss) & np.isfinite(on_test.loss)
        constant = {"model": plan.model, "train_images": len(seen)}
        constant |= self.architecture.columns(plan.forward) | asdict(plan.hyperparameters)
        return {name: [value] * count for name, value in constant.items()} | {
            "step": [checkpoint.epoch for checkpoint in checkpoints],
            "updates": [checkpoint.updates for checkpoint in checkpoints],
            "train_loss": on_train.loss,
            "train_accuracy": on_train.accuracy,
            "test_loss": on_test.loss,
            "test_accuracy": on_test.accuracy,
            "diverged": (~finite).astype(np.int64),
        }
