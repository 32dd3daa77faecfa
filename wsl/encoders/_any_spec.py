"""What encoders share whose parameters fit any specification: probes, and twins for other architectures."""

from typing import Self

from wsl.encoders._base import Encoder
from wsl.graph import graph_layout
from wsl.nn import ProbeFeatures
from wsl.spec import SpecError, WeightSpec


class AnySpecEncoder(Encoder):
    """Base of encoders none of whose parameters depends on the specification.

    Args:
        spec: the specification of the weights.
        channels: width of the output.
        layers: number of layers, checked here.
        probes: activations of the networks at learned inputs as further node features.

    Raises:
        SpecError: the probe features are of an architecture that is not ``spec``'s.
        ValueError: no channels, or a negative number of layers.
    """

    def __init__(self, spec: WeightSpec, channels: int, layers: int, probes: ProbeFeatures | None) -> None:
        super().__init__(spec, channels)
        if layers < 0:
            raise ValueError(f"{type(self).__name__} needs at least 0 layers, got layers={layers}.")
        _check_probes(probes, spec)
        self.layout = graph_layout(spec)
        self.probes = probes

    @property
    def probe_channels(self) -> int:
        """Width of the probe features; 0 if there are none."""
        return 0 if self.probes is None else self.probes.channels

    def for_spec(self, spec: WeightSpec, probes: ProbeFeatures | None = None) -> Self:
        """This encoder for another architecture: the same parameters (not copies), fresh statistics.

        Args:
            spec: the specification of the other architecture.
            probes: probe features of the other architecture, with as many probes as this encoder's.

        Raises:
            SpecError: the probe features are of an architecture that is not ``spec``'s.
        """
        _check_probes(probes, spec)
        twin = self._twin(spec)
        twin.layout, twin.probes = graph_layout(spec), probes
        return twin


def _check_probes(probes: ProbeFeatures | None, spec: WeightSpec) -> None:
    if probes is not None and probes.spec != spec:
        raise SpecError(
            "the probe features are of another architecture than the encoder.\n"
            f"  probes: {_shapes(probes.spec)}\n  encoder: {_shapes(spec)}\n"
            "  Make them for this one: ProbeFeatures(module, spec, example_inputs)."
        )


def _shapes(spec: WeightSpec) -> dict[str, tuple[int, ...]]:
    return {name: tensor.shape for name, tensor in spec.tensors.items()}
