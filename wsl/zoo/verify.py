"""Checking a zoo file against its hashes."""

import os
from dataclasses import dataclass

import numpy as np

from wsl.zoo._layout import hash_rows
from wsl.zoo._store import Zoo

_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True)
class VerifyResult:
    """What :func:`verify_zoo` found.

    Attributes:
        rows: how many were checked.
        failed: those whose stored bytes no longer give their hash.
        not_finite: those that hold infinities or NaN. They are as they were written: networks that diverged.
    """

    rows: int
    failed: list[int]
    not_finite: list[int]

    @property
    def ok(self) -> bool:
        return not self.failed


def verify_zoo(path: str | os.PathLike[str]) -> VerifyResult:
    """Recompute every row's hash.

    Raises:
        ZooError: as :meth:`Zoo.open`; damage outside the weights is found there, or here where it is in
            the description of one architecture.
    """
    zoo = Zoo.open(path)
    failed: list[int] = []
    not_finite: list[int] = []
    for view in zoo.architectures.values():
        assert view.spec.tensors and view.forward and view.parameters  # each is checked when it is first used
        step = max(1, _BLOCK_BYTES // view.matrix([0]).nbytes)
        for start in range(0, len(view), step):
            rows = slice(start, start + step)
            numbers = view.rows[rows]
            matrix = view.matrix(rows, dtype=zoo.dtype)
            wrong = (hash_rows(matrix) != zoo.hashes[numbers]).any(axis=1)
            failed += numbers[wrong].tolist()
            not_finite += numbers[~np.isfinite(matrix).all(axis=1)].tolist()
    return VerifyResult(len(zoo), sorted(failed), sorted(not_finite))
