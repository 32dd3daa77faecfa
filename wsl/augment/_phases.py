"""Shifts of the phases of sines by half periods."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, nn

from wsl.augment._base import Augmentation, AugmentError, Networks, expect
from wsl.models import Siren


@dataclass(frozen=True)
class ShiftPhases(Augmentation):
    """Shift the phase of each neuron of a SIREN by a random number of half periods.

    A neuron computes ``sin(w0 (W x + b))``. Adding ``k pi / w0`` to ``b`` multiplies it by ``(-1)^k``, for
    whole ``k`` only; what reads it is multiplied by the same. The function stays the same. With
    :class:`FlipSigns`, these are all shifts that keep it. Layers without biases have no phases.

    Args:
        most: ``k`` is uniform in ``-most … most``.

    Raises:
        AugmentError: the networks are not :class:`wsl.models.Siren`.
    """

    preserves_function: ClassVar[bool] = True
    reads_module: ClassVar[bool] = True
    most: int = 1

    def __post_init__(self) -> None:
        expect(self.most >= 0, f"ShiftPhases: most is {self.most}; expected at least 0.")

    def check(self, module: nn.Module) -> None:
        _siren(module)

    def __call__(self, networks: Networks, generator: Generator) -> Networks:
        sines = _siren(networks.module).sines
        weights = dict(networks.weights)
        for i, sine in enumerate(sines):
            bias, reader = weights.get(f"layers.{i}.bias"), weights[f"layers.{i + 1}.weight"]
            if bias is None:
                continue
            halves = torch.randint(
                -self.most, self.most + 1, bias.shape, generator=generator, device=generator.device
            )
            weights[f"layers.{i}.bias"] = bias + halves.to(bias) * (math.pi / float(sine.w0))  # type: ignore[arg-type]
            weights[f"layers.{i + 1}.weight"] = reader * (1 - 2 * halves.remainder(2)).to(reader).unsqueeze(1)
        return networks.having(weights)


def _siren(module: nn.Module | None) -> Siren:
    if not isinstance(module, Siren):
        given = "no module" if module is None else f"a {type(module).__name__}"
        raise AugmentError(
            f"ShiftPhases needs a Siren and was given {given}: only of sines half periods are known.\n"
            "  Leave it out for other networks; FlipSigns acts wherever the specification allows it."
        )
    return module
