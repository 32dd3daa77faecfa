"""What is drawn for each network of a population, whatever it learns from."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo.training._dropout import DROPOUT_LEVELS
from wsl.zoo.training._optimizers import OPTIMIZERS
from wsl.zoo.training._sampling import (
    Number,
    all_whole,
    check_choice,
    check_number,
    check_whole,
    draw_choice,
    draw_number,
)


@dataclass(frozen=True)
class PopulationHyperparameters:
    """Those of one network; see :class:`PopulationRecipe`."""

    learning_rate: float
    weight_decay: float
    dropout: float
    optimizer: str
    initialisation: str
    initial_scale: float
    train_fraction: float
    batch_size: int

    @property
    def duration(self) -> int:
        """How long the network trains, in what its recipe counts: epochs, or steps of the optimizer."""
        raise NotImplementedError


H = TypeVar("H", bound=PopulationHyperparameters)


@dataclass(frozen=True)
class PopulationRecipe(Generic[H]):
    """How the networks of a population are trained, with hyperparameters drawn for each network.

    Wherever several values can be given, each network draws its own: from a list, or from a :class:`Range`.

    Args:
        learning_rate: constant over the training.
        weight_decay: times the weights, added to the gradient.
        dropout: probability where the architecture has it, of every value by itself, rounded to 1/256.
        optimizer: ``sgd``, ``momentum`` (0.9), ``adam`` or ``rmsprop``, with torch's default constants.
        initialisation: of weights.
        initial_scale: multiplies the initial weights.
        train_fraction: share of the training examples, drawn for each network.
        batch_size: examples a step.
        checkpoints: after these epochs or steps the network is stored; 0 is the initial one. The last always
            is.

    Raises:
        ZooError: a value outside its range.
    """

    learning_rate: Number
    weight_decay: Number = 0.0
    dropout: Number = 0.0
    optimizer: str | list[str] = "adam"
    initialisation: str | list[str] = "default"
    initial_scale: Number = 1.0
    train_fraction: Number = 1.0
    batch_size: int | list[int] = 64
    checkpoints: list[int] | None = None

    def draw(self, generator: np.random.Generator) -> H:
        """The hyperparameters of one network; changing one entry of the recipe leaves the others alone."""
        raise NotImplementedError  # no abstract class: the command line takes dataclasses field by field

    def stored(self, duration: int) -> tuple[int, ...]:
        """The epochs or steps after which a network that trains for so many is stored, in order."""
        return tuple(sorted({when for when in chain(self.checkpoints or [], [duration]) if when <= duration}))

    def _check(self, initialisations: Sequence[str], duration: str) -> None:
        """Raise ZooError for a value outside its range; ``duration`` is the field that says how long."""
        check_number("recipe.learning_rate", self.learning_rate, 0, 1e30, open_low=True)
        check_number("recipe.weight_decay", self.weight_decay, 0, 1e6)
        check_number("recipe.dropout", self.dropout, 0, 0.99)
        check_choice("recipe.optimizer", self.optimizer, list(OPTIMIZERS))
        check_choice("recipe.initialisation", self.initialisation, initialisations)
        check_number("recipe.initial_scale", self.initial_scale, 0, 1e6, open_low=True)
        check_number("recipe.train_fraction", self.train_fraction, 0, 1, open_low=True)
        check_whole("recipe.batch_size", self.batch_size, 1, 1e6)
        check_whole(f"recipe.{duration}", getattr(self, duration), 0, 1e9)
        if self.checkpoints and not all_whole(self.checkpoints, 0):
            raise ZooError(f"recipe.checkpoints are {self.checkpoints}, expected {duration} from 0 on.")

    def _draw_shared(self, generator: np.random.Generator) -> dict[str, Any]:
        """What all populations draw but the batch size, which comes after what they draw of the examples."""
        return {
            "learning_rate": draw_number(self.learning_rate, generator),
            "weight_decay": draw_number(self.weight_decay, generator),
            "dropout": round(draw_number(self.dropout, generator) * DROPOUT_LEVELS) / DROPOUT_LEVELS,
            "optimizer": draw_choice(self.optimizer, generator),
            "initialisation": draw_choice(self.initialisation, generator),
            "initial_scale": draw_number(self.initial_scale, generator),
            "train_fraction": draw_number(self.train_fraction, generator),
        }
