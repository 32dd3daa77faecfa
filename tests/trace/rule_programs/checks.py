"""What every program of a table has to pass."""

from rule_programs._program import Program
from wsl import WeightSpec, trace
from wsl.testing import assert_preserves_function


def assert_found(program: Program) -> None:
    """The trace of ``program`` finds what its row says, and the function is invariant under it."""
    module, inputs = program.module(), program.inputs()
    spec = trace(module, inputs)
    assert _found(spec) == program.found
    if program.exact:
        assert_preserves_function(module, spec, inputs, trials=2)


def _found(spec: WeightSpec) -> str:
    """Sizes of the hidden axes, and of fixed ones with their notes."""
    reasons = sorted(f"{spec.axes[n.axis].size}!{n.reason.removesuffix(' in middle')}" for n in spec.notes)
    return ", ".join([*map(str, sorted(axis.size for axis in spec.hidden_axes)), *reasons])
