"""Probing alone: what networks answer to inputs that all of them share, and an MLP."""

from collections.abc import Mapping
from typing import ClassVar, Self

from torch import Tensor

from wsl.encoders._base import Encoder, WeightFeatures
from wsl.encoders._features import broadcast_features
from wsl.graph import graph_layout
from wsl.nn import MLP, AnsweringModule, GeneratedProbes, SampledProbes
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
        logits: answers are logits of classes: their bounded log-probabilities are read.
        probes: generates the inputs and runs the networks; of the same specification.

    Raises:
        SpecError: the probes are of another architecture.
        ValueError: no channels, no probes, or a negative number of layers.

    Source: Kahana et al. 2024 (arXiv:2410.10811). Deviates: as :class:`wsl.nn.GeneratedProbes` says.
    """

    probe_features: ClassVar[type[AnsweringModule]] = GeneratedProbes

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 64,
        layers: int = 5,
        *,
        hidden: int = 256,
        logits: bool = False,
        probes: AnsweringModule | None = None,
    ) -> None:
        super().__init__(spec, channels)
        if probes is None:
            raise ValueError(
                f"{type(self).__name__} has nothing to look at without probes.\n"
                f"  Pass probes={self.probe_features.__name__}(module, spec, example_inputs), or set "
                "model.probes in a task."
            )
        _check_probes(probes, spec)
        self.layout = graph_layout(spec)
        self.probes, self.logits = probes, logits
        self.layers = MLP(probes.channels, hidden, layers, channels)

    def forward(self, weights: Mapping[str, Tensor]) -> WeightFeatures:
        self.read(weights)
        return broadcast_features(self.layout, self.layers(self.probes(weights, logits=self.logits)))

    def for_spec(self, spec: WeightSpec, probes: AnsweringModule) -> Self:
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


class ProbeSamples(ProbeGen):
    """An MLP on what each network answers to given samples, such as images; it never looks at a weight.

    As :class:`ProbeGen`, with inputs that start at samples of the example inputs, where a data module gives
    them at those of ``data.images``. They stay there unless they are ``learned``, for which all networks have
    to be run backwards too.

    Args:
        spec, channels, layers, hidden, logits: as of :class:`ProbeGen`.
        learned: the inputs are learned.
        probes: holds the inputs and runs the networks.

    Source: Kahana et al. 2024, section 3 (arXiv:2410.10811), who probe with images of the data set, with
    others, and with learned inputs.
    """

    probe_features = SampledProbes

    def __init__(
        self,
        spec: WeightSpec,
        channels: int = 64,
        layers: int = 2,
        *,
        hidden: int = 256,
        logits: bool = False,
        learned: bool = False,
        probes: SampledProbes | None = None,
    ) -> None:
        super().__init__(spec, channels, layers, hidden=hidden, logits=logits, probes=probes)
        if not learned:
            self.probes.requires_grad_(False)


def _check_probes(probes: AnsweringModule, spec: WeightSpec) -> None:
    if probes.spec != spec:
        raise SpecError(
            "the probes are of another architecture than the encoder.\n"
            f"  probes: {', '.join(probes.spec.tensors)}\n  encoder: {', '.join(spec.tensors)}\n"
            f"  Make them for this one: {type(probes).__name__}(module, spec, example_inputs)."
        )
