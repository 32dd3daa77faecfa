"""Builds a zoo of classifiers: populations whose networks differ in their hyperparameters."""

import os
from collections.abc import Mapping
from functools import partial

from wsl.zoo._executors import ExecutorName
from wsl.zoo._store import Zoo
from wsl.zoo.classifiers._architecture import ClassifierArchitecture, SmallCnns
from wsl.zoo.classifiers._data import task_images
from wsl.zoo.classifiers._plan import ClassifierPlan, images_seen, stack_size
from wsl.zoo.classifiers._population import ClassifierTraining
from wsl.zoo.classifiers._recipe import TrainingRecipe
from wsl.zoo.images import ImageSource
from wsl.zoo.training import (
    build_population,
    build_provenance,
    build_settings,
    check_positive,
    draw_plans,
    stacks_of,
)

_RECIPE = TrainingRecipe()


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
    executor: ExecutorName = "local",
    address: str | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Zoo:
    """Train classifiers and store their checkpoints; called again, an interrupted build goes on.

    A row is a checkpoint. Columns: ``model``, ``step`` (the epoch), ``updates`` (optimizer steps so far),
    ``train_loss``, ``train_accuracy`` (on the network's own images and labels), ``test_loss``,
    ``test_accuracy``, ``diverged``, ``train_images``, those of the architecture, and all hyperparameters.
    ``diverged`` is 1 where weights or a loss are not finite: such networks are stored like all others. Images
    for which a network's outputs are not finite count as wrong. Rows are ordered by the networks that train
    together, then by network and epoch. The result does not depend on the executor, on ``workers`` or on
    interruptions.

    Args:
        out: the zoo file to make; never overwritten.
        source: labelled images to train on. All values are brought to [-1, 1].
        networks: how many to train.
        test_source: labelled images to test on; by default a fifth of ``source``, drawn by ``seed``.
        architecture: of the networks; by default :class:`SmallCnns`.
        recipe: how they are trained.
        evaluated: images at most for each loss and accuracy; by default all.
        splits: share of the networks for each split. By default 70 % train, 10 % val and 20 % test.
        limit: use this many images of each source at most: the first, or of images sorted by class each
            class's share.
        seed: of everything that is drawn. A network depends on it and on its own number.
        dtype: stored type, ``float32`` or ``float16``.
        executor: where networks train: ``local``, in threads of this process, or ``ray``, on a Ray cluster.
        address: ``HOST:PORT`` of the cluster's head; by default ``RAY_ADDRESS``, or the one that this machine
            belongs to.
        workers: stacks that train at once; by default a stack for each processor core of this process, or of
            the cluster.
        progress: show a progress bar on stderr.

    Raises:
        ZooError: unusable images, arguments or ``out``; nothing is written then.
    """
    check_positive(networks=networks, evaluated=evaluated)
    settings = build_settings(out, splits, seed, dtype, executor, address, workers, progress)
    # Not the default itself: on the command line, another class would take over its arguments.
    architecture = SmallCnns() if architecture is None else architecture
    images = task_images(source, test_source, limit, seed)
    plans = draw_plans(networks, recipe, partial(architecture.draw, images.task), seed)
    training = ClassifierTraining[ClassifierPlan](architecture, evaluated, dtype, images)
    stacks = stacks_of(plans, lambda plan: images_seen(plan, len(images.train)), stack_size)
    provenance = build_provenance(
        "wsl.zoo.classifiers.build_classifier_zoo",
        architecture,
        recipe,
        seed,
        networks=networks,
        evaluated=evaluated,
        **images.provenance,
    )
    return build_population(settings, training.population(stacks, architecture.name), provenance)
