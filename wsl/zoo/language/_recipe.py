"""How language models are trained: what is drawn for each of them."""

from dataclasses import dataclass

import numpy as np

from wsl.zoo.language._initial import INITIALISATIONS
from wsl.zoo.training import Number, PopulationHyperparameters, PopulationRecipe, Range, draw_choice

_LEARNING_RATE = Range(1e-4, 3e-2, log=True)


@dataclass(frozen=True)
class LanguageHyperparameters(PopulationHyperparameters):
    """Those of one network; see :class:`LanguageRecipe`."""

    steps: int

    @property
    def duration(self) -> int:
        return self.steps


@dataclass(frozen=True)
class LanguageRecipe(PopulationRecipe[LanguageHyperparameters]):
    """Training on the cross-entropy of the next character; see also :class:`PopulationRecipe`.

    Args:
        initialisation: of weights, see :data:`wsl.zoo.language.INITIALISATIONS`.
        train_fraction: share of the training text's sequences, drawn for each network.
        batch_size: sequences a step.
        checkpoints: after these steps the network is stored; 0 is the initial one. The last step always is.
        steps: of the optimizer.

    Raises:
        ZooError: a value outside its range.
    """

    learning_rate: Number = _LEARNING_RATE
    batch_size: int | list[int] = 16
    steps: int | list[int] = 1000

    def __post_init__(self) -> None:
        self._check(INITIALISATIONS, "steps")

    def draw(self, generator: np.random.Generator) -> LanguageHyperparameters:
        return LanguageHyperparameters(
            **self._draw_shared(generator),
            batch_size=draw_choice(self.batch_size, generator),
            steps=draw_choice(self.steps, generator),
        )
