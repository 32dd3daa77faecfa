"""Rules of operators that read, write, order or move entries along a dim: other dims stay free."""

import pytest
from rule_programs import indexing, moving, ordering
from rule_programs.checks import assert_found

PROGRAMS = {**indexing.PROGRAMS, **ordering.PROGRAMS, **moving.PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_group_is_found_and_holds(name):
    assert_found(PROGRAMS[name])
