"""Builds a zoo of classifiers: populations whose networks differ in their hyperparameters."""

import os
from collections.abc import Mapping
from dataclasses import asdict

import torch

import wsl
from wsl.zoo._errors import ZooError
from wsl.zoo._executors import ExecutorName, executor_of
from wsl.zoo._store import Zoo
from wsl.zoo.classifiers._architecture import ClassifierArchitecture, SmallCnns
from wsl.zoo.classifiers._plan import draw_plans, stacks_of
from wsl.zoo.classifiers._recipe import TrainingRecipe
from wsl.zoo.classifiers._training import ClassifierTraining, task_images
from wsl.zoo.images import ImageSource
from wsl.zoo.training import Population, build_population

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
        limit: use the first images of each source only.
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
    if networks < 1 or seed < 0 or (evaluated is not None and evaluated < 1):
        raise ZooError(
            f"networks is {networks}, seed {seed} and evaluated {evaluated}; expected at least 1, 0 and 1."
        )
    machines = executor_of(executor, address, workers)
    # Not the default itself: on the command line, another class would take over its arguments.
    architecture = SmallCnns() if architecture is None else architecture
    images = task_images(source, test_source, limit, seed)
    train, task = images.train, images.task
    plans = draw_plans(networks, architecture, recipe, task, seed)
    training = ClassifierTraining(train, images.test, task, architecture, evaluated, dtype)
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
        **images.provenance,
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
        executor=machines,
        progress=progress,
    )
