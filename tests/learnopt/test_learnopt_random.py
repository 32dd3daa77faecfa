"""Random numbers of a seed and a place: their distribution, their independence, and who shares them."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from wsl.learnopt._random import (
    hashes,
    integers,
    key_of,
    next_seeds,
    normals,
    permutations,
    uniform,
    uniforms,
)

_MASK = (1 << 64) - 1


def mixed(x):
    """SplitMix64's finaliser in Python's own integers."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def test_a_stream_is_splitmix64():
    """The first numbers of the generator's published code from the seed 1234567."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    drawn = hashes(torch.tensor(1234567), 4).tolist()
    assert [value & _MASK for value in drawn] == published
    assert published[0] == mixed((1234567 + 0x9E3779B97F4A7C15) & _MASK)


@pytest.mark.parametrize("draw", [uniforms, normals, lambda key, shape: permutations(key, 12)])
def test_a_lane_draws_the_same_bytes_alone_and_among_others(draw):
    seeds = torch.arange(-30, 37)
    drawn = draw(key_of(seeds, 5, seeds % 3), (3, 4))
    for lane in range(len(seeds)):
        alone = draw(key_of(seeds[lane : lane + 1], 5, seeds[lane] % 3), (3, 4))
        assert torch.equal(drawn[lane], alone[0])


def test_integers_do_not_depend_on_where_a_draw_begins():
    key, steps = key_of(torch.tensor([4, 4, 9])), torch.tensor([0, 2, 1])
    whole = integers(key, 12, 1000)
    parts = integers(key, 3, 1000, steps * 3)
    for lane, step in enumerate(steps.tolist()):
        assert torch.equal(parts[lane], whole[lane, 3 * step : 3 * step + 3])
    assert torch.equal(integers(key, 3, 1000, 2**62), integers(key, 3, 1000, torch.tensor(2**62)))


def streams(kind):
    """200 x 500 uniforms where the rows, or the columns, are neighbours in one respect."""
    many, few = torch.arange(200), torch.arange(500)
    if kind == "places":
        return uniforms(key_of(many), (500,), torch.float64)
    if kind == "seeds":
        return uniform(few[None], many[:, None])
    if kind == "words":
        return uniform(many[:, None], few[None])
    if kind == "last of many words":
        return uniform(torch.tensor(3), 1, many[:, None], 2, few[None])
    assert kind == "chains of seeds"
    rows = [many]
    for _ in range(499):
        rows.append(next_seeds(rows[-1]))
    return uniform(torch.stack(rows, 1))


@pytest.mark.parametrize("kind", ["places", "seeds", "words", "last of many words", "chains of seeds"])
def test_neighbours_are_uniform_and_independent(kind):
    drawn = streams(kind).numpy()
    assert stats.kstest(drawn.ravel(), "uniform").pvalue > 1e-3
    # neighbours in either direction, and their squares, are uncorrelated
    centred = (drawn - 0.5) * math.sqrt(12)
    for values in (centred, (centred**2 - 1) / math.sqrt(0.8)):
        for shift in ((0, 1), (1, 0), (1, 1), (0, 7)):
            ahead = values[shift[0] :, shift[1] :]
            behind = values[: values.shape[0] - shift[0], : values.shape[1] - shift[1]]
            assert abs((ahead * behind).mean()) * math.sqrt(ahead.size) < 4.5
    # pairs of neighbours fill the square
    for pairs in ((drawn[:, ::2], drawn[:, 1::2]), (drawn[::2], drawn[1::2])):
        counts = np.histogram2d(pairs[0].ravel(), pairs[1].ravel(), bins=16, range=[[0, 1], [0, 1]])[0]
        assert stats.chisquare(counts.ravel()).pvalue > 1e-3


def test_each_bit_of_seed_and_word_changes_half_of_the_bits():
    seeds = torch.arange(300) * 7919 - 1000
    flipped = torch.stack(
        [seeds ^ (1 << bit) if bit < 63 else seeds ^ torch.tensor(-(1 << 63)) for bit in range(64)]
    )
    for changed in (
        key_of(flipped, 1) ^ key_of(seeds, 1),
        key_of(seeds * 0, flipped) ^ key_of(seeds * 0, seeds),
    ):
        bits = torch.stack([(changed >> bit) & 1 for bit in range(64)]).double().mean(-1)
        assert (bits - 0.5).abs().max() < 6 * 0.5 / math.sqrt(300)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normals_are_normal(dtype):
    drawn = normals(key_of(torch.arange(100)), (1000,), dtype)
    assert drawn.dtype == dtype
    values = drawn.double().numpy().ravel()
    assert stats.kstest(values, "norm").pvalue > 1e-3
    assert abs(values.mean()) < 4 / math.sqrt(1e5)
    assert abs((values**2).mean() - 1) < 4 * math.sqrt(2 / 1e5)
    assert abs((values**4).mean() - 3) < 4 * math.sqrt(96 / 1e5)
    assert (
        abs(np.corrcoef(drawn[:-1].double().numpy().ravel(), drawn[1:].double().numpy().ravel())[0, 1])
        < 0.013
    )


def test_uniforms_are_multiples_below_one():
    for dtype, bits in ((torch.float32, 24), (torch.float64, 53)):
        drawn = uniforms(key_of(torch.arange(50)), (2000,), dtype)
        assert drawn.dtype == dtype
        assert ((drawn >= 0) & (drawn < 1)).all()
        assert torch.equal(drawn * 2**bits, (drawn * 2**bits).floor())
        assert (drawn * 2**bits % 2).mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("high", [2, 7, 60000, 2**31])
def test_integers_are_uniform(high):
    drawn = integers(key_of(torch.arange(20)), 5000, high)
    assert drawn.min() >= 0
    assert drawn.max() < high
    bins = min(high, 50)
    counts = (drawn * bins // high).flatten().bincount(minlength=bins).numpy()
    sizes = np.bincount(np.arange(high) * bins // high, minlength=bins) if high < 10**6 else np.ones(bins)
    assert stats.chisquare(counts, sizes / sizes.sum() * counts.sum()).pvalue > 1e-3


def test_all_permutations_are_equally_likely():
    drawn = permutations(key_of(torch.arange(6000)), 3)
    assert torch.equal(drawn.sort(-1).values, torch.arange(3).expand(6000, 3))
    counts = (drawn @ torch.tensor([9, 3, 1])).bincount()
    assert stats.chisquare(counts[counts > 0].numpy()).pvalue > 1e-3
    assert (counts > 0).sum() == 6


def test_next_seeds_are_new_and_not_negative():
    seeds = torch.arange(-500, 500)
    following = next_seeds(seeds)
    assert (following >= 0).all()
    assert len(torch.cat([seeds, following, next_seeds(following)]).unique()) == 3000


def test_no_global_generator_is_used():
    before = torch.get_rng_state()
    normals(key_of(torch.arange(3)), (4,))
    assert torch.equal(before, torch.get_rng_state())
