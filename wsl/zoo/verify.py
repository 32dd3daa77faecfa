"""Checking and describing a zoo file."""

import os
from dataclasses import dataclass

import numpy as np

from wsl.zoo._architecture import ZooArchitecture
from wsl.zoo._layout import hash_rows, row_length
from wsl.zoo._store import Zoo

_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True)
class VerifyResult:
    """``rows`` checked, and the numbers of those whose stored bytes no longer give their hash."""

    rows: int
    failed: list[int]

    @property
    def ok(self) -> bool:
        return not self.failed


def verify_zoo(path: str | os.PathLike[str]) -> VerifyResult:
    """Recompute every row's hash.

    Raises:
        ZooError: as :meth:`Zoo.open`; damage outside the weights is found there.
    """
    zoo = Zoo.open(path)
    failed: list[int] = []
    for view in zoo.architectures.values():
        step = max(1, _BLOCK_BYTES // view.matrix([0]).nbytes)
        for start in range(0, len(view), step):
            rows = slice(start, start + step)
            numbers = view.rows[rows]
            wrong = (hash_rows(view.matrix(rows, dtype=zoo.dtype)) != zoo.hashes[numbers]).any(axis=1)
            failed += numbers[wrong].tolist()
    return VerifyResult(len(zoo), sorted(failed))


def zoo_info(path: str | os.PathLike[str]) -> str:
    """What a zoo holds, as text for people; raises ZooError as :meth:`Zoo.open`."""
    zoo = Zoo.open(path)
    lines = [
        f"zoo          {zoo.path}",
        f"networks     {len(zoo)}, {zoo.dtype}, {zoo.path.stat().st_size / 1e6:.1f} MB",
        f"fingerprint  {zoo.fingerprint}",
        *(
            f"{name:<12} {len(view)} of {row_length(view.parameters)} weights, {_forward_line(view)}"
            for name, view in zoo.architectures.items()
        ),
        "splits       "
        + (", ".join(f"{name} {len(split.indices)}" for name, split in zoo.splits.items()) or "none"),
        "metadata",
        *(f"  {name:<18} {_column_line(values)}" for name, values in zoo.metadata.items()),
        "provenance",
        *(f"  {name:<18} {value}" for name, value in zoo.provenance.items()),
        *(
            line
            for name, view in zoo.architectures.items()
            for line in (f"spec of {name}", *(f"  {line}" for line in str(view.spec).splitlines()))
        ),
    ]
    return "\n".join(
        "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line) for line in lines
    )


def _forward_line(view: ZooArchitecture) -> str:
    forward = view.forward
    arguments = ", ".join(f"{name}={value!r}" for name, value in forward.arguments.items())
    grid = "" if forward.grid is None else f" on a grid of {' x '.join(map(str, forward.grid))}"
    return f"{forward.factory}({arguments}){grid}"


def _column_line(values: np.ndarray) -> str:
    distinct = np.unique(values)
    if values.dtype.kind == "U":
        return f"text, {len(distinct)} distinct, e.g. {distinct[0]}"
    kind = "int" if values.dtype.kind == "i" else "float"
    if np.isnan(values).all():
        return f"{kind}, all missing"
    with np.errstate(invalid="ignore"):  # the median of opposite infinities is NaN
        low, median, high = np.nanmin(values), np.nanmedian(values), np.nanmax(values)
    return f"{kind}, {low:.6g} to {high:.6g}, median {median:.6g}, {len(distinct)} distinct"
