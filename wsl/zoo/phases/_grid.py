"""The cells of a grid of widths and batch sizes, and the networks in them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo.classifiers import ClassifierArchitecture, Hyperparameters, Mlps, ResNets, SmallCnns, Vits
from wsl.zoo.classifiers._architecture import Task
from wsl.zoo.classifiers._recipe import TrainingRecipe
from wsl.zoo.training import DRAWN, NetworkPlan

MEASURED, DATA = 4, 5
"""What a random stream is for, besides those of networks."""


@dataclass(frozen=True)
class SeedPlan(NetworkPlan[Hyperparameters]):
    """One network of a cell.

    Args:
        cell: its number; batch sizes run faster than widths.
        width: of the network.
        replica: its number within the cell, where networks differ in nothing but their random streams.
    """

    cell: int
    width: int
    replica: int


def widened(architecture: ClassifierArchitecture, width: int) -> ClassifierArchitecture:
    """The architecture with another width: of hidden layers, blocks, the first stage, or all convolutions.

    Raises:
        ZooError: an architecture that has no one width.
    """
    if isinstance(architecture, SmallCnns):
        return replace(architecture, channels=(width,) * len(architecture.channels))
    if isinstance(architecture, Mlps | ResNets | Vits):
        return replace(architecture, width=width)
    raise ZooError(
        f"{type(architecture).__name__} has no one width to vary. Choose SmallCnns, Mlps, ResNets or Vits."
    )


def shared_hyperparameters(recipe: TrainingRecipe, seed: int) -> Hyperparameters:
    """Those of all networks of a grid; raises ZooError for a recipe that draws them for each network."""
    drawn = [recipe.draw(np.random.default_rng([seed, model, DRAWN])) for model in range(64)]
    if len(set(drawn)) > 1:
        varied = [name for name in vars(drawn[0]) if len({getattr(one, name) for one in drawn}) > 1]
        raise ZooError(
            f"recipe.{varied[0]} is drawn for each network, and networks of a grid differ in width, batch "
            "size and seed alone. Give one value."
        )
    return drawn[0]


def grid_cells(
    widths: Sequence[int],
    batch_sizes: Sequence[int],
    seeds: int,
    architecture: ClassifierArchitecture,
    recipe: TrainingRecipe,
    task: Task,
    seed: int,
) -> list[list[SeedPlan]]:
    """The networks of each cell, which train together.

    The share of the images and the noise in their labels are not theirs: all networks see the same data.

    Raises:
        ZooError: repeated or unusable numbers, or a recipe or an architecture that is drawn for each network.
    """
    for name, values in (("widths", widths), ("batch_sizes", batch_sizes)):
        if not values or min(values) < 1 or len(set(values)) < len(values):
            raise ZooError(f"{name} are {list(values)}, expected different positive integers.")
    if seeds < 2:
        raise ZooError(f"seeds is {seeds}, expected at least 2: CKA and curves are between networks.")
    shared = replace(shared_hyperparameters(recipe, seed), train_fraction=1.0, label_noise=0.0)
    stored = recipe.stored(shared.epochs)
    cells = []
    for cell, (width, batch_size) in enumerate(product(sorted(widths), sorted(batch_sizes))):
        own = widened(architecture, width)
        models = range(cell * seeds, (cell + 1) * seeds)
        forwards = [own.draw(task, np.random.default_rng([seed, model, DRAWN])) for model in models]
        if any(forward != forwards[0] for forward in forwards):
            raise ZooError(
                f"The architecture {type(own).__name__} is drawn for each network, and networks of a grid "
                "differ in width, batch size and seed alone. Give one activation, one depth and so on."
            )
        hyperparameters = replace(shared, batch_size=batch_size)
        cells.append(
            [
                SeedPlan(model, seed, forward, hyperparameters, stored, cell, width, replica)
                for replica, (model, forward) in enumerate(zip(models, forwards, strict=True))
            ]
        )
    return cells
