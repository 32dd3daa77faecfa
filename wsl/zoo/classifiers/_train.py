"""Trains networks of one architecture together and evaluates their checkpoints."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from wsl.zoo.classifiers._data import LabelledImages, NetworkImages
from wsl.zoo.classifiers._initial import initial_row
from wsl.zoo.classifiers._plan import ClassifierPlan
from wsl.zoo.classifiers._stack import ClassifierStack
from wsl.zoo.training import EXAMPLES, Metrics, dropout_of, mean_metrics, optimizer_of, train_rows

# Images of one evaluation step, over all networks of the stack. Part of the result's rounding: a constant.
_EVALUATED = 1024


class Checkpoint(NamedTuple):
    """A network after an epoch: the steps taken so far, and its row ``(P + Q,)``."""

    epoch: int
    updates: int
    row: Tensor


def initial_rows(stack: ClassifierStack, plans: Sequence[ClassifierPlan]) -> Tensor:
    """``(M, P + Q)`` float32, see :class:`ClassifierStack`; each row depends on its own plan alone."""
    buffers = [buffer.flatten() for buffer in stack.buffers.values()]
    rows = []
    for plan in plans:
        drawn = plan.hyperparameters
        row = initial_row(stack.shapes, drawn.initialisation, drawn.initial_scale, plan.initial_generator())
        rows.append(torch.cat([row, *buffers]))
    return torch.stack(rows)


def network_images(plan: ClassifierPlan, labels: Tensor, classes: int) -> NetworkImages:
    """What one network sees, from the start."""
    drawn = plan.hyperparameters
    generator = np.random.default_rng(plan.seed_of(EXAMPLES))
    return NetworkImages(labels, classes, drawn.train_fraction, drawn.label_noise, generator)


def train_networks(
    stack: ClassifierStack,
    plans: Sequence[ClassifierPlan],
    train: LabelledImages,
    classes: int,
    advance: Callable[[int], None] = lambda images: None,
) -> list[list[Checkpoint]]:
    """Train networks of one batch size together, as each would train alone.

    Args:
        plans: by falling number of steps; networks that are done leave the stack.
        train: all training images, in the type in which to compute.
        advance: called before each step with the number of images in it, over all networks.

    Returns:
        For each network its checkpoints, in order.
    """
    batch_size = plans[0].hyperparameters.batch_size
    images = [network_images(plan, train.labels, classes) for plan in plans]
    rows = initial_rows(stack, plans).to(train.pixels)
    optimizer, dropout = optimizer_of(plans, rows[:, : stack.parameters]), dropout_of(plans)
    stored = [
        [seen.steps(epoch, batch_size) for epoch in plan.stored]
        for seen, plan in zip(images, plans, strict=True)
    ]

    def gradient(active: int) -> Tensor:
        advance(active * batch_size)
        batches = [seen.next_batch(batch_size) for seen in images[:active]]
        pixels = stack.batch(train.pixels, np.stack([taken for taken, _ in batches]))
        labels = torch.from_numpy(np.stack([values for _, values in batches]))
        return stack.gradient(rows[:active], pixels, labels, dropout)

    copies = train_rows(rows, stored, optimizer, gradient)
    return [
        [Checkpoint(*found) for found in zip(plan.stored, steps, own, strict=True)]
        for plan, steps, own in zip(plans, stored, copies, strict=True)
    ]


def evaluate(
    stack: ClassifierStack, rows: Tensor, pixels: Tensor, taken: np.ndarray, labels: np.ndarray
) -> Metrics:
    """Loss and accuracy of M networks on the same images; those with outputs that are not finite are wrong.

    Args:
        rows: ``(M, P + Q)``.
        pixels: ``(n, H, W, C)``.
        taken, labels: ``(count,)``, the images to use by their rows, and their labels.
    """
    tensors, wanted, M = stack.tensors(rows), torch.from_numpy(labels), len(rows)
    size = max(1, _EVALUATED // M)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, len(taken), size):
            some = np.broadcast_to(taken[start : start + size], (M, len(taken[start : start + size])))
            outputs = stack.logits(tensors, stack.batch(pixels, some))
            yield outputs, wanted[start : start + size].expand(M, -1)

    return mean_metrics(M, batches())
