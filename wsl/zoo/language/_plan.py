"""How much work a language model is, and how many train together."""

from wsl.zoo.language._recipe import LanguageHyperparameters
from wsl.zoo.training import NetworkPlan

# Sequences of one training step, over all networks of a stack: large enough for full speed, small enough for
# the processor's cache. Part of the result's rounding, so it is a constant.
_STACK_SEQUENCES = 128

LanguagePlan = NetworkPlan[LanguageHyperparameters]
"""One language model to train; it is stored after some steps."""


def sequences_seen(plan: LanguagePlan) -> int:
    """How many it trains on, over all steps."""
    return plan.hyperparameters.steps * plan.hyperparameters.batch_size


def stack_size(batch_size: int) -> int:
    """Networks of a stack at most."""
    return min(16, max(4, _STACK_SEQUENCES // batch_size))
