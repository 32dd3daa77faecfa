"""Probing alone: what networks answer to generated inputs, and an MLP."""

from collections.abc import Mapping
from typing import Self

from torch import Tensor

from wsl.encoders._base import Encoder, WeightFeatures
from wsl.encoders._features import broadcast_features
from wsl.graph import graph_layout
from wsl.nn import MLP, GeneratedProbes
from wsl.spec import SpecError, WeightSpec


class ProbeGen(Encoder):
    """An MLP on what each network answers to learned, generated inputs; it never looks at a weight.

    Invariant to everything that leaves the function of a network unchanged: permutations, scalings, and more.
    A network becomes one vector. Its features of weights and of neurons are that vector, broadcast.

    Accepts every specification that belongs to a module which runs on the example inputs of the probes. The
    parameters depend on the module's inputs and outputs only: :meth:`for_spec` reads other architectures for
    the same data with the same ones. Networks run with their raw weights.

    Args:
        spec: the specification of the weights.
        channels: width of the output.
        layers: number of hidden layers.
        hidden: width of the hidden layers.
        probes: generates the inputs and runs the networks; of the same specification.

    Raises:
        SpecError: the probes are of another architecture.
        ValueError: no channels, no probes, or a negative number of layers.

    Source: Kahana et al. 2024 (arXiv:2410.10811). Deviates: as :class:`wsl.nn.GeneratedProbes` says.
    """

    probe_features = GeneratedProbes

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 64,
        layers: int = 5,
        *,
        hidden: int = 256,
        probes: GeneratedProbes | None = None,
    ) -> None:
        super().__init__(spec, channels)
        if probes is None:
            raise ValueError(
                "ProbeGen has nothing to look at without probes.\n"
                "  Pass probes=GeneratedProbes(module, spec, example_inputs), or set model.probes in a task."
            )
        _check_probes(probes, spec)
        self.layout = graph_layout(spec)
        self.probes = probes
        self.layers = MLP(probes.channels, hidden, layers, channels)

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        self.read(weights)
        return broadcast_features(self.layout, self.layers(self.probes(weights)))

    def for_spec(self, spec: WeightSpec, probes: GeneratedProbes) -> Self:
        """This encoder for another architecture: the same parameters (not copies).

        Args:
            spec: the specification of the other architecture.
            probes: for the other architecture, from ``encoder.probes.for_module(module, spec)``.

        Raises:
            SpecError: the probes are of another architecture, or its networks answer with more or fewer
                numbers than this one's.
        """
        _check_probes(probes, spec)
        if probes.channels != self.probes.channels:
            raise SpecError(
                f"the other architecture answers with {probes.channels} numbers to all probes, and this one "
                f"with {self.probes.channels}.\n  One encoder reads networks with equal outputs."
            )
        twin = self._twin(spec)
        twin.layout, twin.probes = graph_layout(spec), probes
        return twin


def _check_probes(probes: GeneratedProbes, spec: WeightSpec) -> None:
    if probes.spec != spec:
        raise SpecError(
            "the probes are of another architecture than the encoder.\n"
            f"  probes: {', '.join(probes.spec.tensors)}\n  encoder: {', '.join(spec.tensors)}\n"
            "  Make them for this one: GeneratedProbes(module, spec, example_inputs)."
        )
