"""Budgets become steps: whole, validated at the last one, and within what was given."""

import pytest

from wsl.bench import BenchError, Budget


@pytest.mark.parametrize("seconds", [0.0037, 0.11, 2.0, 70.0])
@pytest.mark.parametrize("minutes", [0.05, 1, 25])
def test_minutes_are_not_exceeded_but_by_a_first_step(minutes, seconds):
    length = Budget(minutes, "minutes").length(seconds, batches=150)
    assert length.steps % length.interval == 0
    assert length.steps == 1 or length.steps * seconds <= minutes * 60
    fitting = minutes * 60 / seconds
    assert length.steps > fitting - length.interval - 1
    assert 1 <= length.steps // length.interval <= 19
    wanted = min(10, 4 * int(fitting) / 150)
    assert length.steps // length.interval >= min(int(fitting), wanted)


def test_validations_are_fewer_where_an_epoch_takes_longer():
    counts = []
    for seconds in (0.01, 1.0, 2.0, 8.0, 40.0, 100.0):
        length = Budget(2, "minutes").length(seconds, batches=131)
        counts.append(length.steps // length.interval)
    assert counts == [10, 4, 2, 2, 3, 1]


def test_epochs_are_the_same_whatever_a_step_takes():
    lengths = {Budget(20, "epochs").length(seconds, batches=150) for seconds in (0.001, 3.0)}
    assert [length.steps for length in lengths] == [3000]


def test_faster_encoders_get_more_steps():
    fast, slow = (Budget(1, "minutes").length(seconds, batches=10).steps for seconds in (0.01, 0.1))
    assert (fast, slow) == (6000, 600)


def test_timing_takes_a_fiftieth_within_limits():
    assert [Budget(m, "minutes").measuring for m in (0.05, 5, 25)] == [1.0, 6.0, 10.0]
    assert Budget(2, "epochs").measuring == 0


@pytest.mark.parametrize(
    ("amount", "unit"),
    [(0, "minutes"), (-1, "minutes"), (float("nan"), "minutes"), (0, "epochs"), (1.5, "epochs")],
)
def test_what_is_no_budget(amount, unit):
    with pytest.raises(BenchError, match=f"{unit} is {amount}"):
        Budget(amount, unit)
