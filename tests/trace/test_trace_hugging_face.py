"""Models of `transformers`, built from small configurations: the axes derived by hand, and their proof."""

import pytest
from architectures import hidden_axes, written_axes
from architectures.hugging_face import ROWS
from test_trace_verified import proven

from wsl import trace

LONG = ("t5", "gpt2_eager_attention")
PROVEN = [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in ROWS]


@pytest.mark.parametrize("name", ROWS)
def test_finds_the_axes_derived_by_hand(name):
    row = ROWS[name]
    assert hidden_axes(trace(row.build(), row.inputs(), output=row.output)) == written_axes(row.axes)


@pytest.mark.parametrize("name", PROVEN)
def test_the_group_leaves_the_function_unchanged(name):
    proven(ROWS[name])
