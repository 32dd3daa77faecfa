"""The same signal, moved: random maps of the coordinates that coordinate networks read."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from wsl.augment._base import Augmentation, AugmentError, Networks, expect
from wsl.augment._coordinates import coordinates_of, move_coordinates
from wsl.models import Siren


class _CoordinateMap(Augmentation):
    """``f(x)`` becomes ``f(M x + t)``, exactly; the signal changes, so the function does not stay."""

    preserves_function: ClassVar[bool] = False
    reads_module: ClassVar[bool] = True

    def check(self, module: nn.Module) -> None:
        coordinates_of(module)

    def __call__(self, networks: Networks, generator: Generator) -> Networks:
        dims = coordinates_of(networks.module)
        assert networks.module is not None
        self.check(networks.module)
        matrix, shift = self.draw(len(networks), dims, generator)
        return networks.having(move_coordinates(networks.module, networks.weights, matrix, shift))

    @abstractmethod
    def draw(self, count: int, dims: int, generator: Generator) -> tuple[Tensor, Tensor]:
        """``M`` ``(count, dims, dims)`` and ``t`` ``(count, dims)``, float64."""


class _LinearMap(_CoordinateMap):
    """Matrices of all kinds, which the constant frequencies of Fourier features cannot follow."""

    def check(self, module: nn.Module) -> None:
        if coordinates_of(module) and not isinstance(module, Siren):
            raise AugmentError(
                f"{type(self).__name__} needs a Siren and was given a {type(module).__name__}: its "
                "frequencies are a constant that no weight changes.\n"
                "  Use TranslateInputs, which any Fourier features absorb exactly."
            )


@dataclass(frozen=True)
class RotateInputs(_LinearMap):
    """Rotate the signal about the origin, the centre of the coordinate grid, by the first layer of a SIREN.

    The network computes ``f(R x)``. The function changes, as wanted: the signal is the same, seen rotated.
    Angles are those of the coordinates, which span ``[-1, 1]`` along each side of an image, square or not.

    Args:
        degrees: the angle is uniform in ``[-degrees, degrees]``, in a random plane if there are more than
            two coordinates.
    """

    degrees: float = 15.0

    def __post_init__(self) -> None:
        expect(
            0 <= self.degrees <= 180, f"RotateInputs: degrees is {self.degrees}; expected one in [0, 180]."
        )

    def check(self, module: nn.Module) -> None:
        super().check(module)
        expect(
            coordinates_of(module) > 1,
            "RotateInputs: the networks read one coordinate, which has no rotations; leave it out.",
        )

    def draw(self, count: int, dims: int, generator: Generator) -> tuple[Tensor, Tensor]:
        angle = math.radians(self.degrees) * _uniform((count, 1, 1), generator)
        plane = torch.randn(count, dims, 2, generator=generator, device=generator.device, dtype=torch.float64)
        u, v = torch.linalg.qr(plane).Q.split(1, dim=2)  # orthonormal, (count, dims, 1) each
        one = torch.eye(dims, device=generator.device, dtype=torch.float64)
        matrix = one + (angle.cos() - 1) * (u @ u.mT + v @ v.mT) + angle.sin() * (v @ u.mT - u @ v.mT)
        return matrix, matrix.new_zeros(count, dims)


@dataclass(frozen=True)
class ScaleInputs(_LinearMap):
    """Enlarge or shrink the signal about the origin, by the first layer of a SIREN.

    The network computes ``f(s x)``. The function changes, as wanted: the signal is the same, zoomed.

    Args:
        factor: ``s`` is log-uniform in ``[1 / factor, factor]``, the same along all coordinates.
    """

    factor: float = 1.1

    def __post_init__(self) -> None:
        expect(self.factor >= 1, f"ScaleInputs: factor is {self.factor}; expected at least 1.")

    def draw(self, count: int, dims: int, generator: Generator) -> tuple[Tensor, Tensor]:
        scale = (math.log(self.factor) * _uniform((count, 1, 1), generator)).exp()
        one = torch.eye(dims, device=generator.device, dtype=torch.float64)
        return scale * one, scale.new_zeros(count, dims)


@dataclass(frozen=True)
class TranslateInputs(_CoordinateMap):
    """Move the signal, by the first layer of a SIREN or of a network on Fourier features.

    The network computes ``f(x + t)``. The function changes, as wanted: the signal is the same, moved.

    Args:
        distance: each entry of ``t`` is uniform in ``[-distance, distance]``; grids span ``[-1, 1]``.
    """

    distance: float = 0.1

    def __post_init__(self) -> None:
        expect(self.distance >= 0, f"TranslateInputs: distance is {self.distance}; expected at least 0.")

    def draw(self, count: int, dims: int, generator: Generator) -> tuple[Tensor, Tensor]:
        shift = self.distance * _uniform((count, dims), generator)
        one = torch.eye(dims, device=generator.device, dtype=torch.float64)
        return one.expand(count, dims, dims), shift


def _uniform(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Float64 in [-1, 1)."""
    return 2 * torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64) - 1
