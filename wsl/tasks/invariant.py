"""`InvariantTask`: what tasks share that predict something of each network that symmetries leave alone."""

from abc import abstractmethod
from typing import Any

from torch import Tensor, nn

from wsl.data import MixedBatch, WeightBatch
from wsl.encoders import Encoder, MixedEncoder, MixedWeights
from wsl.nn import InvariantHead, PooledHead
from wsl.spec import WeightSpec
from wsl.tasks.base import NOT_BUILT, BaseTask
from wsl.tasks.factories import TaskError

STAGES = ("train", "val", "test")


class InvariantTask(BaseTask):
    """An invariant head over an encoder; on data of several architectures a :class:`wsl.nn.PooledHead`.

    Subclasses implement :meth:`step`, and :meth:`read_out`, which names what ``predict`` writes.
    """

    def build_head(self, spec: WeightSpec, encoder: Encoder, outputs: int) -> nn.Module:
        return InvariantHead(spec, encoder.channels, outputs)

    def build_mixed_head(self, encoder: MixedEncoder, outputs: int) -> nn.Module:
        return PooledHead(encoder.channels, outputs)

    @abstractmethod
    def step(self, batch: WeightBatch | MixedBatch, stage: str) -> Tensor:
        """The loss of a batch; logs it and the metrics of the stage, one of :data:`STAGES`."""

    @abstractmethod
    def read_out(self, outputs: Tensor) -> dict[str, Tensor]:
        """What is predicted, from the head's outputs ``(B, outputs)``: tensors of ``B`` rows by name."""

    def forward(self, weights: dict[str, Tensor] | MixedWeights) -> Tensor:
        """The head's outputs ``(B, outputs)`` for weights ``(B, *shape)``, or of several architectures.

        Raises:
            TaskError: there is no encoder yet.
        """
        if self.encoder is None or self.head is None:
            raise TaskError(NOT_BUILT.format(type(self).__name__))
        outputs: Tensor = self.head(self.encoder(weights))
        return outputs

    def embed(self, weights: dict[str, Tensor] | MixedWeights) -> Tensor:
        """Embeddings ``(B, features)``; weights and errors as of :meth:`forward`."""
        if self.encoder is None:
            raise TaskError(NOT_BUILT.format(type(self).__name__))
        return self.embedding(self.encoder(weights))

    def embedding(self, features: Any) -> Tensor:
        """The embeddings in the encoder's features: what the head pools of them."""
        assert isinstance(self.head, InvariantHead | PooledHead)
        return self.head.pool(features)

    def training_step(self, batch: WeightBatch | MixedBatch, batch_idx: int) -> Tensor:
        return self.step(batch, "train")

    def validation_step(self, batch: WeightBatch | MixedBatch, batch_idx: int) -> None:
        self.step(batch, "val")

    def test_step(self, batch: WeightBatch | MixedBatch, batch_idx: int) -> None:
        self.step(batch, "test")

    def predict_step(self, batch: WeightBatch | MixedBatch, batch_idx: int) -> dict[str, Tensor]:
        """Rows ``(B,)``, labels ``(B,)``, what :meth:`read_out` gives, and embeddings ``(B, features)``."""
        assert self.encoder is not None and self.head is not None
        features = self.encoder(batch.weights)
        found = self.read_out(self.head(features))
        return {"rows": batch.rows, "labels": batch.labels, **found, "embeddings": self.embedding(features)}
