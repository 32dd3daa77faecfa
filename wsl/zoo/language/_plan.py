"""Which networks a zoo has, and which of them train together."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._json import dump_json
from wsl.zoo.language._architecture import LanguageArchitecture
from wsl.zoo.language._recipe import LanguageHyperparameters, LanguageRecipe

# Sequences of one training step, over all networks of a stack: large enough for full speed, small enough for
# the processor's cache. Part of the result's rounding, so it is a constant.
_STACK_SEQUENCES = 128
DRAWN, INITIAL, TEXT, DROPOUT = range(4)
"""What a random stream of a network is for."""


@dataclass(frozen=True)
class LanguagePlan:
    """One network to train.

    Args:
        model: its number in the zoo.
        seed: with the number it makes the seeds of all that is drawn for the network.
        forward: its architecture.
        hyperparameters: how it is trained.
        stored_steps: after which it is stored, in order; the last is its end.
    """

    model: int
    seed: int
    forward: ForwardDefinition
    hyperparameters: LanguageHyperparameters
    stored_steps: tuple[int, ...]

    def seed_of(self, purpose: int) -> list[int]:
        """Words of the seed of one of the network's random streams."""
        return [self.seed, self.model, purpose]

    @property
    def sequences(self) -> int:
        """How many it trains on, over all steps."""
        return self.hyperparameters.steps * self.hyperparameters.batch_size


def draw_plans(
    networks: int,
    architecture: LanguageArchitecture,
    recipe: LanguageRecipe,
    vocabulary: int,
    length: int,
    seed: int,
) -> list[LanguagePlan]:
    """The networks of a zoo; each depends on the seed and its number alone."""
    plans = []
    for model in range(networks):
        generator = np.random.default_rng([seed, model, DRAWN])
        drawn = recipe.draw(generator)
        forward = architecture.draw(vocabulary, length, generator)
        plans.append(LanguagePlan(model, seed, forward, drawn, recipe.stored_steps(drawn.steps)))
    return plans


def stacks_of(plans: list[LanguagePlan]) -> list[list[LanguagePlan]]:
    """Networks that train together, those with most work first: one architecture, one batch size.

    Networks without dropout are by themselves, as they are faster; those of a stack train about equally long.
    """
    groups: dict[tuple[str, int, bool], list[LanguagePlan]] = {}
    for plan in plans:
        drawn = plan.hyperparameters
        key = dump_json("forward", plan.forward.to_dict()), drawn.batch_size, drawn.dropout > 0
        groups.setdefault(key, []).append(plan)
    stacks = [stack for group in groups.values() for stack in _cut(group)]
    return sorted(stacks, key=lambda stack: -sum(plan.sequences for plan in stack))


def stack_size(batch_size: int) -> int:
    """How many networks train together at most."""
    return min(16, max(4, _STACK_SEQUENCES // batch_size))


def _cut(group: list[LanguagePlan]) -> Iterator[list[LanguagePlan]]:
    size = stack_size(group[0].hyperparameters.batch_size)
    group = sorted(group, key=lambda plan: -plan.hyperparameters.steps)
    for start in range(0, len(group), size):
        yield group[start : start + size]
