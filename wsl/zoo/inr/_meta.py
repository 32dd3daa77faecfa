"""Initial weights that are learned, so that few steps fit any signal of a kind."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from wsl.zoo._errors import ZooError
from wsl.zoo.inr._architecture import InrArchitecture
from wsl.zoo.inr._fit import fit_networks
from wsl.zoo.inr._recipe import FitRecipe
from wsl.zoo.inr._signals import Signals


@dataclass(frozen=True)
class MetaRecipe:
    """How initial weights are learned: Reptile, whose inner fits are those of the zoo's own recipe, but
    shorter.

    Args:
        rounds: fits of a batch, after each of which the initial weights move.
        batch: signals of a round, which are fitted together.
        steps: of each of these fits.
        rate: of the way to the mean of the fitted weights that the first round goes; falls to 0 linearly.

    Raises:
        ZooError: a value outside its range.
    """

    rounds: int = 200
    batch: int = 32
    steps: int = 16
    rate: float = 1.0

    def __post_init__(self) -> None:
        for name in ("rounds", "batch", "steps"):
            if getattr(self, name) < 1:
                raise ZooError(f"meta.{name} is {getattr(self, name)}, expected at least 1.")
        if not (self.rate > 0 and math.isfinite(self.rate)):
            raise ZooError(f"meta.rate is {self.rate}, expected a positive number.")


def learn_initialisation(
    signals: Signals,
    numbers: np.ndarray,
    architecture: InrArchitecture,
    recipe: FitRecipe,
    meta: MetaRecipe,
    seed: int,
) -> Tensor:
    """Initial weights ``(P,)`` from which few steps of ``recipe`` fit a signal well.

    Args:
        numbers: of the signals to learn from.
        recipe: of the fits that will start there.
        seed: of the weights that learning starts from, and of the batches.

    Raises:
        ZooError: it diverges.

    Source: Tancik et al. 2021 (arXiv:2012.02189), section 3, with Reptile, eq. 7 of Nichol et al. 2018
    (arXiv:1803.02999), whose inner loop is an ordinary fit. MAML would need second derivatives of the stacks.
    Deviates: Adam in the inner loop, as in the fits that follow.

    Median PSNR of test digits after 5, 20 and 50 steps of ``configs/zoo/digits_inr_meta.yaml``: 17.8, 25.1
    and 33.7 dB, and 9.7, 17.7 and 27.2 dB with ``--initialisation shared``.
    """
    inner = replace(recipe, steps=meta.steps, target_psnr=None)
    inputs, channels = len(signals.grid), signals.channels
    stack = architecture.stack(inputs, channels)
    weights = architecture.initial_rows([seed], inputs, channels)[0]
    generator = np.random.default_rng([seed, 0])
    with _one_thread():
        for turn in range(meta.rounds):
            drawn = generator.permutation(numbers)[: meta.batch]
            targets = signals.targets(drawn, between=inner.half_pixel_phases).map(architecture.outputs_of)
            fitted = fit_networks(stack, weights.repeat(len(drawn), 1), targets, inner).rows
            weights = weights.lerp(fitted.mean(0), meta.rate * (1 - turn / meta.rounds))
    if not weights.isfinite().all():
        raise ZooError("Learning the initial weights has diverged. Lower recipe.learning_rate or meta.rate.")
    return weights


@contextmanager
def _one_thread() -> Iterator[None]:
    """Torch on one core, as where networks are fitted, so that the number of cores does not change a bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
