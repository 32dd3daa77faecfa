"""Horizons are functions of seeds, within their limits, and first ones are staggered."""

import pytest
import torch

from wsl.learnopt.truncation import Constant, LogUniform

SEEDS = torch.arange(20_000)


def test_constant_horizons():
    assert (Constant(7).horizons(SEEDS) == 7).all()


def test_log_uniform_horizons_are_as_often_in_each_octave():
    horizons = LogUniform(16, 255).horizons(SEEDS)
    assert horizons.dtype == torch.int64 and horizons.min() == 16 and horizons.max() == 255
    shares = [float(((horizons >= low) & (horizons < 2 * low)).double().mean()) for low in (16, 32, 64, 128)]
    assert shares == pytest.approx([0.25] * 4, abs=0.015)


def test_a_horizon_depends_on_its_seed_alone():
    some = torch.tensor([5, 77, 12_345])
    assert torch.equal(LogUniform(1, 1000).horizons(some), LogUniform(1, 1000).horizons(SEEDS)[some])


def test_staggered_lanes_end_at_different_times_and_never_at_once():
    assert Constant(100).staggered(torch.arange(5)).tolist() == [20, 40, 60, 80, 100]
    assert Constant(2).staggered(torch.arange(5)).tolist() == [1, 1, 2, 2, 2]
    whole = LogUniform(3, 50).horizons(SEEDS)
    first = LogUniform(3, 50).staggered(SEEDS)
    assert (first >= 1).all() and (first <= whole).all()


@pytest.mark.parametrize("make", [lambda: Constant(0), lambda: LogUniform(0, 5), lambda: LogUniform(6, 5)])
def test_horizons_below_one_and_limits_in_disorder_are_refused(make):
    with pytest.raises(ValueError, match=r"(Constant: steps|LogUniform: low) is"):
        make()
