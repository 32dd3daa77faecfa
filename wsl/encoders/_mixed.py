"""Encoding batches of networks of different architectures."""

import inspect
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from wsl.encoders._base import Encoder, WeightFeatures, check_statistics
from wsl.encoders._graph_metanetwork import GraphMetanetwork
from wsl.encoders._mixed_kinds import WEIGHT_KINDS, weight_kinds
from wsl.encoders._mixed_sparse import SparseForm
from wsl.nn import ProbedModule
from wsl.spec import WeightSpec

MixedWeights = Sequence[tuple[WeightSpec, Mapping[str, Tensor]]]
MixedFeatures = list[tuple[WeightSpec, WeightFeatures]]

_TWINS = 1024
_DENSE_FROM = 1 << 13


class MixedEncoder(nn.Module):
    """One encoder for networks of any architectures, in batches of several of them.

    Takes encoders whose parameters do not depend on the specification, those with ``for_spec``. Networks of
    one architecture are encoded together, by a twin of the encoder that shares its parameters; twins are kept
    (of the last 1024 architectures). What a network gets does not depend on the others in its batch.

    A :class:`GraphMetanetwork` also has a sparse form, one graph that holds networks of any architectures:
    groups of few edges are encoded together in it, with the same results. Groups with at least ``dense_from``
    weights on edges, of all of their networks, run dense, which is faster for them: by default about seven of
    the usual INRs with 1,153 weights, where ``tests/benchmarks/bench_mixed.py`` finds both equally fast.

    Weights are standardised by kind (:func:`weight_kinds`), with statistics over all architectures, which
    also hold for architectures that are seen later. Statistics of each architecture by itself would hide how
    architectures differ, and, where there are few networks of each, what tells these apart.

    Probe features run the networks of each architecture as its module, on inputs that all of them share;
    then every group runs dense. ``modules`` says what that module is.

    Args:
        encoder: gives the parameters; its own statistics are not used.
        dense_from: where the dense form begins; 0 for always, ``math.inf`` for never.
        modules: a network of each architecture, for encoders with probes; it is asked once for each twin.

    Shapes: for each architecture its specification and weights ``(B_i, *shape)``, to its specification and
    features of ``B_i`` networks, in the same order.

    Raises:
        TypeError: an encoder whose parameters depend on the specification.
        ValueError: an encoder with probes, and no ``modules`` to run.

    ``forward`` raises SpecError for an architecture that does not run on the inputs of the probes.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        encoder: Encoder,
        *,
        dense_from: float = _DENSE_FROM,
        modules: Callable[[WeightSpec], nn.Module] | None = None,
    ) -> None:
        super().__init__()
        name, kind = type(encoder).__name__, type(encoder)
        probes = getattr(encoder, "probes", None)
        if not (reads_any_spec(kind) or (probes is not None and reads_probed(kind))):
            raise TypeError(
                f"the parameters of {name} depend on the specification: it reads one architecture only.\n"
                "  Choose an encoder with for_spec(spec), such as GraphMetanetwork."
            )
        if probes is not None and modules is None:
            raise ValueError(
                f"this {name} has probes, which run the networks of each architecture as its module.\n"
                "  Say what that is with modules, or make the encoder without probes."
            )
        self.modules_of = modules
        self.encoder = encoder
        self.dense_from = dense_from
        self.register_buffer("mean", torch.zeros(len(WEIGHT_KINDS)))
        self.register_buffer("std", torch.ones(len(WEIGHT_KINDS)))
        # In a tuple its modules are not registered a second time.
        self._sparse = (SparseForm(encoder),) if type(encoder) is GraphMetanetwork and probes is None else ()
        self._twins: OrderedDict[WeightSpec, Encoder] = OrderedDict()
        self._made_for: list[tuple[Tensor, int]] = []

    @property
    def channels(self) -> int:
        """Width of all output features."""
        return self.encoder.channels

    def set_statistics(self, mean: Mapping[str, Tensor | float], std: Mapping[str, Tensor | float]) -> None:
        """Standardise blocks by the mean and standard deviation of their kind, over a training split.

        Args:
            mean, std: for all of :data:`WEIGHT_KINDS`.

        Raises:
            SpecError: a kind is missing or extra, or a value is not finite, or a deviation is negative.
        """
        means, stds = check_statistics(WEIGHT_KINDS, mean, std)
        self.mean.copy_(means)
        self.std.copy_(stds)

    def twin(self, spec: WeightSpec) -> Encoder:
        """The encoder for one architecture: the same parameters, the statistics of its kinds of blocks."""
        now = [(self.mean, self.mean._version), (self.std, self.std._version)]
        if [(id(tensor), version) for tensor, version in now] != [(id(t), v) for t, v in self._made_for]:
            self._twins.clear()
            self._made_for = now
        if spec not in self._twins:
            with torch.inference_mode(False):  # else twins that evaluation makes could not be trained
                self._twins[spec] = self._make_twin(spec)
            if len(self._twins) > _TWINS:
                self._twins.popitem(last=False)
        self._twins.move_to_end(spec)
        twin = self._twins[spec]
        twin.training = self.training
        return twin

    def forget(self, spec: WeightSpec) -> None:
        """Make the twin of an architecture anew when it is needed, as when its module is another one."""
        self._twins.pop(spec, None)

    def forward(self, groups: MixedWeights) -> MixedFeatures:
        twins = [self.twin(spec) for spec, _ in groups]
        small = {
            i: (twin, weights)
            for i, (twin, (_, weights)) in enumerate(zip(twins, groups, strict=True))
            if isinstance(twin, GraphMetanetwork) and self._sparse and self._runs_sparse(twin, weights)
        }
        encoded: dict[int, WeightFeatures] = {}
        for form in self._sparse if len(small) > 1 else ():
            encoded = dict(zip(small, form.mixed(list(small.values())), strict=True))
        return [
            (spec, encoded[i] if i in encoded else twins[i](weights))
            for i, (spec, weights) in enumerate(groups)
        ]

    def _runs_sparse(self, twin: GraphMetanetwork, weights: Mapping[str, Tensor]) -> bool:
        edges, count = twin.layout.edges, twin.check(weights)
        total = count * sum(math.prod(block.sizes) for block in edges)
        return 0 < total < self.dense_from and not any(block.is_hyperedge for block in edges)

    def _make_twin(self, spec: WeightSpec) -> Encoder:
        probes = getattr(self.encoder, "probes", None)
        extras = {}
        if isinstance(probes, ProbedModule) and self.modules_of is not None:
            extras["probes"] = probes.for_module(self.modules_of(spec), spec)
        twin: Encoder = self.encoder.for_spec(spec, **extras)  # type: ignore[operator]
        rows = [WEIGHT_KINDS.index(kind) for kind in weight_kinds(spec)]
        twin.mean.copy_(self.mean[rows])
        twin.std.copy_(self.std[rows])
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_twins": OrderedDict(), "_made_for": []}


def reads_any_spec(kind: object) -> bool:
    """Whether this is an encoder class whose ``for_spec`` needs nothing but a specification."""
    return _needs(kind) == []


def reads_probed(kind: object) -> bool:
    """Whether this is an encoder class whose ``for_spec`` takes probes, and needs nothing else."""
    return _needs(kind) in ([], ["probes"]) and "probes" in inspect.signature(kind.for_spec).parameters  # type: ignore[attr-defined]


def _needs(kind: object) -> list[str] | None:
    """What ``for_spec`` of an encoder class must be given besides a specification; ``None`` without one."""
    if not (isinstance(kind, type) and issubclass(kind, Encoder) and hasattr(kind, "for_spec")):
        return None
    _, _, *others = inspect.signature(kind.for_spec).parameters.values()
    return [parameter.name for parameter in others if parameter.default is parameter.empty]
