"""Making dims equal, and cutting, splitting and regrouping them; what cannot be expressed is fixed."""

import itertools
import math
from collections.abc import Callable, Sequence

from wsl.trace._axes import (
    AxisVariable,
    Concatenation,
    Dim,
    Factor,
    Reason,
    fix,
    fresh,
    is_fixed,
    leaves,
    merge,
    refine,
    resolve,
    significant,
    size_of,
)

Why = Callable[[], Reason]


def unify(a: Dim, b: Dim, why: Why) -> None:
    """Make ``a`` and ``b`` the same expression: both are refined to a common form, or else both fixed."""
    left, right = resolve(a), resolve(b)
    if left == right:
        return
    assert size_of(left) == size_of(right), f"{left} and {right} differ in size"
    if size_of(left) == 1:
        for x, y in zip(leaves(left), leaves(right), strict=False):
            merge(x, y)
        return
    _unify_significant(left, right, why)


def _unify_significant(left: Dim, right: Dim, why: Why) -> None:
    a, b = significant(left), significant(right)
    if a == b:
        return
    if len(a) == 1 and isinstance(a[0], AxisVariable):
        return _bind(a[0], right, why)
    if len(b) == 1 and isinstance(b[0], AxisVariable):
        return _bind(b[0], left, why)
    concatenated = [dim for dim in (a, b) if len(dim) == 1]
    if len(concatenated) == 2:
        return _unify_concatenations(a, b, why)
    if concatenated:
        return _unify_blocks(concatenated[0], b if concatenated[0] is a else a, why)
    return _unify_products(a, b, why)


def _bind(leaf: AxisVariable, dim: Dim, why: Why) -> None:
    core = significant(dim)
    if core == (leaf,):
        return
    if leaf in set(leaves(core)):
        return _conflict((leaf,), dim, why)
    if len(dim) == 1 and isinstance(dim[0], AxisVariable):
        return merge(leaf, dim[0])
    refine(leaf, dim)


def _unify_concatenations(a: Dim, b: Dim, why: Why) -> None:
    ends = [list(itertools.accumulate(map(size_of, _terms(dim)))) for dim in (a, b)]
    if ends[0] != ends[1] and is_fixed(a) and is_fixed(b):
        return  # ranges that are shifted against each other would be cut to single indices, for nothing
    stops = {stop for found in ends for stop in found}
    sizes = [stop - start for start, stop in itertools.pairwise([0, *sorted(stops)])]
    left, right = cut(a, sizes), cut(b, sizes)
    if left is None or right is None:
        return _conflict(a, b, why)
    for x, y in zip(left, right, strict=True):
        unify(x, y, why)


def _unify_blocks(concatenation: Dim, product: Dim, why: Why) -> None:
    """A product ``(k, rest)`` equals a concatenation of ``k`` blocks that are all ``rest``."""
    head, rest = product[:1], product[1:]
    pieces = cut(concatenation, [size_of(rest)] * size_of(head))
    if pieces is None:
        return _conflict(concatenation, product, why)
    fix(head, why())
    for piece in pieces:
        unify(piece, rest, why)


def _unify_products(a: Dim, b: Dim, why: Why) -> None:
    if a[0].size == b[0].size:
        unify(a[:1], b[:1], why)
        return unify(a[1:], b[1:], why)
    large, small = (a, b) if a[0].size > b[0].size else (b, a)
    divisor = math.gcd(large[0].size, small[0].size)
    if divisor == 1 or not isinstance(large[0], AxisVariable):
        return _conflict(a, b, why)
    if divisor != small[0].size:
        if not isinstance(small[0], AxisVariable):
            return _conflict(a, b, why)
        split(small[0], divisor)
    split(large[0], divisor)
    unify(a, b, why)


def _conflict(a: Dim, b: Dim, why: Why) -> None:
    reason = why()
    fix(a, reason)
    fix(b, reason)


def _terms(dim: Dim) -> tuple[Dim, ...]:
    return dim[0].terms if len(dim) == 1 and isinstance(dim[0], Concatenation) else (dim,)


def split(leaf: AxisVariable, outer: int) -> tuple[AxisVariable, AxisVariable]:
    """Refine ``leaf`` into a product of an axis of size ``outer`` and one of the rest."""
    parts = AxisVariable(outer), AxisVariable(leaf.size // outer)
    refine(leaf, parts)
    return parts


def cut(dim: Dim, sizes: Sequence[int]) -> list[Dim] | None:
    """Cut ``dim`` into consecutive pieces; refines a leaf into a concatenation.

    Returns:
        One dim for each size, or ``None`` if the pieces cannot be expressed.
    """
    assert size_of(dim) == sum(sizes)
    dim = resolve(dim)
    if len(sizes) == 1:
        return [dim]
    dim = significant(dim) if size_of(dim) > 1 else dim
    if len(dim) == 1:
        factor = dim[0]
        if isinstance(factor, Concatenation):
            return _cut_concatenation(factor, sizes)
        pieces: list[Dim] = [(AxisVariable(size),) for size in sizes]
        refine(factor, (Concatenation(pieces),))
        return pieces
    inner = size_of(dim[1:])
    if any(size % inner for size in sizes):
        return None
    heads = cut(dim[:1], [size // inner for size in sizes])
    return None if heads is None else [resolve(head + dim[1:]) for head in heads]


def _cut_concatenation(factor: Concatenation, sizes: Sequence[int]) -> list[Dim] | None:
    pieces: list[Dim] = []
    terms = list(factor.terms)
    for size in sizes:
        piece: list[Dim] = []
        while size > 0:
            term = terms.pop(0)
            if size_of(term) > size:
                parts = cut(term, [size, size_of(term) - size])
                if parts is None:
                    return None
                term = parts[0]
                terms.insert(0, parts[1])
            piece.append(term)
            size -= size_of(term)
        pieces.append(piece[0] if len(piece) == 1 else (Concatenation(piece),))
    return pieces


def regroup(dims: Sequence[Dim], sizes: Sequence[int], why: Why) -> list[Dim]:
    """Read the row-major index of ``dims`` as dims of other ``sizes`` with the same product (``view``)."""
    pool: list[Factor] = [factor for dim in dims for factor in resolve(dim)]
    grouped: list[Dim] = []
    for size in sizes:
        group: list[Factor] = []
        need = size
        while need > 1 or (pool and pool[0].size == 1):
            pool[:1] = resolve(tuple(pool[:1]))  # an earlier step may have refined it
            if need % pool[0].size == 0:
                group.append(pool[0])
                need //= pool.pop(0).size
            elif not _open_factor(pool, need, why):
                reason = why()
                for dim in dims:
                    fix(dim, reason)
                return list(fresh(sizes, reason))
        grouped.append(tuple(group))
    return grouped


def _open_factor(pool: list[Factor], need: int, why: Why) -> bool:
    """Replace the first factor, too large for ``need``, by a product whose head divides ``need``."""
    factor = pool[0]
    divisor = math.gcd(factor.size, need)
    if isinstance(factor, AxisVariable):
        if divisor == 1:
            return False
        pool[:1] = split(factor, divisor)
        return True
    if factor.size % need:
        return False
    # A concatenation of equal blocks, seen as (block, rest): the blocks must lie on one and the same axis.
    pieces = cut((factor,), [factor.size // need] * need)
    if pieces is None:
        return False
    for piece in pieces[1:]:
        unify(pieces[0], piece, why)
    pool[:1] = [AxisVariable(need, why()), *resolve(pieces[0])]
    return True
