"""How networks are trained: what is drawn for each of them."""

from dataclasses import dataclass
from itertools import chain

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo.classifiers._initial import INITIALISATIONS
from wsl.zoo.training import (
    DROPOUT_LEVELS,
    OPTIMIZERS,
    Number,
    Range,
    as_list,
    check_choice,
    check_number,
    draw_choice,
    draw_number,
)

_LEARNING_RATE = Range(1e-4, 1e-1, log=True)


@dataclass(frozen=True)
class Hyperparameters:
    """Those of one network; see :class:`TrainingRecipe`."""

    learning_rate: float
    weight_decay: float
    dropout: float
    optimizer: str
    initialisation: str
    initial_scale: float
    train_fraction: float
    label_noise: float
    batch_size: int
    epochs: int


@dataclass(frozen=True)
class TrainingRecipe:
    """Stochastic gradient descent on the cross-entropy, with hyperparameters drawn for each network.

    Wherever several values can be given, each network draws its own: from a list, or from a :class:`Range`.

    Args:
        learning_rate: constant over the training.
        weight_decay: times the weights, added to the gradient.
        dropout: probability after each hidden activation, of every value by itself, rounded to 1/256.
        optimizer: ``sgd``, ``momentum`` (0.9), ``adam`` or ``rmsprop``, with torch's default constants.
        initialisation: of weights, see :data:`INITIALISATIONS`; biases start at 0, unless it is ``default``.
        initial_scale: multiplies the initial weights.
        train_fraction: share of the training images, drawn for each network.
        label_noise: share of these whose label is drawn anew from all classes.
        batch_size: images a step. An epoch ends in the midst of a batch where it must: batches are full.
        epochs: passes over the network's images.
        checkpoints: after these epochs the network is stored; 0 is the initial one. The last epoch always is.

    Raises:
        ZooError: a value outside its range.
    """

    learning_rate: Number = _LEARNING_RATE
    weight_decay: Number = 0.0
    dropout: Number = 0.0
    optimizer: str | list[str] = "adam"
    initialisation: str | list[str] = "default"
    initial_scale: Number = 1.0
    train_fraction: Number = 1.0
    label_noise: Number = 0.0
    batch_size: int | list[int] = 64
    epochs: int | list[int] = 10
    checkpoints: list[int] | None = None

    def __post_init__(self) -> None:
        check_number("recipe.learning_rate", self.learning_rate, 0, 1e30, open_low=True)
        check_number("recipe.weight_decay", self.weight_decay, 0, 1e6)
        check_number("recipe.dropout", self.dropout, 0, 0.99)
        check_choice("recipe.optimizer", self.optimizer, list(OPTIMIZERS))
        check_choice("recipe.initialisation", self.initialisation, INITIALISATIONS)
        check_number("recipe.initial_scale", self.initial_scale, 0, 1e6, open_low=True)
        check_number("recipe.train_fraction", self.train_fraction, 0, 1, open_low=True)
        check_number("recipe.label_noise", self.label_noise, 0, 1)
        check_number("recipe.batch_size", list(map(float, as_list(self.batch_size))), 1, 1e6)
        check_number("recipe.epochs", list(map(float, as_list(self.epochs))), 0, 1e6)
        if self.checkpoints is not None and any(epoch < 0 for epoch in self.checkpoints):
            raise ZooError(f"recipe.checkpoints are {self.checkpoints}, expected epochs from 0 on.")

    def draw(self, generator: np.random.Generator) -> Hyperparameters:
        """The hyperparameters of one network; changing one entry of the recipe leaves the others alone."""
        return Hyperparameters(
            learning_rate=draw_number(self.learning_rate, generator),
            weight_decay=draw_number(self.weight_decay, generator),
            dropout=round(draw_number(self.dropout, generator) * DROPOUT_LEVELS) / DROPOUT_LEVELS,
            optimizer=draw_choice(self.optimizer, generator),
            initialisation=draw_choice(self.initialisation, generator),
            initial_scale=draw_number(self.initial_scale, generator),
            train_fraction=draw_number(self.train_fraction, generator),
            label_noise=draw_number(self.label_noise, generator),
            batch_size=draw_choice(self.batch_size, generator),
            epochs=draw_choice(self.epochs, generator),
        )

    def stored_epochs(self, epochs: int) -> list[int]:
        """The epochs at which a network that trains for ``epochs`` is stored, in order."""
        return sorted({epoch for epoch in chain(self.checkpoints or [], [epochs]) if epoch <= epochs})
