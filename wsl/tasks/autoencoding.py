"""Compress networks to a short vector, and decode weights from it that show the same."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsl.data import BaseDataModule, MixedBatch, WeightBatch
from wsl.encoders import GraphMetanetwork
from wsl.nn import MLP
from wsl.spec import WeightSpec
from wsl.tasks.base import NOT_BUILT, BaseTask, EncoderFactory, OptimizerFactory, ScheduleFactory
from wsl.tasks.factories import TaskError
from wsl.tasks.invariant import STAGES, InvariantTask
from wsl.tasks.probing import from_plain
from wsl.tasks.schedule import WarmupCosine
from wsl.zoo.inr import Renderer

_SHOWN = 8
_FINEST = 1e-10  # mean squared error below which reconstructions count as equal


class WeightAutoencoder(InvariantTask):
    """An invariant encoder to a latent vector, and a decoder that emits weights of the same architecture.

    The loss is functional: the mean squared error between what the decoded networks show on the grid and
    what those given show. It does not ask for the weights themselves, and with an invariant encoder could
    not: networks that differ by a permutation have one latent vector, so they are decoded to the same
    weights. Embeddings are the latent vectors. Metrics of each stage: ``{train,val,test}/loss``;
    ``{train,val,test}/mean_loss``, the loss that the mean of a batch's signals would have for all of them,
    estimated without bias; and ``{train,val,test}/psnr``, the mean over networks of the peak signal-to-noise
    ratio in dB between both signals, for a peak of 1; images are cut to [0, 1] for it.

    Args:
        encoder, optimizer, schedule, probes: as of :class:`wsl.tasks.INRClassification`.
        latent: size of the vector.
        hidden, layers: of the decoder, see :class:`WeightDecoder`.
        weight_loss: weight of a second loss, the mean squared error of the standardised weights; for zoos
            whose networks share their initial weights, so that their neurons are in the same order.

    Raises:
        TaskError: an argument outside its range; when data are given, networks that are no INRs, or of
            several architectures.

    Source: an autoencoder of weights with invariant encoders, Boufalis et al. 2025 (arXiv:2511.12601). The
    decoder's form and the losses' weights are this package's own.
    """

    metrics = tuple(f"{stage}/{name}" for stage in STAGES for name in ("loss", "mean_loss", "psnr"))
    runs_networks = True
    picture_rows = ("given", "decoded")
    build_mixed_head = BaseTask.build_mixed_head
    render: Renderer
    decoder: "WeightDecoder"

    def __init__(
        self,
        encoder: EncoderFactory = GraphMetanetwork,
        optimizer: OptimizerFactory = torch.optim.AdamW,
        schedule: ScheduleFactory = WarmupCosine,
        probes: int = 0,
        latent: int = 64,
        hidden: int = 256,
        layers: int = 2,
        weight_loss: float = 0.0,
    ) -> None:
        super().__init__(encoder, optimizer, schedule, probes)
        if min(latent, hidden) < 1 or layers < 0 or weight_loss < 0:
            raise TaskError(
                f"latent is {latent}, hidden {hidden}, layers {layers} and weight_loss {weight_loss}; "
                "expected widths of at least 1, and no negative numbers."
            )
        self.latent, self.hidden, self.layers, self.weight_loss = latent, hidden, layers, weight_loss
        self.remember(
            encoder=encoder,
            optimizer=optimizer,
            schedule=schedule,
            probes=probes,
            latent=latent,
            hidden=hidden,
            layers=layers,
            weight_loss=weight_loss,
        )
        self.pictures: tuple[Tensor, ...] = ()
        """Images of the first networks of the last validation, as ``picture_rows`` say; none of others."""

    def outputs(self, data: BaseDataModule) -> int:
        return self.latent

    def set_data(self, data: BaseDataModule) -> None:
        super().set_data(data)
        self.decoder.set_statistics(data.statistics.mean, data.statistics.std)

    def read_out(self, outputs: Tensor) -> dict[str, Tensor]:
        """``latents`` ``(B, latent)``."""
        return {"latents": outputs}

    def embedding(self, features: Any) -> Tensor:
        assert self.head is not None
        latents: Tensor = self.head(features)
        return latents

    def decode(self, latents: Tensor) -> dict[str, Tensor]:
        """Weights ``(B, *shape)`` by name of the networks that ``latents`` ``(B, latent)`` stand for.

        Raises:
            TaskError: there is no decoder yet.
        """
        if self.encoder is None:
            raise TaskError(NOT_BUILT.format(type(self).__name__))
        weights: dict[str, Tensor] = self.decoder(latents)
        return weights

    def step(self, batch: WeightBatch | MixedBatch, stage: str) -> Tensor:
        assert isinstance(batch, WeightBatch)
        decoded = self.decode(self(batch.weights))
        before, after = self.render.show(batch.weights), self.render(decoded)
        loss = F.mse_loss(after, before)
        if self.weight_loss:
            loss = loss + self.weight_loss * self.decoder.distance(decoded, batch.weights)
        shown = after.detach()
        shown = shown.clamp(0, 1) if self.render.definition.clipped else shown
        options: dict[str, Any] = {
            "on_step": False,
            "on_epoch": True,
            "batch_size": len(batch.rows),
            "sync_dist": True,
        }
        self.log(f"{stage}/loss", loss, **options)
        self.log(f"{stage}/mean_loss", spread(before), **options)
        self.log(f"{stage}/psnr", psnr(shown, before).mean(), prog_bar=True, **options)
        return loss

    def validation_step(self, batch: WeightBatch | MixedBatch, batch_idx: int) -> None:
        super().validation_step(batch, batch_idx)
        assert isinstance(batch, WeightBatch)
        grid = self.render.definition.grid
        if batch_idx == 0 and self.render.definition.clipped and grid is not None and len(grid) == 2:
            few = {name: tensor[:_SHOWN] for name, tensor in batch.weights.items()}
            self.pictures = tuple(self.render.show(own).cpu() for own in (few, self.decode(self(few))))

    def _build(self, record: dict[str, Any], examples: Tensor | None = None) -> None:
        super()._build(record, examples)
        ((spec, definition),) = from_plain(record["forward"])
        self.render = Renderer(definition).to(self.device)
        self.decoder = WeightDecoder(spec, self.latent, self.hidden, self.layers).to(self.device)


class WeightDecoder(nn.Module):
    """Weights of one architecture from a vector: an MLP to all standardised entries, scaled block by block.

    It begins with the same random network of typical weights for all vectors, and small differences: an MLP
    as usually initialised would begin with weights of nearly zero, from which INRs learn slowly.

    Args:
        spec: the architecture.
        inputs: size of the vector.
        hidden: width of the hidden layers.
        layers: their number; without any the map is affine.

    Shapes: ``(B, inputs)`` to a ``dict`` of name to ``(B, *shape)``.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, spec: WeightSpec, inputs: int, hidden: int = 256, layers: int = 2) -> None:
        super().__init__()
        self.spec = spec
        self.views = {ref.key: ref.block.view for ref in spec.blocks}
        self.sizes = [torch.Size(view).numel() for view in self.views.values()]
        self.layers = MLP(inputs, hidden, layers, sum(self.sizes))
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        nn.init.normal_(last.bias)
        self.register_buffer("mean", torch.zeros(len(self.views)))
        self.register_buffer("std", torch.ones(len(self.views)))

    def set_statistics(self, mean: Mapping[str, float], std: Mapping[str, float]) -> None:
        """Of each block over a training split: entries of a block that never varies are its mean."""
        for buffer, values in ((self.mean, mean), (self.std, std)):
            buffer.copy_(torch.tensor([values[key] for key in self.views]))

    def forward(self, vectors: Tensor) -> dict[str, Tensor]:
        parts = self.layers(vectors).split(self.sizes, dim=1)
        blocks = {
            key: part.reshape(-1, *view) * self.std[i] + self.mean[i]
            for i, ((key, view), part) in enumerate(zip(self.views.items(), parts, strict=True))
        }
        return self.spec.join(blocks)

    def distance(self, a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> Tensor:
        """Mean squared difference of the standardised entries of two batches, leaving out constant blocks."""
        first, second = self.spec.split(a), self.spec.split(b)
        scales = self.std.tolist()
        parts = [
            ((first[key] - second[key]) / scale).square().flatten(1)
            for key, scale in zip(self.views, scales, strict=True)
            if scale
        ]
        return torch.cat(parts, dim=1).mean()


def spread(signals: Tensor) -> Tensor:
    """The mean squared deviation of ``B`` signals ``(B, ...)`` from their mean, with ``B - 1``; 0 for one."""
    squares = (signals - signals.mean(dim=0)).square().sum(dim=0)
    return squares.mean() / max(1, len(signals) - 1)


def psnr(a: Tensor, b: Tensor) -> Tensor:
    """Peak signal-to-noise ratio in dB of each of ``B`` signals ``(B, ...)`` for a peak of 1, at most 100."""
    errors = (a - b).square().flatten(1).mean(dim=1)
    return -10 * errors.clamp(min=_FINEST).log10()
