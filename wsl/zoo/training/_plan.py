"""Which networks a population has, and which of them train together."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._json import dump_json
from wsl.zoo.training._recipe import H, PopulationRecipe

DRAWN, INITIAL, EXAMPLES, DROPOUT = range(4)
"""What a random stream of a network is for."""


@dataclass(frozen=True)
class NetworkPlan(Generic[H]):
    """One network to train.

    Args:
        model: its number in the zoo.
        seed: with the number it makes the seeds of all that is drawn for the network.
        forward: its architecture.
        hyperparameters: how it is trained.
        stored: the epochs or steps after which it is stored, in order; 0 is before the first step, and the
            last is its end.
    """

    model: int
    seed: int
    forward: ForwardDefinition
    hyperparameters: H
    stored: tuple[int, ...]

    def seed_of(self, purpose: int) -> list[int]:
        """Words of the seed of one of the network's random streams."""
        return [self.seed, self.model, purpose]

    def initial_generator(self) -> torch.Generator:
        """Draws the network's initial weights."""
        words = np.random.SeedSequence(self.seed_of(INITIAL)).generate_state(1, np.uint64)
        return torch.Generator().manual_seed(int(words[0] >> 1))


P = TypeVar("P", bound=NetworkPlan[Any])


def draw_plans(
    networks: int,
    recipe: PopulationRecipe[H],
    architecture: Callable[[np.random.Generator], ForwardDefinition],
    seed: int,
) -> list[NetworkPlan[H]]:
    """The networks of a zoo; each depends on the seed and its number alone.

    Args:
        architecture: draws that of one network.
    """
    plans = []
    for model in range(networks):
        generator = np.random.default_rng([seed, model, DRAWN])
        drawn = recipe.draw(generator)
        forward = architecture(generator)
        plans.append(NetworkPlan(model, seed, forward, drawn, recipe.stored(drawn.duration)))
    return plans


def stacks_of(plans: Sequence[P], examples: Callable[[P], int], most: Callable[[int], int]) -> list[list[P]]:
    """Networks that train together, those with most work first: one architecture, one batch size.

    Networks without dropout are by themselves, as they are faster; those of a stack train about equally long.

    Args:
        examples: how many a network trains on, over all its steps.
        most: networks of a stack at most, for their batch size.
    """
    groups: dict[tuple[str, int, bool], list[P]] = {}
    for plan in plans:
        drawn = plan.hyperparameters
        key = dump_json("forward", plan.forward.to_dict()), drawn.batch_size, drawn.dropout > 0
        groups.setdefault(key, []).append(plan)

    def cut(group: list[P]) -> Iterator[list[P]]:
        size = most(group[0].hyperparameters.batch_size)
        group = sorted(group, key=lambda plan: -examples(plan))
        for start in range(0, len(group), size):
            yield group[start : start + size]

    stacks = [stack for group in groups.values() for stack in cut(group)]
    return sorted(stacks, key=lambda stack: -sum(map(examples, stack)))
