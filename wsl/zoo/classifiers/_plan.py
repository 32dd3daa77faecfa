"""Which networks a zoo has, and which of them train together."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._json import dump_json
from wsl.zoo.classifiers._architecture import ClassifierArchitecture, Task
from wsl.zoo.classifiers._recipe import Hyperparameters, TrainingRecipe

# Images of one training step, over all networks of a stack: large enough for full speed, small enough for the
# processor's cache. Part of the result's rounding, so it is a constant.
_STACK_IMAGES = 512
DRAWN, INITIAL, IMAGES, DROPOUT = range(4)
"""What a random stream of a network is for."""


@dataclass(frozen=True)
class NetworkPlan:
    """One network to train.

    Args:
        model: its number in the zoo.
        seed: with the number it makes the seeds of all that is drawn for the network.
        forward: its architecture.
        hyperparameters: how it is trained.
        stored_epochs: when it is stored, in order; 0 is before the first step.
    """

    model: int
    seed: int
    forward: ForwardDefinition
    hyperparameters: Hyperparameters
    stored_epochs: tuple[int, ...]

    def seed_of(self, purpose: int) -> list[int]:
        """Words of the seed of one of the network's random streams."""
        return [self.seed, self.model, purpose]

    def images_seen(self, images: int) -> int:
        """Training images over all epochs, of a zoo with so many."""
        return self.hyperparameters.epochs * max(1, round(self.hyperparameters.train_fraction * images))


def draw_plans(
    networks: int, architecture: ClassifierArchitecture, recipe: TrainingRecipe, task: Task, seed: int
) -> list[NetworkPlan]:
    """The networks of a zoo; each depends on the seed and its number alone."""
    plans = []
    for model in range(networks):
        generator = np.random.default_rng([seed, model, DRAWN])
        drawn = recipe.draw(generator)
        forward = architecture.draw(task, generator)
        plans.append(NetworkPlan(model, seed, forward, drawn, tuple(recipe.stored_epochs(drawn.epochs))))
    return plans


def stacks_of(plans: list[NetworkPlan], images: int) -> list[list[NetworkPlan]]:
    """Networks that train together, those with most work first: one architecture, one batch size.

    Networks without dropout are by themselves, as they are faster; those of a stack train about equally long.
    """
    groups: dict[tuple[str, int, bool], list[NetworkPlan]] = {}
    for plan in plans:
        drawn = plan.hyperparameters
        key = dump_json("forward", plan.forward.to_dict()), drawn.batch_size, drawn.dropout > 0
        groups.setdefault(key, []).append(plan)
    stacks = [stack for group in groups.values() for stack in _cut(group, images)]
    return sorted(stacks, key=lambda stack: -sum(plan.images_seen(images) for plan in stack))


def _cut(group: list[NetworkPlan], images: int) -> Iterator[list[NetworkPlan]]:
    size = stack_size(group[0].hyperparameters.batch_size)
    group = sorted(group, key=lambda plan: -plan.images_seen(images))
    for start in range(0, len(group), size):
        yield group[start : start + size]


def stack_size(batch_size: int) -> int:
    """Networks of a stack at most."""
    return min(32, max(4, _STACK_IMAGES // batch_size))
