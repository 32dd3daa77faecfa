"""Measures of the loss landscape around the networks of a cell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from wsl.landscape import (
    PhaseThresholds,
    connect,
    hessian_top,
    hessian_trace,
    linear_cka,
    mode_connectivity,
    output_features,
    phase_labels,
)
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo.classifiers._data import LabelledImages, NetworkImages, drawn_rows
from wsl.zoo.classifiers._module_stack import ModuleStack
from wsl.zoo.classifiers._stack import ClassifierStack
from wsl.zoo.classifiers._train import evaluate
from wsl.zoo.training import StackedDropout


@dataclass(frozen=True)
class LandscapeMeasures:
    """How the loss around networks is measured.

    Args:
        images: training images at most for curvature and along curves, and test images for CKA.
        trace_samples: vectors of Hutchinson's estimator.
        power_iterations: products at most for the top eigenvalue.
        curve_epochs: passes over the training images for each curve.
        curve_batch_size, curve_learning_rate: of its descent.
        curve_points: where losses are taken along a curve, ends included.
        thresholds: where the phases part.

    Raises:
        ZooError: a value outside its range.
    """

    images: int = 500
    trace_samples: int = 20
    power_iterations: int = 50
    curve_epochs: int = 10
    curve_batch_size: int = 64
    curve_learning_rate: float = 0.05
    curve_points: int = 5
    thresholds: PhaseThresholds = field(default_factory=PhaseThresholds)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = {"curve_points": 3, "curve_epochs": 0}.get(name, 1)
            if isinstance(value, int) and value < least:
                raise ZooError(f"measures.{name} is {value}, expected at least {least}.")
        if not self.curve_learning_rate > 0:
            raise ZooError(f"measures.curve_learning_rate is {self.curve_learning_rate}, expected above 0.")


@dataclass(frozen=True, eq=False)
class CellMeasures:
    """Measures networks of one architecture that differ in their seeds.

    Args:
        stack: of the networks.
        forward: builds one of them.
        measures: how they are measured.
        train, test: the images.
        classes: of the labels.
        advance: called between the steps, so that the build can stop.
    """

    stack: ClassifierStack
    forward: ForwardDefinition
    measures: LandscapeMeasures
    train: LabelledImages
    test: LabelledImages
    classes: int
    advance: Callable[[int], None]

    def columns(self, rows: Tensor, train_loss: np.ndarray, seed: Sequence[int]) -> dict[str, np.ndarray]:
        """Metadata of the networks ``(S, P)``: those of a group have one value for all.

        Args:
            train_loss: ``(S,)``, of the networks.
            seed: words of the seed of the random vectors, points and batches.
        """
        words = np.random.SeedSequence(list(seed)).generate_state(2, np.uint64)
        generator = torch.Generator().manual_seed(int(words[0] >> 1))
        trace, top = self._curvature(rows, generator)
        cka = self._similarity(rows)
        connectivity = self._connectivity(rows, generator, np.random.default_rng(int(words[1])))
        phase = phase_labels(train_loss.mean(), top.mean(), connectivity, cka, self.measures.thresholds)
        group = {"cka": cka, "mode_connectivity": connectivity, "phase": phase.item()}
        return {"hessian_trace": trace, "hessian_top": top} | {
            name: np.repeat(np.array([value]), len(rows)) for name, value in group.items()
        }

    def _curvature(self, rows: Tensor, generator: torch.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Traces and top eigenvalues, both ``(S,)``: of the mean cross-entropy on training images."""
        smooth, networks = ModuleStack(self.forward), len(rows)  # any stack's own gradient has no graph
        count = min(self.measures.images, len(self.train))
        images = smooth.batch(self.train.pixels, np.broadcast_to(np.arange(count), (networks, count)))
        labels = self.train.labels[:count].repeat(networks)

        def loss(points: Tensor) -> Tensor:
            self.advance(0)
            outputs = smooth.logits(smooth.tensors(points), images)
            losses = F.cross_entropy(outputs.flatten(0, 1), labels, reduction="none")
            return losses.view(networks, count).mean(1)

        trace = hessian_trace(loss, rows, samples=self.measures.trace_samples, generator=generator)
        top = hessian_top(loss, rows, iterations=self.measures.power_iterations, generator=generator)
        return trace.double().numpy(), top.double().numpy()

    def _similarity(self, rows: Tensor) -> float:
        """Mean over all pairs of the CKA of what their last layers see of test images."""
        module, features = self.forward.build(), []
        pixels = self.test.pixels[drawn_rows(len(self.test), self.measures.images)].permute(0, 3, 1, 2)
        for row in rows:
            weights = {name: tensor[0] for name, tensor in self.stack.tensors(row[None]).items()}
            module.load_state_dict(weights)
            features.append(output_features(module, pixels))
        return float(np.mean([linear_cka(x, y).item() for x, y in combinations(features, 2)]))

    def _connectivity(self, rows: Tensor, generator: torch.Generator, order: np.random.Generator) -> float:
        """Mean over a ring of pairs; of two networks, over the one pair."""
        start, end = (rows, rows.roll(-1, 0)) if len(rows) > 2 else (rows[:1], rows[1:])
        curves, size = len(start), self.measures.curve_batch_size
        seen = NetworkImages(self.train.labels, self.classes, 1.0, 0.0, order)
        dropout = StackedDropout([0.0] * curves, [[0]] * curves)

        def gradient(points: Tensor) -> Tensor:
            self.advance(0)
            taken, labels = (np.broadcast_to(one, (curves, size)).copy() for one in seen.next_batch(size))
            images = self.stack.batch(self.train.pixels, taken)
            return self.stack.gradient(points, images, torch.from_numpy(labels), dropout)

        found = connect(
            start,
            end,
            gradient,
            steps=seen.steps(self.measures.curve_epochs, size),
            learning_rate=self.measures.curve_learning_rate,
            generator=generator,
        )
        count = min(self.measures.images, len(self.train))
        labels = self.train.labels.numpy()[:count]
        losses = [
            evaluate(self.stack, found.at(t), self.train.pixels, np.arange(count), labels).loss
            for t in np.linspace(0, 1, self.measures.curve_points)
        ]
        return mode_connectivity(torch.from_numpy(np.stack(losses))).mean().item()
