"""Change what INRs show by changing their weights: dilated, eroded, sharper, turned."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsl.data import BaseDataModule, WeightBatch
from wsl.encoders import Encoder, FlatMLP, GraphMetanetwork, ScaleGMN, ScaleGMNBidirectional
from wsl.nn import EquivariantHead, FlatHead, ScaleEquivariantHead
from wsl.spec import WeightSpec
from wsl.tasks.base import NOT_BUILT, BaseTask, EncoderFactory, OptimizerFactory, ScheduleFactory
from wsl.tasks.edits import Dilate, Edit
from wsl.tasks.factories import TaskError, value_from_plain, value_to_plain
from wsl.tasks.invariant import STAGES
from wsl.tasks.probing import from_plain
from wsl.tasks.schedule import WarmupCosine
from wsl.zoo.inr import Renderer

_SHOWN = 8


class INREditing(BaseTask):
    """An equivariant head over an encoder adds an update to the weights; the loss is that of the images.

    The target of a network is the edit of the image that it shows, so that a zoo of INRs is all that is
    needed. Metrics of each stage: ``{train,val,test}/loss``, the mean squared error between the edited
    network's values at the pixels and the target (values in [0, 1]), and ``{train,val,test}/copy_loss``, that
    of the network as it was.

    Args:
        encoder, optimizer, schedule, probes: as of :class:`wsl.tasks.INRClassification`.
        edit: what to learn, one of :mod:`wsl.tasks.edits`; :class:`wsl.tasks.Dilate` if not given.
        scale: initial gain of the update, of each block of weights; learned.

    Raises:
        TaskError: an argument that a checkpoint could not hold; when data are given, networks that are no
            INRs of images.

    Source: the task of Zhou et al. 2023 (arXiv:2302.14040), "editing INRs"; dilation as there.
    """

    metrics = tuple(f"{stage}/{name}" for stage in STAGES for name in ("loss", "copy_loss"))
    runs_networks = True
    picture_rows = ("before", "as wanted", "after")
    render: Renderer

    def __init__(
        self,
        encoder: EncoderFactory = GraphMetanetwork,
        optimizer: OptimizerFactory = torch.optim.AdamW,
        schedule: ScheduleFactory = WarmupCosine,
        probes: int = 0,
        edit: Edit | None = None,
        scale: float = 0.01,
    ) -> None:
        super().__init__(encoder, optimizer, schedule, probes)
        self.edit = value_from_plain(edit, Edit) if isinstance(edit, Mapping) else edit or Dilate()
        self.scale = scale
        self.remember(
            encoder=encoder,
            optimizer=optimizer,
            schedule=schedule,
            probes=probes,
            edit=value_to_plain(self.edit),
            scale=scale,
        )
        self.pictures: tuple[Tensor, ...] = ()
        """Images of the first networks of the last validation, as ``picture_rows`` name them."""

    def outputs(self, data: BaseDataModule) -> int:
        return 1  # for each weight

    def build_head(self, spec: WeightSpec, encoder: Encoder, outputs: int) -> nn.Module:
        if isinstance(encoder, ScaleGMN | ScaleGMNBidirectional):
            return ScaleEquivariantHead(spec, encoder.channels, self.scale)
        if isinstance(encoder, FlatMLP):
            return FlatHead(spec, encoder.channels, self.scale)
        return EquivariantHead(spec, encoder.channels, self.scale)

    def forward(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The edited weights ``(B, *shape)``, by name.

        Raises:
            TaskError: there is no encoder yet.
        """
        if self.encoder is None or self.head is None:
            raise TaskError(NOT_BUILT.format(type(self).__name__))
        update: dict[str, Tensor] = self.head(self.encoder(weights))
        return {name: tensor + update[name] for name, tensor in weights.items()}

    def training_step(self, batch: WeightBatch, batch_idx: int) -> Tensor:
        return self._step(batch, "train")[0]

    def validation_step(self, batch: WeightBatch, batch_idx: int) -> None:
        images = self._step(batch, "val")[1]
        if batch_idx == 0:
            self.pictures = tuple(picture[:_SHOWN].detach().cpu() for picture in images)

    def test_step(self, batch: WeightBatch, batch_idx: int) -> None:
        self._step(batch, "test")

    def predict_step(self, batch: WeightBatch, batch_idx: int) -> dict[str, Tensor]:
        """Rows ``(B,)``, and images before, as wanted and after ``(B, H, W[, C])`` in [0, 1]."""
        names = ("before", "wanted", "after")
        images = zip(names, self._images(batch.weights), strict=True)
        return {"rows": batch.rows, **{name: image.clamp(0, 1) for name, image in images}}

    def _images(self, weights: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            before = self.render(weights).clamp(0, 1)
        wanted = torch.as_tensor(self.edit(before.cpu().numpy()), dtype=before.dtype, device=before.device)
        return before, wanted, self.render(self(weights))

    def _step(self, batch: WeightBatch, stage: str) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        before, wanted, after = self._images(batch.weights)
        loss = F.mse_loss(after, wanted)
        options: dict[str, Any] = {
            "on_step": False,
            "on_epoch": True,
            "batch_size": len(batch.rows),
            "sync_dist": True,
        }
        self.log(f"{stage}/loss", loss, prog_bar=True, **options)
        self.log(f"{stage}/copy_loss", F.mse_loss(before, wanted), **options)
        return loss, (before, wanted, after)

    def _build(self, record: dict[str, Any], examples: Tensor | None = None) -> None:
        super()._build(record, examples)
        ((_, definition),) = from_plain(record["forward"])
        grid = definition.grid
        if grid is None or len(grid) != 2:
            raise TaskError(
                f"{type(self).__name__} edits images, and the networks of the zoo show none: their "
                f"coordinate grid is {grid}.\n  Give it a zoo of INRs of images."
            )
        self.render = Renderer(definition).to(self.device)
