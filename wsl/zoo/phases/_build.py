"""Builds a zoo over a grid of widths and batch sizes, with measures of the loss around its networks."""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np
import torch

import wsl
from wsl.zoo._errors import ZooError
from wsl.zoo._executors import ExecutorName, executor_of
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._store import Zoo
from wsl.zoo.classifiers import ClassifierArchitecture, Hyperparameters, Mlps, TrainingRecipe
from wsl.zoo.classifiers._data import LabelledImages, NetworkImages
from wsl.zoo.classifiers._training import ClassifierTraining, task_images
from wsl.zoo.images import ImageSource
from wsl.zoo.phases._grid import DATA, MEASURED, SeedPlan, grid_cells, shared_hyperparameters
from wsl.zoo.phases._measures import CellMeasures, LandscapeMeasures
from wsl.zoo.training import Population, TrainedStack, build_population

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
        splits: share of the networks for each split. By default 70 % train, 10 % val and 20 % test. All
            networks of a cell share its likeness, connectivity and phase: to predict these, split by cells,
            ``zoo split FILE --by cell``.
        limit: use the first images of each source only.
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
    if seed < 0 or (evaluated is not None and evaluated < 1):
        raise ZooError(f"seed is {seed} and evaluated {evaluated}; expected at least 0 and 1.")
    machines = executor_of(executor, address, workers)
    # Not the default itself: on the command line, another class would take over its arguments.
    architecture = Mlps(activation="relu") if architecture is None else architecture
    images = task_images(source, test_source, limit, seed)
    cells = grid_cells(widths, batch_sizes, seeds, architecture, recipe, images.task, seed)
    given = shared_hyperparameters(recipe, seed)
    shared = NetworkImages(
        images.train.labels,
        images.task.classes,
        given.train_fraction,
        given.label_noise,
        np.random.default_rng([seed, DATA]),
    )
    train = LabelledImages(images.train.pixels[shared.rows], torch.from_numpy(shared.labels))
    training = ClassifierTraining(train, images.test, images.task, architecture, evaluated, dtype)
    if any((buffered := architecture.stack(cell[0].forward)).buffers for cell in cells):
        raise ZooError(
            f"The networks hold {', '.join(buffered.buffers)}, which have no place on a curve between two of "
            "them. Choose an architecture without running statistics: ResNets with norm layer."
        )
    task = images.task
    population = Population(
        stacks=cells,
        name=lambda forward: _name(forward, cells),
        example=lambda _: torch.randn(
            2, task.channels, *task.size, generator=torch.Generator().manual_seed(0)
        ),
        checkpoints=lambda plan: len(plan.stored_epochs),
        examples=lambda plan: plan.images_seen(len(train)),
        train=_CellTraining(training, measures, given).train,
        unit="images",
        quality=lambda accuracy: f"{100 * accuracy:.1f} % right",
    )
    provenance = {
        "builder": "wsl.zoo.phases.build_phase_zoo",
        "version": wsl.__version__,
        **images.provenance,
        "architecture": {"class": type(architecture).__name__, **vars(architecture)},
        "recipe": asdict(recipe),
        "measures": asdict(measures),
        "widths": sorted(widths),
        "batch_sizes": sorted(batch_sizes),
        "seeds": seeds,
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


def _name(forward: ForwardDefinition, cells: list[list[SeedPlan]]) -> str:
    return next(f"width-{cell[0].width}" for cell in cells if cell[0].forward == forward)


@dataclass(frozen=True, eq=False)
class _CellTraining:
    """Trains the networks of a cell and measures them at each checkpoint."""

    training: ClassifierTraining
    measures: LandscapeMeasures
    given: Hyperparameters

    def train(self, plans: list[SeedPlan], advance: Callable[[int], None]) -> TrainedStack:
        training, first = self.training, plans[0]
        trained = training.train(list(plans), advance)
        measured = CellMeasures(
            training.architecture.stack(first.forward),
            first.forward,
            self.measures,
            training.train_images,
            training.test_images,
            training.task.classes,
            advance,
        )
        rows = torch.cat([tensor.flatten(1) for tensor in trained.weights.values()], 1)
        rows = rows.unflatten(0, (len(plans), -1))
        losses = np.reshape(trained.columns["train_loss"], (len(plans), -1))
        found = [
            measured.columns(rows[:, place], losses[:, place], [first.seed, first.cell, MEASURED, epoch])
            for place, epoch in enumerate(first.stored_epochs)
        ]
        columns = {name: np.stack([one[name] for one in found], 1).flatten() for name in found[0]}
        count = len(plans) * len(found)
        constant = {"cell": first.cell, "width": first.width}
        constant |= {name: getattr(self.given, name) for name in ("train_fraction", "label_noise")}
        columns |= {name: np.repeat(value, count) for name, value in constant.items()}
        columns["seed"] = np.repeat([plan.replica for plan in plans], len(found))
        return TrainedStack(trained.weights, {**trained.columns, **columns}, trained.quality)
