"""Embeddings without labels: changed copies of a network lie close together, those of others apart."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsl.augment import AddNoise, Augmentation, FlipSigns, Networks, Permute, Rescale, augment
from wsl.data import BaseDataModule, MixedBatch, WeightBatch, WeightStatistics, by_block
from wsl.encoders import WEIGHT_KINDS, GraphMetanetwork, MixedWeights
from wsl.spec import WeightSpec
from wsl.tasks.base import EncoderFactory, OptimizerFactory, ScheduleFactory
from wsl.tasks.factories import TaskError, value_from_plain, value_to_plain
from wsl.tasks.invariant import STAGES, InvariantTask
from wsl.tasks.probing import Definitions, from_plain
from wsl.tasks.schedule import WarmupCosine
from wsl.zoo import ForwardDefinition

DEFAULT_VIEWS = (Permute(), FlipSigns(), Rescale(), AddNoise(0.1))


class ContrastiveEmbedding(InvariantTask):
    """Two changed copies of each network; the loss tells its partner from all other copies of the batch.

    The head is the projection; embeddings are the pooled features before it. Metrics of each stage:
    ``{train,val,test}/loss`` (:func:`nt_xent`) and ``{train,val,test}/retrieval``, the share of copies to
    which, of all others in the batch, their partner is the most similar: both depend on the batch size. Each
    process contrasts its own batch. Labels are not used, only written beside what is predicted.

    Args:
        encoder, optimizer, schedule, probes: as of :class:`wsl.tasks.INRClassification`.
        augmentations: change each copy, in order, in all stages; by default those that leave the function as
            it is, and noise of a tenth of each block's deviation. Those of the data come before, and
            are the same for both copies.
        dimensions: width of the projection.
        temperature: of the similarities.

    Raises:
        TaskError: an argument that a checkpoint could not hold, or outside its range; augmentations that
            mix networks.
        AugmentError: when data are given, augmentations that cannot act on their networks.

    Source: Chen et al. 2020 (arXiv:2002.05709).
    """

    metrics = tuple(f"{stage}/{name}" for stage in STAGES for name in ("loss", "retrieval"))
    deviations: Tensor

    def __init__(
        self,
        encoder: EncoderFactory = GraphMetanetwork,
        optimizer: OptimizerFactory = torch.optim.AdamW,
        schedule: ScheduleFactory = WarmupCosine,
        probes: int = 0,
        augmentations: Sequence[Augmentation] | None = None,
        dimensions: int = 64,
        temperature: float = 0.2,
    ) -> None:
        super().__init__(encoder, optimizer, schedule, probes)
        given = DEFAULT_VIEWS if augmentations is None else augmentations
        self.augmentations: tuple[Augmentation, ...] = tuple(
            value_from_plain(one, Augmentation) if isinstance(one, Mapping) else one for one in given
        )
        self.dimensions, self.temperature = dimensions, temperature
        if mixing := [type(one).__name__ for one in self.augmentations if one.mixes_labels]:
            raise TaskError(
                f"augmentations has {', '.join(mixing)}, which mixes networks, and copies must be of one.\n"
                "  Leave it out."
            )
        if dimensions < 1 or temperature <= 0:
            raise TaskError(
                f"dimensions is {dimensions} and temperature {temperature}; expected at least 1, and above 0."
            )
        self.runs_networks = any(one.reads_module for one in self.augmentations)
        self._modules_of: dict[WeightSpec, nn.Module] = {}
        self.remember(
            encoder=encoder,
            optimizer=optimizer,
            schedule=schedule,
            probes=probes,
            augmentations=[value_to_plain(one) for one in self.augmentations],
            dimensions=dimensions,
            temperature=temperature,
        )

    def outputs(self, data: BaseDataModule) -> int:
        return self.dimensions

    def set_data(self, data: BaseDataModule) -> None:
        super().set_data(data)
        self.deviations.copy_(torch.tensor([data.statistics.std[key] for key in self._keys]))

    def read_out(self, outputs: Tensor) -> dict[str, Tensor]:
        """``projections`` ``(B, dimensions)`` of length 1."""
        return {"projections": F.normalize(outputs, dim=1)}

    def copies(
        self, weights: dict[str, Tensor] | MixedWeights, generator: torch.Generator
    ) -> dict[str, Tensor] | MixedWeights:
        """One changed copy of each network; all that is random is drawn from ``generator``."""
        if isinstance(weights, Mapping):
            return self._changed(self.spec, weights, generator)
        return tuple((spec, self._changed(spec, own, generator)) for spec, own in weights)

    def step(self, batch: WeightBatch | MixedBatch, stage: str) -> Tensor:
        device = batch.rows.device
        # training steps are seeded by their position; evaluation sees the same copies every time
        seed = int(torch.randint(2**62, ())) if stage == "train" else int(batch.rows[0])
        generator = torch.Generator(device).manual_seed(seed)
        a, b = (self(self.copies(batch.weights, generator)) for _ in range(2))
        loss = nt_xent(a, b, self.temperature)
        options: dict[str, Any] = {"on_step": False, "on_epoch": True, "batch_size": len(batch.rows)}
        self.log(f"{stage}/loss", loss, sync_dist=True, **options)
        self.log(f"{stage}/retrieval", retrieval(a, b), prog_bar=True, sync_dist=True, **options)
        return loss

    @property
    def _keys(self) -> list[str]:
        return list(WEIGHT_KINDS) if self.reads_any else [ref.key for ref in self.spec.blocks]

    def _changed(
        self, spec: WeightSpec, weights: Mapping[str, Tensor], generator: torch.Generator
    ) -> dict[str, Tensor]:
        known = dict(zip(self._keys, self.deviations.tolist(), strict=True))
        std = by_block(spec, WeightStatistics(known, known)).std if self.reads_any else known
        module = self._modules_of.get(spec)
        if module is None and self.runs_networks:
            raise TaskError(
                f"augmentations need to know how networks run, and nothing says it of:\n{spec}\n"
                "  Evaluate the model on architectures that it was trained on."
            )
        given = Networks(spec, weights, std=std, module=module)
        return dict(augment(given, self.augmentations, generator=generator).weights)

    def _build(self, record: dict[str, Any], examples: Tensor | None = None) -> None:
        super()._build(record, examples)
        self.register_buffer("deviations", torch.zeros(len(self._keys), device=self.device))
        if self.runs_networks:
            self._modules_of = self._checked(from_plain(record["forward"]))

    def _checked(self, definitions: Definitions) -> dict[WeightSpec, nn.Module]:
        """A module of each architecture that the augmentations accept."""
        known: dict[WeightSpec, ForwardDefinition] = {}
        for spec, given in definitions:
            first = known.setdefault(spec, given)
            if (first.factory, first.arguments) != (given.factory, given.arguments):
                raise TaskError(
                    "augmentations read how networks run, and networks with equal specifications run "
                    f"differently: as {first.factory} with {dict(first.arguments)}, and as "
                    f"{given.factory} with {dict(given.arguments)}.\n"
                    "  Leave these augmentations out, or give zoos of one kind."
                )
        modules = {spec: definition.build() for spec, definition in known.items()}
        for module, one in product(modules.values(), self.augmentations):
            one.check(module)
        return modules


def nt_xent(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """The normalised temperature-scaled cross entropy of ``2 B`` copies, averaged.

    With the cosine similarity ``s``, that of copy ``i`` with partner ``j`` is
    ``-log(exp(s_ij / temperature) / sum_{k != i} exp(s_ik / temperature))``.

    Args:
        a, b: ``(B, C)``, both copies of each network.

    Source: Chen et al. 2020, eq. 1 (arXiv:2002.05709).
    """
    similarities, partners = _similarities(a, b)
    return F.cross_entropy(similarities / temperature, partners)


def retrieval(a: Tensor, b: Tensor) -> Tensor:
    """Share of the ``2 B`` copies whose most similar other copy is their partner; args as :func:`nt_xent`."""
    similarities, partners = _similarities(a, b)
    return (similarities.argmax(dim=1) == partners).float().mean()


def _similarities(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines ``(2 B, 2 B)``, ``-inf`` for a copy with itself, and the place of each one's partner."""
    copies = F.normalize(torch.cat([a, b]), dim=1)
    itself = torch.eye(len(copies), dtype=torch.bool, device=copies.device)
    partners = torch.arange(len(copies), device=copies.device).roll(len(a))
    return (copies @ copies.T).masked_fill(itself, -torch.inf), partners
