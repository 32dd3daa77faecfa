"""Predict how well networks generalise from their weights alone."""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsl._scores import SCORES
from wsl.data import BaseDataModule, MixedBatch, WeightBatch
from wsl.encoders import GraphMetanetwork
from wsl.tasks.base import EncoderFactory, OptimizerFactory, ScheduleFactory
from wsl.tasks.factories import TaskError
from wsl.tasks.invariant import STAGES, InvariantTask
from wsl.tasks.schedule import WarmupCosine
from wsl.tasks.scores import PredictionScores

Loss = Literal["cross_entropy", "logit_mse", "mse"]
# Accuracies of 0 and 1 have no finite logit: they count as half an image of 1,000 away.
_SMALLEST_SHARE = 5e-4


class GeneralizationPrediction(InvariantTask):
    """A number for each network: its test accuracy, its test loss, the gap between both splits.

    The number is the metadata column, or the expression of columns, that ``data.label`` names. Metrics of
    each stage: ``{train,val,test}/loss``, and Kendall's ``tau``-b, ``spearman``, ``r2`` and ``mae`` of the
    whole split.

    Args:
        encoder, optimizer, schedule, probes: as of :class:`wsl.tasks.INRClassification`.
        loss: for shares such as accuracies, ``cross_entropy`` between the share and the sigmoid of the
            output, or ``logit_mse``, the squared error of the logit; ``mse`` is for any number: outputs are
            in units of the training targets' standard deviation, from their mean.
        ranking: weight of a second loss, the mean logistic loss of the differences within all pairs of the
            batch whose targets differ (RankNet, Burges et al. 2005): it cares for the order alone.

    Raises:
        TaskError: an argument that a checkpoint could not hold, or outside its range; when data are given,
            targets that are not finite, or no shares for a loss that needs them.

    Source: the task of Unterthiner et al. 2020 (arXiv:2002.11448), who report the coefficient of
    determination; Kendall's tau as in Zhou et al. 2023 (arXiv:2302.14040).
    """

    metrics = tuple(f"{stage}/{name}" for stage in STAGES for name in ("loss", *SCORES))
    target_mean: Tensor
    target_std: Tensor

    def __init__(
        self,
        encoder: EncoderFactory = GraphMetanetwork,
        optimizer: OptimizerFactory = torch.optim.AdamW,
        schedule: ScheduleFactory = WarmupCosine,
        probes: int = 0,
        loss: Loss = "cross_entropy",
        ranking: float = 0.0,
    ) -> None:
        super().__init__(encoder, optimizer, schedule, probes)
        if ranking < 0:
            raise TaskError(f"ranking is {ranking}; expected the weight of a loss, 0 for none.")
        self.loss, self.ranking = loss, ranking
        self.remember(
            encoder=encoder, optimizer=optimizer, schedule=schedule, probes=probes, loss=loss, ranking=ranking
        )
        self.scores = nn.ModuleDict({f"{stage}_scores": PredictionScores() for stage in STAGES})
        self.register_buffer("target_mean", torch.zeros(()))
        self.register_buffer("target_std", torch.ones(()))

    def outputs(self, data: BaseDataModule) -> int:
        targets = data.targets
        if self.loss != "mse" and (targets.low < 0 or targets.high > 1):
            raise TaskError(
                f"loss is {self.loss}, which is for shares from 0 to 1, but the targets of the "
                f"networks reach from {targets.low:.4g} to {targets.high:.4g}.\n"
                "  Set model.loss to mse, or name a column of shares with data.label."
            )
        return 1

    def set_data(self, data: BaseDataModule) -> None:
        super().set_data(data)
        if self.loss == "mse":
            self.target_mean.fill_(data.targets.mean)
            self.target_std.fill_(data.targets.std or 1.0)

    def read_out(self, outputs: Tensor) -> dict[str, Tensor]:
        """``predictions`` ``(B,)``, in the targets' unit."""
        values = outputs.squeeze(1)
        if self.loss == "mse":
            return {"predictions": self.target_mean + self.target_std * values}
        return {"predictions": values.sigmoid()}

    def step(self, batch: WeightBatch | MixedBatch, stage: str) -> Tensor:
        outputs, targets = self(batch.weights), _numbers(batch.labels).to(self.target_mean.dtype)
        values = outputs.squeeze(1)
        loss = self._distance(values, targets)
        if self.ranking:
            loss = loss + self.ranking * ranking_loss(values, targets)
        scores = self.scores[f"{stage}_scores"]
        assert isinstance(scores, PredictionScores)
        scores.update(self.read_out(outputs)["predictions"], targets)
        self.log(f"{stage}/loss", loss, on_step=False, on_epoch=True, batch_size=len(targets), sync_dist=True)
        return loss

    def on_train_batch_end(self, outputs: Any, batch: WeightBatch | MixedBatch, batch_idx: int) -> None:
        if self.trainer.is_last_batch:  # callbacks of the epoch's end come before this module's own hook
            self._log_scores("train")

    def on_validation_epoch_end(self) -> None:
        self._log_scores("val")

    def on_test_epoch_end(self) -> None:
        self._log_scores("test")

    def _distance(self, values: Tensor, targets: Tensor) -> Tensor:
        if self.loss == "cross_entropy":
            return F.binary_cross_entropy_with_logits(values, targets)
        if self.loss == "logit_mse":
            return F.mse_loss(values, targets.logit(_SMALLEST_SHARE))
        return F.mse_loss(values, (targets - self.target_mean) / self.target_std)

    def _log_scores(self, stage: str) -> None:
        scores = self.scores[f"{stage}_scores"]
        assert isinstance(scores, PredictionScores)
        found: dict[str, Any] = {f"{stage}/{name}": value for name, value in scores.compute().items()}
        scores.reset()
        self.log_dict(found, on_step=False, on_epoch=True, batch_size=1)


def _numbers(labels: Tensor) -> Tensor:
    """Labels ``(B,)``. Whole numbers were mixed as probabilities ``(B, classes)``: their means are meant."""
    return labels if labels.dim() == 1 else labels @ torch.arange(labels.shape[1]).to(labels)


def ranking_loss(values: Tensor, targets: Tensor) -> Tensor:
    """Mean of ``log(1 + exp(-(v_i - v_j) sign(t_i - t_j)))`` over pairs whose targets differ; 0 without any.

    Args:
        values, targets: ``(B,)``.
    """
    signs = (targets[:, None] - targets).sign()
    losses = F.softplus(-(values[:, None] - values) * signs) * signs.abs()
    return losses.sum() / signs.abs().sum().clamp(min=1)
