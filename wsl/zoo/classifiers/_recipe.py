"""How classifiers are trained: what is drawn for each of them."""

from dataclasses import dataclass

import numpy as np

from wsl.zoo.classifiers._initial import INITIALISATIONS
from wsl.zoo.training import (
    Number,
    PopulationHyperparameters,
    PopulationRecipe,
    Range,
    check_number,
    draw_choice,
    draw_number,
)

_LEARNING_RATE = Range(1e-4, 1e-1, log=True)


@dataclass(frozen=True)
class Hyperparameters(PopulationHyperparameters):
    """Those of one network; see :class:`TrainingRecipe`."""

    label_noise: float
    epochs: int

    @property
    def duration(self) -> int:
        return self.epochs


@dataclass(frozen=True)
class TrainingRecipe(PopulationRecipe[Hyperparameters]):
    """Stochastic gradient descent on the cross-entropy of classes; see also :class:`PopulationRecipe`.

    Args:
        dropout: probability after each hidden activation, of every value by itself, rounded to 1/256.
        initialisation: of weights, see :data:`INITIALISATIONS`; biases start at 0, unless it is ``default``.
        train_fraction: share of the training images, drawn for each network.
        batch_size: images a step. An epoch ends in the midst of a batch where it must: batches are full.
        checkpoints: after these epochs the network is stored; 0 is the initial one. The last epoch always is.
        label_noise: share of the network's images whose label is drawn anew from all classes.
        epochs: passes over the network's images.

    Raises:
        ZooError: a value outside its range.
    """

    learning_rate: Number = _LEARNING_RATE
    label_noise: Number = 0.0
    epochs: int | list[int] = 10

    def __post_init__(self) -> None:
        self._check(INITIALISATIONS, "epochs")
        check_number("recipe.label_noise", self.label_noise, 0, 1)

    def draw(self, generator: np.random.Generator) -> Hyperparameters:
        return Hyperparameters(
            **self._draw_shared(generator),
            label_noise=draw_number(self.label_noise, generator),
            batch_size=draw_choice(self.batch_size, generator),
            epochs=draw_choice(self.epochs, generator),
        )
