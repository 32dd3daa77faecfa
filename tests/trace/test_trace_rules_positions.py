"""Rules of operators along positions: channels stay free, positions are fixed."""

import pytest
from rule_programs import positions
from rule_programs.checks import assert_found

PROGRAMS = positions.PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_group_is_found_and_holds(name):
    assert_found(PROGRAMS[name])
