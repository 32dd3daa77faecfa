"""Random programs: whatever group the tracer finds has to leave the function unchanged.

Takes up to a minute on one thread, so that every run tests 200 programs of its own.
"""

from collections import Counter
from collections.abc import Sequence

import hypothesis
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import BATCH, INPUTS, STEPS, TOKENS, program

from wsl import WeightSpec, trace
from wsl._randomised import RandomisedModule, relative_error
from wsl.testing import assert_preserves_function


def example() -> torch.Tensor:
    return torch.randn(BATCH, TOKENS, INPUTS)


def check(steps: Sequence[str], seed: int) -> WeightSpec:
    """Trace the program and apply its group: permutations with families, scalings, matrices."""
    torch.manual_seed(seed)
    module, inputs = program(steps, seed), example()
    spec = trace(module, inputs)
    try:
        assert_preserves_function(module, spec, inputs, trials=2, seed=seed)
    except AssertionError:
        hypothesis.assume(well_conditioned(module, inputs, seed))
        raise
    return spec


def well_conditioned(module: torch.nn.Module, inputs: torch.Tensor, seed: int) -> bool:
    """Whether the outputs are finite, and rounding errors of the weights grow less than ten thousandfold.

    Not so where a program divides by the deviation of what is constant, or branches on a sum that is zero.
    """
    subject = RandomisedModule(module, inputs, None, seed)
    subject.settle()
    expected = subject({})
    generator = torch.Generator().manual_seed(seed)
    for _ in range(3):
        shaken = {
            name: value * (1 + 1e-14 * torch.randn(value.shape, generator=generator, dtype=torch.float64))
            for name, value in subject.state.items()
        }
        found = subject(shaken)
        errors = [relative_error(found[path], expected[path]) for path in expected]
        if not all(error <= 1e-10 for error in errors):
            return False
    return True


def run_programs(seed: int, count: int) -> Counter[str]:
    """Check ``count`` programs drawn from ``seed``; returns how many had which kind of symmetry."""
    found: Counter[str] = Counter()

    @hypothesis.seed(seed)
    @settings(
        max_examples=count, derandomize=False, suppress_health_check=list(HealthCheck), print_blob=False
    )
    @given(st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=10), st.integers(0, 2**20))
    def programs(steps: list[str], draw: int) -> None:
        spec = check(steps, draw)
        found["checked"] += 1
        found["permuted"] += any(axis.size > 1 for axis in spec.hidden_axes)
        found["families"] += any(axis.family for axis in spec.hidden_axes)
        found.update({scaling.kind for scaling in spec.scalings})

    programs()
    return found


def test_the_groups_found_for_200_random_programs_leave_them_unchanged(program_seed):
    found = run_programs(program_seed, 200)
    assert found["checked"] >= 190
    assert found["permuted"] >= 100
    assert min(found[kind] for kind in ("families", "positive", "sign", "linear")) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("part", range(9))
def test_the_groups_found_for_1800_more_leave_them_unchanged(program_seed, part):
    assert run_programs(program_seed + 1 + part, 200)["checked"] >= 190


@pytest.mark.parametrize("step", sorted(STEPS))
def test_every_step_is_followed_alone(step, caplog):
    spec = check(["tanh", step, "linear", "tanh"], 0)
    assert any(axis.size > 1 for axis in spec.hidden_axes)
    assert "the rule of" not in caplog.text


def test_there_are_many_kinds_of_steps():
    assert len(STEPS) >= 100


def test_what_is_badly_conditioned_is_told_apart():
    torch.manual_seed(0)
    inputs = example()
    assert well_conditioned(program(["tanh", "layer_norm", "softmax"], 0), inputs, 0)
    assert not well_conditioned(program(["flattened", "instance_norm"], 919), inputs, 919)
