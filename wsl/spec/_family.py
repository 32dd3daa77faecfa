"""Families: axes with an independent permutation for each combination of the indices of other axes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from wsl.spec._values import Axis, BlockRef, SpecError, is_name

_USE = re.compile(r"(?P<axis>[^\[\]]+)(?:\[(?P<family>[^\[\]]+)\])?")


def order_families(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """The axes, each with its family in the order in which the axes are declared.

    Raises:
        SpecError: a family that names an axis which is not declared, or that is not closed: it holds an axis
            without the family of that axis.
    """
    listed = tuple(axes)
    families = {axis.name: axis.family for axis in listed}
    for axis in listed:
        for name in axis.family:
            if name not in families:
                raise SpecError(
                    f"the family of axis {axis.name} names {name}, which is not declared; "
                    f"declared: {', '.join(families)}."
                )
            if missing := [outer for outer in families[name] if outer not in axis.family]:
                raise SpecError(
                    f"the family of axis {axis.name} holds {name} but not {', '.join(missing)}, over which "
                    f"{name} itself is a family; a family holds those of its members."
                )
    return tuple(
        replace(axis, family=tuple(name for name in families if name in axis.family)) if axis.family else axis
        for axis in listed
    )


def check_families(axes: Mapping[str, Axis], blocks: Iterable[BlockRef]) -> None:
    """Every block that carries an axis carries each axis of its family once: it tells which permutation acts.

    Raises:
        SpecError: a block that does not.
    """
    for key, _, block in blocks:
        for name in set(axes) & set(block.axes):
            for outer in axes[name].family:
                if (count := block.axes.count(outer)) != 1:
                    raise SpecError(
                        f"block {key} carries {format_use(name, axes)} and {outer} {count} times: "
                        f"{' '.join(block.axes)}.\n  A block with an axis of a family carries each axis that "
                        "the family is over exactly once; else give the axis no family."
                    )


def format_use(name: str, axes: Mapping[str, Axis]) -> str:
    """Write an axis where it is used: ``h1``, or ``d1[h1]`` if it is a family."""
    family = axes[name].family
    return f"{name}[{','.join(family)}]" if family else name


def parse_use(token: str, families: dict[str, tuple[str, ...]]) -> str:
    """Read ``d1[h1,g2]``; returns the name and keeps the family in ``families``.

    Raises:
        SpecError: no name, a bracket is misplaced, or an earlier use of the axis has another family.
    """
    match = _USE.fullmatch(token)
    name, family = (
        (match["axis"], tuple(filter(None, (match["family"] or "").split(",")))) if match else ("", ())
    )
    if not all(map(is_name, (name, *family))):
        raise SpecError(
            f"{token!r} is no axis; write 'd1' or, for a family, 'd1[h1,g2]'. Names have letters, digits, "
            "dots and underscores, and spaces between them."
        )
    known = families.setdefault(name, family)
    if set(known) != set(family):
        earlier, here = (f"{name}[{','.join(f)}]" if f else name for f in (known, family))
        raise SpecError(
            f"axis {name} is used as {earlier} before, and as {here}; a family is the same everywhere."
        )
    return name
