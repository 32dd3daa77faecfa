"""Random numbers that are functions of a seed and a place: no stream has to be stored or replayed.

All results depend on the words of their key and on nothing else: a lane draws the same bytes alone, among
others, and after an interruption. Integers are equal on every device; normal values are those of its
mathematical functions.

Source: the finaliser of SplitMix64 with its constants (Steele, Lea, Flood: Fast Splittable Pseudorandom
Number Generators, OOPSLA 2014, doi:10.1145/2660193.2660195), and its stream ``mix(key + i * gamma)``.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_GAMMA = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed number: products wrap around
_FIRST, _SECOND = -4658895280553007687, -7723592293110705685  # 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

_NEXT = 0x6E657874  # a word that only next_seeds uses


def key_of(seeds: Tensor, *words: Tensor | int) -> Tensor:
    """One key for each seed and words that say what is drawn.

    Args:
        seeds: int64 of any shape.
        words: integers or int64 tensors that broadcast against ``seeds``. The order among integers counts,
            and that among tensors, but not how they alternate: integers are mixed before anything else, which
            costs nothing on the device.

    Returns:
        int64, uniform over all values, of the shape of all arguments together.
    """
    salt = _FIRST
    for word in words:
        if not isinstance(word, Tensor):
            salt = _mixed(salt + word * _GAMMA + _SECOND)
    key = _mix(seeds * _GAMMA + salt)
    for word in words:
        if isinstance(word, Tensor):
            key = _mix(key + (word * _GAMMA + _SECOND))
    return key


def hashes(key: Tensor, count: int, start: Tensor | int = 0) -> Tensor:
    """``(*key.shape, count)`` int64: the numbers ``start`` to ``start + count - 1`` of each key's stream."""
    places = torch.arange(1, count + 1, device=key.device) * _GAMMA
    begin = start * _GAMMA
    return _mix((key + (begin if isinstance(begin, Tensor) else _wrapped(begin)))[..., None] + places)


def uniforms(key: Tensor, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """``(*key.shape, *shape)`` in [0, 1): multiples of 2^-24, or of 2^-53 in float64."""
    bits = 53 if dtype == torch.float64 else 24
    drawn = _shifted(hashes(key, math.prod(shape)), 64 - bits)
    return drawn.to(dtype).mul_(2.0**-bits).view(*key.shape, *shape)


def normals(key: Tensor, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """``(*key.shape, *shape)`` of the standard normal distribution, by its inverse in float64."""
    drawn = _shifted(hashes(key, math.prod(shape)), 12).to(torch.float64)
    centred = (2 * drawn + 1).mul_(2.0**-52).sub_(1)  # exact, symmetric, never -1 or 1
    return torch.erfinv(centred).mul_(math.sqrt(2)).to(dtype).view(*key.shape, *shape)


def integers(key: Tensor, count: int, high: int, start: Tensor | int = 0) -> Tensor:
    """``(*key.shape, count)`` int64 in [0, high), with a bias below ``high / 2^32``.

    Args:
        key: of the streams.
        count: of integers.
        high: at most 2^31.
        start: as of :func:`hashes`; integers ``start`` on are the same, however many are drawn at once.
    """
    return (_shifted(hashes(key, count, start), 32) * high) >> 32


def uniform(seeds: Tensor, *words: Tensor | int) -> Tensor:
    """One number in [0, 1) of each key, float64, of the shape of all arguments together."""
    return _shifted(key_of(seeds, *words), 11).to(torch.float64).mul_(2.0**-53)


def next_seeds(seeds: Tensor) -> Tensor:
    """Of each problem that is over the seed of the next, from 0 on: a function of the old seed alone."""
    return _shifted(key_of(seeds, _NEXT), 1)


def permutations(key: Tensor, count: int) -> Tensor:
    """``(*key.shape, count)`` int64: for each key an order of ``count`` items."""
    return hashes(key, count).argsort(dim=-1, stable=True)


def _wrapped(x: int) -> int:
    """An integer as torch's int64 would hold it."""
    return (x + (1 << 63)) % (1 << 64) - (1 << 63)


def _mixed(x: int) -> int:
    """:func:`_mix` of an integer."""
    x %= 1 << 64
    x = (x ^ (x >> 30)) * _FIRST % (1 << 64)
    x = (x ^ (x >> 27)) * _SECOND % (1 << 64)
    return _wrapped(x ^ (x >> 31))


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shifted(x, 30)) * _FIRST
    x = (x ^ _shifted(x, 27)) * _SECOND
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """To the right, as of unsigned numbers."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
