"""Curves of low loss between trained networks, and how well they connect them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_MOMENTUM = 0.9


@dataclass(frozen=True, eq=False)
class BezierCurves:
    """M quadratic curves ``(1 - t)^2 start + 2 t (1 - t) middle + t^2 end``; all points ``(M, P)``."""

    start: Tensor
    middle: Tensor
    end: Tensor

    def at(self, t: float | Tensor) -> Tensor:
        """``(M, P)``: points of the curves.

        Args:
            t: within [0, 1]; one for all curves, or ``(M, 1)``.
        """
        return (1 - t) ** 2 * self.start + 2 * t * (1 - t) * self.middle + t**2 * self.end


def connect(
    start: Tensor,
    end: Tensor,
    gradient: Callable[[Tensor], Tensor],
    *,
    steps: int,
    learning_rate: float,
    generator: torch.Generator,
) -> BezierCurves:
    """Train the middle points of M curves between networks; the ends stay, and are not permuted.

    Each step descends the loss at one random point of each curve, with momentum. The learning rate falls from
    half of the steps on, to a hundredth at nine tenths.

    Args:
        start, end: ``(M, P)``.
        gradient: ``(M, P)`` to ``(M, P)``, gradients of the loss at points, perhaps of the next batch.
        steps: of the descent, from the middle of the straight line.
        generator: of the points.

    Source: Garipov et al. 2018 (arXiv:1802.10026), their quadratic Bezier curve; rates and momentum as in the
    code of Yang et al. 2021 (arXiv:2107.11228). Deviates: no weight decay on the curve.
    """
    middle = (start + end) / 2
    velocity, curves = torch.zeros_like(middle), BezierCurves(start, middle, end)
    for step in range(steps):
        t = torch.rand(len(start), 1, generator=generator).to(start)
        velocity.mul_(_MOMENTUM).add_(2 * t * (1 - t) * gradient(curves.at(t)))
        middle.sub_(velocity, alpha=learning_rate * _rate(step / steps))
    return curves


def _rate(done: float) -> float:
    return 1.0 if done <= 0.5 else max(0.01, 1 - 0.99 * (done - 0.5) / 0.4)


def mode_connectivity(losses: Tensor) -> Tensor:
    """``(M,)``: mean loss of the ends, minus the loss of the point that is farthest from that mean.

    Negative where a barrier parts the networks, about 0 where a path of equal loss joins them, and positive
    where the path holds better networks than its ends: these are not trained to the end.

    Args:
        losses: ``(points, M)`` along M curves, from one end to the other.

    Source: Yang et al. 2021 (arXiv:2107.11228), as their code computes it; there of the training error in per
    cent, at five points.
    """
    deviations = (losses[0] + losses[-1]) / 2 - losses
    farthest: Tensor = deviations.gather(0, deviations.abs().argmax(0, keepdim=True))[0]
    return farthest
