"""Fourier features: of scalar weights (Gaussian frequencies) and of integer positions (fixed frequencies)."""

import math

import torch
from torch import Tensor, nn

_SEED = 0


class GaussianFourierFeatures(nn.Module):
    """A scalar ``w`` as ``[w, sin(2 pi f w), cos(2 pi f w)]`` with random frequencies at several scales.

    Weights of trained networks differ by small amounts around very different magnitudes; a linear layer on
    the raw value cannot resolve both. Frequencies are Gaussian with a log-uniform scale, a constant of the
    module (a buffer): the same for every weight and every network.

    Args:
        frequencies: number of frequencies ``M``; the output has ``1 + 2 M`` channels.
        scales: smallest and largest standard deviation of the frequencies.
        generator: draws the frequencies; a fixed seed if not given.

    Shapes: ``(...)`` to ``(..., 1 + 2 M)``.

    Source: Tancik et al. 2020 (arXiv:2006.10739); for weights Zhou et al. 2023 (arXiv:2302.14040). Deviates:
    several scales at once, and the raw value beside the sinusoids.
    """

    frequency: Tensor

    def __init__(
        self,
        frequencies: int = 16,
        scales: tuple[float, float] = (0.1, 2.0),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if frequencies < 0 or not 0 < scales[0] <= scales[1]:
            raise ValueError(
                f"expected frequencies >= 0 and 0 < scales[0] <= scales[1], got {frequencies}, {scales}."
            )
        generator = generator or torch.Generator().manual_seed(_SEED)
        spread = torch.logspace(math.log10(scales[0]), math.log10(scales[1]), frequencies)
        self.register_buffer("frequency", spread * torch.randn(frequencies, generator=generator))
        self.channels = 1 + 2 * frequencies

    def forward(self, values: Tensor) -> Tensor:
        column = values.unsqueeze(-1)
        phase = column * (2 * math.pi * self.frequency)
        return torch.cat([column, phase.sin(), phase.cos()], dim=-1)


def sinusoids(positions: Tensor, count: int) -> Tensor:
    """Fixed features ``[sin(p f), 1 - cos(p f)]`` of positions, zero at position zero.

    Args:
        positions: ``(...)``, any real numbers.
        count: number of frequencies, in powers of two downwards from pi / 2.

    Returns:
        ``(..., 2 * count)``.
    """
    frequency = math.pi / 2 ** torch.arange(1, count + 1, dtype=positions.dtype, device=positions.device)
    phase = positions.unsqueeze(-1) * frequency
    return torch.cat([phase.sin(), 1 - phase.cos()], dim=-1)
