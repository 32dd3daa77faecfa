"""Random programs of many kinds of steps, for checks of whatever group the tracer finds."""

from collections.abc import Sequence

from programs import attending, layers, memory, ordering, pointwise, shaping
from programs.program import BATCH, INPUTS, TOKENS, Program, Steps

__all__ = ["BATCH", "INPUTS", "STEPS", "TOKENS", "program"]

_KINDS = (pointwise, layers, attending, ordering, shaping, memory)
STEPS: Steps = {name: step for kind in _KINDS for name, step in kind.STEPS.items()}


def program(names: Sequence[str], seed: int) -> Program:
    """The program of the named steps."""
    return Program([STEPS[name] for name in names], seed)
