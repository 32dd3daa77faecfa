"""How networks are fitted."""

import math
from dataclasses import dataclass

from wsl.zoo._errors import ZooError


@dataclass(frozen=True)
class FitRecipe:
    """Adam on the mean squared error of a whole image, with a cosine schedule from ``learning_rate`` to 0.

    Args:
        steps: optimisation steps at most.
        learning_rate: of the first step.
        betas: Adam's. Gradients of whole images are deterministic, so small betas (.8) need far fewer steps
            than the customary .9 and .999.
        half_pixel_phases: fit the bilinear image on the pixel grid and half a pixel right, down, and both, in
            turn. Without it the networks are noise between the pixels, and encoders learn less from them.
        target_psnr: a network stops when it reaches this many dB on the pixel grid; by default at the last
            step.

    Raises:
        ZooError: a value outside its range.
    """

    steps: int = 150
    learning_rate: float = 1e-2
    betas: tuple[float, float] = (0.8, 0.8)
    half_pixel_phases: bool = True
    target_psnr: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", tuple(self.betas))
        if self.steps < 1:
            raise ZooError(f"recipe.steps is {self.steps}, expected at least 1.")
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise ZooError(f"recipe.learning_rate is {self.learning_rate}, expected a positive number.")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ZooError(f"recipe.betas are {self.betas}, expected two numbers in [0, 1).")
        if self.target_psnr is not None and not 0 < self.target_psnr <= 120:
            raise ZooError(f"recipe.target_psnr is {self.target_psnr}, expected dB in (0, 120] or none.")
