"""Classifiers as a population: how their stacks are trained and what is known of their checkpoints."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.classifiers._data import TaskImages, drawn_rows
from wsl.zoo.classifiers._plan import ClassifierPlan, images_seen
from wsl.zoo.classifiers._stack import ClassifierStack
from wsl.zoo.classifiers._train import evaluate, network_images, train_networks
from wsl.zoo.training import Description, Population, StackTraining

P = TypeVar("P", bound=ClassifierPlan)


@dataclass(frozen=True, eq=False)
class ClassifierTraining(StackTraining[P, ClassifierStack]):
    """Trains stacks of classifiers and describes their checkpoints; see :class:`StackTraining`."""

    images: TaskImages
    quality = "test_accuracy"

    def population(self, stacks: list[list[P]], name: Callable[[ForwardDefinition], str]) -> Population[P]:
        """The population of these stacks; ``name`` tells an architecture from the others."""
        return Population(
            stacks=stacks,
            name=name,
            example=lambda _: self.images.task.example(),
            examples=lambda plan: images_seen(plan, len(self.images.train)),
            train=self.train,
            unit="images",
            quality=lambda accuracy: f"{100 * accuracy:.1f} % right",
        )

    def rows(
        self, stack: ClassifierStack, plans: Sequence[P], advance: Callable[[int], None]
    ) -> list[Tensor]:
        trained = train_networks(stack, plans, self.images.train, self.images.task.classes, advance)
        return [torch.stack([checkpoint.row for checkpoint in own]) for own in trained]

    def describe(self, stack: ClassifierStack, plan: P, rows: Tensor) -> Description:
        train, test, cap = self.images.train, self.images.test, self.evaluated
        seen = network_images(plan, train.labels, self.images.task.classes)
        tested = drawn_rows(len(test), cap)
        updates = [seen.steps(epoch, plan.hyperparameters.batch_size) for epoch in plan.stored]
        return Description(
            evaluate(stack, rows, train.pixels, seen.rows[:cap], seen.labels[:cap]),
            evaluate(stack, rows, test.pixels, tested, test.labels.numpy()[tested]),
            {"train_images": len(seen), "updates": updates},
        )
