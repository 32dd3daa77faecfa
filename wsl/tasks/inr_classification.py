"""Classify networks by a label of what they represent, e.g. the digit that an INR shows."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics.classification import MulticlassAccuracy

from wsl.data import MixedBatch, WeightBatch
from wsl.encoders import Encoder, GraphMetanetwork, MixedEncoder
from wsl.spec import WeightSpec
from wsl.tasks.base import EncoderFactory, OptimizerFactory, ScheduleFactory
from wsl.tasks.factories import TaskError
from wsl.tasks.invariant import STAGES, InvariantTask
from wsl.tasks.schedule import WarmupCosine


class INRClassification(InvariantTask):
    """Cross entropy on the logits of an invariant head over an encoder.

    Labels are classes, or probabilities of classes where augmentations mix networks; the training accuracy
    then counts the likeliest class.

    On data of several architectures the head is a :class:`wsl.nn.PooledHead`. Encoder and head are built for
    the data's specification when the run starts. Metrics of each stage: ``{train,val,test}/loss`` and
    ``{train,val,test}/accuracy``.

    Args:
        encoder: an encoder class with its arguments but the specification; in Python, the class or
            ``functools.partial`` of it.
        optimizer: an optimizer class with its arguments but the parameters.
        schedule: a scheduler class with its arguments but the optimizer and the number of steps; stepped
            every step.
        probes: run the networks at this many learned inputs and let the encoder read their activations;
            needs a zoo that says how to run its networks, and an encoder with probe features. Inputs start
            at the coordinates of INRs, or as images of noise; all architectures of the data share them.
        label_smoothing: share of the target that is spread over all classes.

    Raises:
        TaskError: an argument that a checkpoint could not hold, or data of another architecture.
    """

    metrics = tuple(f"{stage}/{name}" for stage in STAGES for name in ("loss", "accuracy"))

    def __init__(
        self,
        encoder: EncoderFactory = GraphMetanetwork,
        optimizer: OptimizerFactory = torch.optim.AdamW,
        schedule: ScheduleFactory = WarmupCosine,
        probes: int = 0,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(encoder, optimizer, schedule, probes)
        if not 0 <= label_smoothing < 1:
            raise TaskError(f"label_smoothing is {label_smoothing}; expected a share in [0, 1).")
        self.label_smoothing = label_smoothing
        self.remember(
            encoder=encoder,
            optimizer=optimizer,
            schedule=schedule,
            probes=probes,
            label_smoothing=label_smoothing,
        )
        self.accuracies = nn.ModuleDict()

    def build_head(self, spec: WeightSpec, encoder: Encoder, outputs: int) -> nn.Module:
        self._count_with(outputs)
        return super().build_head(spec, encoder, outputs)

    def build_mixed_head(self, encoder: MixedEncoder, outputs: int) -> nn.Module:
        self._count_with(outputs)
        return super().build_mixed_head(encoder, outputs)

    def read_out(self, outputs: Tensor) -> dict[str, Tensor]:
        """``probabilities`` ``(B, classes)``."""
        return {"probabilities": outputs.softmax(dim=-1)}

    def _count_with(self, classes: int) -> None:
        self.accuracies = nn.ModuleDict(
            {f"{stage}_accuracy": MulticlassAccuracy(classes, average="micro") for stage in STAGES}
        )

    def step(self, batch: WeightBatch | MixedBatch, stage: str) -> Tensor:
        logits = self(batch.weights)
        loss = F.cross_entropy(logits, batch.labels, label_smoothing=self.label_smoothing)
        accuracy = self.accuracies[f"{stage}_accuracy"]
        assert isinstance(accuracy, MulticlassAccuracy)
        accuracy(logits, classes_of(batch.labels))
        options: dict[str, Any] = {"on_step": False, "on_epoch": True, "batch_size": len(batch.labels)}
        self.log(f"{stage}/loss", loss, sync_dist=True, **options)
        self.log(f"{stage}/accuracy", accuracy, prog_bar=True, **options)
        return loss


def classes_of(labels: Tensor) -> Tensor:
    """``(B,)`` labels as they are; of probabilities ``(B, classes)`` the likeliest class."""
    return labels.argmax(dim=1) if labels.dim() == 2 else labels
