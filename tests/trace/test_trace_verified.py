"""The groups found in the tables of architectures leave the functions unchanged."""

from fnmatch import fnmatchcase

import pytest
from architectures import KNOWN, Known

from wsl import VerifyReport, trace, verify


def proven(row: Known) -> VerifyReport:
    """Check one row; its dull blocks are exactly those that it lists."""
    module, inputs = row.build(), row.inputs()
    spec = trace(module, inputs, output=row.output)
    report = verify(module, spec, inputs, output=row.output)
    assert report.worst_error <= 1e-10
    assert {*report.axes, *report.untested} == {axis.name for axis in spec.hidden_axes}
    assert len(report.scalings) == len(spec.scalings)
    dull = [f"{key} along {axis}" for key, axis in report.dull]
    unlisted = [found for found in dull if not any(fnmatchcase(found, escaped(text)) for text in row.dull)]
    assert not unlisted
    assert all(any(fnmatchcase(found, escaped(text)) for found in dull) for text in row.dull)
    return report


def escaped(pattern: str) -> str:
    """``*`` and ``?`` match anything, the brackets of block keys themselves."""
    return pattern.replace("[", "[[]")


@pytest.mark.parametrize("name", KNOWN)
def test_the_group_leaves_the_function_unchanged(name):
    proven(KNOWN[name])
