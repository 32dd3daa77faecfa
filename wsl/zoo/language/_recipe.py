"""How language models are trained: what is drawn for each of them."""

from dataclasses import dataclass
from itertools import chain

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo.language._initial import INITIALISATIONS
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

_LEARNING_RATE = Range(1e-4, 3e-2, log=True)


@dataclass(frozen=True)
class LanguageHyperparameters:
    """Those of one network; see :class:`LanguageRecipe`."""

    learning_rate: float
    weight_decay: float
    dropout: float
    optimizer: str
    initialisation: str
    initial_scale: float
    train_fraction: float
    batch_size: int
    steps: int


@dataclass(frozen=True)
class LanguageRecipe:
    """Training on the cross-entropy of the next character, with hyperparameters drawn for each network.

    Wherever several values can be given, each network draws its own: from a list, or from a :class:`Range`.

    Args:
        learning_rate: constant over the training.
        weight_decay: times the weights, added to the gradient.
        dropout: probability where the architecture has it, of every value by itself, rounded to 1/256.
        optimizer: ``sgd``, ``momentum`` (0.9), ``adam`` or ``rmsprop``, with torch's default constants.
        initialisation: of weights, see :data:`wsl.zoo.language.INITIALISATIONS`.
        initial_scale: multiplies the initial weights.
        train_fraction: share of the training text's sequences, drawn for each network.
        batch_size: sequences a step.
        steps: of the optimizer.
        checkpoints: after these steps the network is stored; 0 is the initial one. The last step always is.

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
    batch_size: int | list[int] = 16
    steps: int | list[int] = 1000
    checkpoints: list[int] | None = None

    def __post_init__(self) -> None:
        check_number("recipe.learning_rate", self.learning_rate, 0, 1e30, open_low=True)
        check_number("recipe.weight_decay", self.weight_decay, 0, 1e6)
        check_number("recipe.dropout", self.dropout, 0, 0.99)
        check_choice("recipe.optimizer", self.optimizer, list(OPTIMIZERS))
        check_choice("recipe.initialisation", self.initialisation, INITIALISATIONS)
        check_number("recipe.initial_scale", self.initial_scale, 0, 1e6, open_low=True)
        check_number("recipe.train_fraction", self.train_fraction, 0, 1, open_low=True)
        check_number("recipe.batch_size", list(map(float, as_list(self.batch_size))), 1, 1e6)
        check_number("recipe.steps", list(map(float, as_list(self.steps))), 0, 1e9)
        if self.checkpoints is not None and any(step < 0 for step in self.checkpoints):
            raise ZooError(f"recipe.checkpoints are {self.checkpoints}, expected steps from 0 on.")

    def draw(self, generator: np.random.Generator) -> LanguageHyperparameters:
        """The hyperparameters of one network; changing one entry of the recipe leaves the others alone."""
        return LanguageHyperparameters(
            learning_rate=draw_number(self.learning_rate, generator),
            weight_decay=draw_number(self.weight_decay, generator),
            dropout=round(draw_number(self.dropout, generator) * DROPOUT_LEVELS) / DROPOUT_LEVELS,
            optimizer=draw_choice(self.optimizer, generator),
            initialisation=draw_choice(self.initialisation, generator),
            initial_scale=draw_number(self.initial_scale, generator),
            train_fraction=draw_number(self.train_fraction, generator),
            batch_size=draw_choice(self.batch_size, generator),
            steps=draw_choice(self.steps, generator),
        )

    def stored_steps(self, steps: int) -> tuple[int, ...]:
        """The steps after which a network that trains for ``steps`` is stored, in order."""
        return tuple(sorted({step for step in chain(self.checkpoints or [], [steps]) if step <= steps}))
