"""Builds a zoo over a grid of widths and batch sizes, with measures of the loss around its networks."""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch

from wsl.zoo._errors import ZooError
from wsl.zoo._executors import ExecutorName
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._store import Zoo
from wsl.zoo.classifiers import ClassifierArchitecture, Hyperparameters, Mlps, TrainingRecipe
from wsl.zoo.classifiers._data import LabelledImages, NetworkImages, TaskImages, task_images
from wsl.zoo.classifiers._population import ClassifierTraining
from wsl.zoo.images import ImageSource
from wsl.zoo.phases._grid import DATA, MEASURED, SeedPlan, grid_cells, shared_hyperparameters
from wsl.zoo.phases._measures import CellMeasures, LandscapeMeasures
from wsl.zoo.training import TrainedStack, build_population, build_provenance, build_settings, check_positive

_RECIPE = TrainingRecipe(learning_rate=0.05, optimizer="sgd", epochs=30)
_MEASURES = LandscapeMeasures()


def build_phase_zoo(
    out: str | os.PathLike[str],
    source: ImageSource,
    widths: list[int],
    batch_sizes: list[int],
    seeds: int = 3,
    test_source: ImageSource | None = None,
    architecture: ClassifierArchitecture | None = None,
    recipe: TrainingRecipe = _RECIPE,
    measures: LandscapeMeasures = _MEASURES,
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
    """Train classifiers on a grid of load (width) and temperature (batch size), several seeds in each cell.

    A row is a checkpoint, a width an architecture. Columns are those of
    :func:`wsl.zoo.classifiers.build_classifier_zoo` and ``width``, ``cell``, ``seed`` (within the cell),
    ``hessian_trace``, ``hessian_top``; and, the same for all networks of a cell at one step, ``cka`` (mean
    over pairs), ``mode_connectivity`` (mean over a ring of pairs, networks not permuted) and ``phase``, see
    :func:`wsl.landscape.phase_labels`. Measures of networks that diverged are not numbers. An interrupted
    build goes on when called again; a cell is what is lost at most. The result does not depend on the
    executor, on ``workers`` or on interruptions.

    Args:
        out: the zoo file to make; never overwritten.
        source: labelled images to train on. All values are brought to [-1, 1].
        widths: of the networks, each with all batch sizes.
        batch_sizes: smaller ones are a higher temperature. Epochs are the same for all.
        seeds: networks in each cell, at least 2.
        test_source: labelled images to test on; by default a fifth of ``source``, drawn by ``seed``.
        architecture: of the networks, but for their width; by default :class:`wsl.zoo.classifiers.Mlps` with
            ReLU.
        recipe: how they are trained; nothing in it may vary, and its batch size has no part. The images and
            the noise in their labels are drawn once, for all networks.
        measures: how the loss is measured, and where the phases part.
        evaluated: images at most for each loss and accuracy; by default all.
        splits: share of the cells for each split, as all networks of a cell share its CKA, connectivity
            and phase. By default 70 % train, 10 % val and 20 % test, for which a grid needs 6 cells.
        limit: use this many images of each source at most: the first, or of images sorted by class each
            class's share.
        seed: of everything that is drawn.
        dtype: stored type, ``float32`` or ``float16``.
        executor: where networks train: ``local``, in threads of this process, or ``ray``, on a Ray cluster.
        address: ``HOST:PORT`` of the cluster's head; by default ``RAY_ADDRESS``, or the one that this machine
            belongs to.
        workers: cells that train at once; by default one for each processor core of this process, or of the
            cluster.
        progress: show a progress bar on stderr.

    Raises:
        ZooError: unusable images, arguments or ``out``; nothing is written then.

    Source: Schürholt et al. 2025 (arXiv:2504.18072); measures as in Yang et al. 2021 (arXiv:2107.11228).
    Deviates: CKA on test images, without mixing them up; curves in loss, not in error.
    """
    check_positive(evaluated=evaluated)
    settings = build_settings(out, splits, seed, dtype, executor, address, workers, progress)
    # Not the default itself: on the command line, another class would take over its arguments.
    architecture = Mlps(activation="relu") if architecture is None else architecture
    images = task_images(source, test_source, limit, seed)
    cells = grid_cells(widths, batch_sizes, seeds, architecture, recipe, images.task, seed)
    given = shared_hyperparameters(recipe, seed)
    if any((buffered := architecture.stack(cell[0].forward)).buffers for cell in cells):
        raise ZooError(
            f"The networks hold {', '.join(buffered.buffers)}, which have no place on a curve between two of "
            "them. Choose an architecture without running statistics: ResNets with norm layer."
        )
    training = ClassifierTraining[SeedPlan](
        architecture, evaluated, dtype, replace(images, train=_shared_images(images, given, seed))
    )
    population = replace(
        training.population(cells, lambda forward: _name(forward, cells)),
        train=_CellTraining(training, measures, given).train,
        group="cell",
    )
    provenance = build_provenance(
        "wsl.zoo.phases.build_phase_zoo",
        architecture,
        recipe,
        seed,
        measures=asdict(measures),
        widths=sorted(widths),
        batch_sizes=sorted(batch_sizes),
        seeds=seeds,
        evaluated=evaluated,
        **images.provenance,
    )
    return build_population(settings, population, provenance)


def _shared_images(images: TaskImages, given: Hyperparameters, seed: int) -> LabelledImages:
    """What all networks train on: a share of the images, some with other labels."""
    generator = np.random.default_rng([seed, DATA])
    share, noise = given.train_fraction, given.label_noise
    seen = NetworkImages(images.train.labels, images.task.classes, share, noise, generator)
    return LabelledImages(images.train.pixels[seen.rows], torch.from_numpy(seen.labels))


def _name(forward: ForwardDefinition, cells: list[list[SeedPlan]]) -> str:
    return next(f"width-{cell[0].width}" for cell in cells if cell[0].forward == forward)


@dataclass(frozen=True, eq=False)
class _CellTraining:
    """Trains the networks of a cell and measures them at each checkpoint."""

    training: ClassifierTraining[SeedPlan]
    measures: LandscapeMeasures
    given: Hyperparameters

    def train(self, plans: list[SeedPlan], advance: Callable[[int], None]) -> TrainedStack:
        training, first = self.training, plans[0]
        trained, images = training.train(plans, advance), training.images
        measured = CellMeasures(
            training.architecture.stack(first.forward),
            first.forward,
            self.measures,
            images.train,
            images.test,
            images.task.classes,
            advance,
        )
        rows = torch.cat([tensor.flatten(1) for tensor in trained.weights.values()], 1)
        rows = rows.unflatten(0, (len(plans), -1))
        losses = np.reshape(trained.columns["train_loss"], (len(plans), -1))
        found = [
            measured.columns(rows[:, place], losses[:, place], [first.seed, first.cell, MEASURED, epoch])
            for place, epoch in enumerate(first.stored)
        ]
        columns = {name: np.stack([one[name] for one in found], 1).flatten() for name in found[0]}
        count = len(plans) * len(found)
        constant = {"cell": first.cell, "width": first.width}
        constant |= {name: getattr(self.given, name) for name in ("train_fraction", "label_noise")}
        columns |= {name: np.repeat(value, count) for name, value in constant.items()}
        columns["seed"] = np.repeat([plan.replica for plan in plans], len(found))
        return TrainedStack(trained.weights, {**trained.columns, **columns}, trained.quality)
