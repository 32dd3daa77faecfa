"""The groups found in the tables of architectures leave the functions unchanged, and wrong ones do not."""

from fnmatch import fnmatchcase

import pytest
from architectures import KNOWN, Known

from wsl import SymmetryError, VerifyReport, trace, verify
from wsl.testing import mutations

MUTATED = (
    "mlp",
    "siren",
    "swiglu",
    "grouped",
    "concat_flatten",
    "attention_einsum",
    "mixture_of_experts",
    "elman",
)


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


@pytest.mark.parametrize(
    "name",
    [
        "mlp",
        "siren",
        "grouped",
        "concat_flatten",
        "attention_einsum",
        "mixture_of_experts",
        "swiglu",
        "elman",
    ],
)
def test_other_groups_do_not(name):
    row = KNOWN[name]
    module, example = row.build(), row.inputs()
    found = list(mutations(trace(module, example)))
    assert len(found) >= 8
    for what, wrong in found:
        with pytest.raises(SymmetryError):
            verify(module, wrong, example)
            pytest.fail(f"passed although {what}")
