"""Rules of contractions, attention, norms and reductions: what is contracted or normalised stays free."""

import pytest
from rule_programs import products
from rule_programs.checks import assert_found

PROGRAMS = products.PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_group_is_found_and_holds(name):
    assert_found(PROGRAMS[name])
