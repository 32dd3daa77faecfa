"""How much work a classifier is, and how many train together."""

from wsl.zoo.classifiers._recipe import Hyperparameters
from wsl.zoo.training import NetworkPlan

# Images of one training step, over all networks of a stack: large enough for full speed, small enough for the
# processor's cache. Part of the result's rounding, so it is a constant.
_STACK_IMAGES = 512

ClassifierPlan = NetworkPlan[Hyperparameters]
"""One classifier to train; it is stored after some epochs."""


def images_seen(plan: ClassifierPlan, images: int) -> int:
    """Training images over all epochs, of a zoo with so many."""
    drawn = plan.hyperparameters
    return drawn.epochs * max(1, round(drawn.train_fraction * images))


def stack_size(batch_size: int) -> int:
    """Networks of a stack at most."""
    return min(32, max(4, _STACK_IMAGES // batch_size))
