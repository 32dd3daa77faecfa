"""Rules of functions of the entries at each index: no index is mixed with others."""

import pytest
from rule_programs import pointwise
from rule_programs.checks import assert_found

PROGRAMS = pointwise.PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_group_is_found_and_holds(name):
    assert_found(PROGRAMS[name])
