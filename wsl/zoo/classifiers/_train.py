"""Trains networks of one architecture together and evaluates their checkpoints."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from wsl.zoo.classifiers._data import LabelledImages, NetworkImages
from wsl.zoo.classifiers._initial import initial_row
from wsl.zoo.classifiers._plan import DROPOUT, IMAGES, INITIAL, NetworkPlan
from wsl.zoo.classifiers._stack import ClassifierStack
from wsl.zoo.training import StackedDropout, StackedOptimizer, train_rows

# Images of one evaluation step, over all networks of the stack. Part of the result's rounding: a constant.
_EVALUATED = 1024


class Checkpoint(NamedTuple):
    """A network after an epoch: the steps taken so far, and its row ``(P + Q,)``."""

    epoch: int
    updates: int
    row: Tensor


class Figures(NamedTuple):
    """Mean cross-entropy and accuracy of M networks: both ``(M,)`` float64."""

    loss: np.ndarray
    accuracy: np.ndarray


def initial_rows(stack: ClassifierStack, plans: Sequence[NetworkPlan]) -> Tensor:
    """``(M, P + Q)`` float32, see :class:`ClassifierStack`; each row depends on its own plan alone."""
    buffers = [buffer.flatten() for buffer in stack.buffers.values()]
    rows = []
    for plan in plans:
        words = np.random.SeedSequence(plan.seed_of(INITIAL)).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(words[0] >> 1))
        drawn = plan.hyperparameters
        row = initial_row(stack.shapes, drawn.initialisation, drawn.initial_scale, generator)
        rows.append(torch.cat([row, *buffers]))
    return torch.stack(rows)


def network_images(plan: NetworkPlan, labels: Tensor, classes: int) -> NetworkImages:
    """What one network sees, from the start."""
    drawn = plan.hyperparameters
    generator = np.random.default_rng(plan.seed_of(IMAGES))
    return NetworkImages(labels, classes, drawn.train_fraction, drawn.label_noise, generator)


def train_networks(
    stack: ClassifierStack,
    plans: Sequence[NetworkPlan],
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
    drawn = [plan.hyperparameters for plan in plans]
    batch_size = drawn[0].batch_size
    images = [network_images(plan, train.labels, classes) for plan in plans]
    rows = initial_rows(stack, plans).to(train.pixels)
    optimizer = StackedOptimizer(
        [h.optimizer for h in drawn],
        [h.learning_rate for h in drawn],
        [h.weight_decay for h in drawn],
        rows[:, : stack.parameters],
    )
    dropout = StackedDropout([h.dropout for h in drawn], [plan.seed_of(DROPOUT) for plan in plans])
    stored = [
        [seen.steps(epoch, batch_size) for epoch in plan.stored_epochs]
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
        [Checkpoint(*found) for found in zip(plan.stored_epochs, steps, own, strict=True)]
        for plan, steps, own in zip(plans, stored, copies, strict=True)
    ]


def evaluate(
    stack: ClassifierStack, rows: Tensor, pixels: Tensor, taken: np.ndarray, labels: np.ndarray
) -> Figures:
    """Loss and accuracy of M networks on the same images; those with outputs that are not finite are wrong.

    Args:
        rows: ``(M, P + Q)``.
        pixels: ``(n, H, W, C)``.
        taken, labels: ``(count,)``, the images to use by their rows, and their labels.
    """
    tensors, wanted, M = stack.tensors(rows), torch.from_numpy(labels), len(rows)
    loss, right = torch.zeros(M, dtype=torch.float64), torch.zeros(M, dtype=torch.int64)
    size = max(1, _EVALUATED // M)
    with torch.no_grad():
        for start in range(0, len(taken), size):
            some = np.broadcast_to(taken[start : start + size], (M, len(taken[start : start + size])))
            outputs = stack.logits(tensors, stack.batch(pixels, some))
            target = wanted[start : start + size].expand(M, -1)
            losses = F.cross_entropy(outputs.flatten(0, 1), target.flatten(), reduction="none")
            loss += losses.view_as(target).double().sum(1)
            right += ((outputs.argmax(-1) == target) & outputs.isfinite().all(-1)).sum(1)
    return Figures((loss / len(taken)).numpy(), (right.double() / len(taken)).numpy())
