"""Groups that differ in one place from those found in the tables of architectures change the functions."""

import re

import pytest
from architectures import KNOWN
from torch import nn

from wsl import SpecError, SymmetryError, WeightSpec, trace, verify
from wsl.testing import mutations

QUICK = (
    "mlp",
    "group_norm",
    "rms_norm",
    "batch_norm",
    "siren",
    "multiplicative_filter",
    "squeeze_excitation",
    "grouped",
    "channel_shuffle",
    "concat_flatten",
    "attention_einsum",
    "lstm",
    "gru",
    "minimal_gru",
    "selective_scan",
    "gat",
    "mixture_of_experts",
    "ensemble",
    "low_rank_adapter",
    "spectral_norm",
)
# Where a block does not matter along some axis, some of the other groups leave the function unchanged too.
OTHERS = [name for name, row in KNOWN.items() if name not in QUICK and not row.dull]


def refuse_others(name: str) -> int:
    """Check that every group beside the one found is refused; returns how many there are."""
    row = KNOWN[name]
    module, example = row.build(), row.inputs()
    count = 0
    for what, wrong in mutations(trace(module, example)):
        count += 1
        # Where a rectifier is off for the few neurons that a draw moves, that draw shows nothing.
        if not any(_is_refused(module, wrong, example, seed) for seed in range(5)):
            pytest.fail(f"passed although {what}")
    return count


def _is_refused(module: nn.Module, spec: WeightSpec, example: object, seed: int) -> bool:
    try:
        verify(module, spec, example, seed=seed)
    except (SymmetryError, SpecError) as err:
        assert re.search("changes|dull|are one tensor|not reproducible", str(err))
        return True
    return False


@pytest.mark.parametrize("name", QUICK)
def test_other_groups_change_the_function(name):
    assert refuse_others(name) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_groups_of_the_rest_change_the_function(name):
    assert refuse_others(name)
