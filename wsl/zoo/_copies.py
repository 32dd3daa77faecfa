"""Zoos made from zoos: some rows of one, or the rows of several. Weights pass through block by block."""

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import wsl
from wsl.zoo._architecture import ZooArchitecture
from wsl.zoo._checks import check_tables
from wsl.zoo._columns import ColumnStream
from wsl.zoo._errors import ZooError
from wsl.zoo._layout import STORED_DTYPES, Architecture, Tables, hash_rows
from wsl.zoo._map import Rows, select
from wsl.zoo._reader import read_content
from wsl.zoo._splits import Split, split_by_model
from wsl.zoo._store import Zoo
from wsl.zoo._streaming import BLOCK_BYTES
from wsl.zoo._writer import write_zoo
from wsl.zoo._writing import WritingFolder

Part = tuple[ZooArchitecture, np.ndarray]  # an architecture of a source zoo, and rows of it in their order


def subset_zoo(
    zoo: Zoo,
    out: str | os.PathLike[str],
    rows: Rows = None,
    *,
    condition: str | None = None,
    dedupe: bool = False,
) -> Zoo:
    """Copy some rows into a zoo of their own, in their order.

    Architectures and splits that have none of them are left out.

    Args:
        out: the zoo file to make; never overwritten. It appears whole or not at all.
        rows: those to keep, as in :meth:`Zoo.weights`; each once.
        condition: keep only rows that meet it, see :meth:`Zoo.where`.
        dedupe: of rows of one architecture with the same weights (by hash), keep the first.

    Raises:
        ZooError: no row is left, a condition that does not read, or ``out`` exists.
    """
    kept = np.zeros(len(zoo), dtype=bool)
    kept[select(rows, len(zoo))] = True
    if condition is not None:
        meets = np.zeros(len(zoo), dtype=bool)
        meets[zoo.where(condition)] = True
        kept &= meets
    chosen = np.flatnonzero(kept)
    if dedupe:
        chosen = chosen[first_of_equals(zoo, chosen)]
    if not len(chosen):
        raise ZooError(f"None of the {len(zoo)} rows of {zoo.path} is left, and a zoo needs at least one.")
    tables, present = zoo.tables, np.unique(zoo.tables.numbers[chosen])
    place = np.full(len(zoo), -1)
    place[chosen] = np.arange(len(chosen))
    splits = {}
    for name, split in tables.splits.items():
        left = place[split.indices]
        if (left >= 0).any():
            splits[name] = Split(left[left >= 0], split.recipe, split.seed)
    operation = {"operation": "subset", "where": condition, "dedupe": dedupe, "rows": len(chosen)}
    made = Tables(
        architectures=tuple(tables.architectures[number] for number in present),
        numbers=np.searchsorted(present, tables.numbers[chosen]).astype(np.int32),
        provenance=_provenance(operation, [zoo]),
        dtype=tables.dtype,
        columns={name: column[chosen] for name, column in tables.columns.items()},
        splits=splits,
        hashes=tables.hashes[chosen],
    )
    views = list(zoo.architectures.values())
    parts = [[(views[n], tables.places[chosen[tables.numbers[chosen] == n]])] for n in present]
    return _write(out, made, parts)


def split_zoo(
    zoo: Zoo,
    out: str | os.PathLike[str],
    fractions: Mapping[str, float],
    *,
    by: str | Sequence[str],
    stratify: str | None = None,
    seed: int = 0,
) -> Zoo:
    """Copy a zoo with other splits: rows of one value of a column stay together, see :func:`split_by_model`.

    Args:
        out: the zoo file to make; never overwritten. It appears whole or not at all.
        fractions: share of the groups for each split; they sum to 1.
        by: the column that groups rows, such as ``model`` or ``image``; or several, whose values together
            name a group: all hyperparameters but the seed make a group of seeds.
        stratify: the column whose values each split holds in the same proportions.

    Raises:
        ZooError: as :func:`split_by_model`; no such column; or ``out`` exists.
    """
    metadata, tables = zoo.metadata, zoo.tables
    strata = None if stratify is None else metadata[stratify]
    names = [by] if isinstance(by, str) else list(by)
    splits = split_by_model(
        _groups([metadata[name] for name in names]),
        fractions,
        seed,
        column=names[0] if len(names) == 1 else None,
        stratify=strata,
        stratify_column=stratify,
    )
    if len(names) > 1:
        splits = {
            name: Split(each.indices, each.recipe | {"columns": names}, each.seed)
            for name, each in splits.items()
        }
    made = Tables(
        architectures=tables.architectures,
        numbers=tables.numbers,
        provenance=_provenance({"operation": "split"}, [zoo]),
        dtype=tables.dtype,
        columns=tables.columns,
        splits=splits,
        hashes=tables.hashes,
    )
    return _write(out, made, [[(view, np.arange(len(view)))] for view in zoo.architectures.values()])


def merge_zoos(
    zoos: Sequence[Zoo],
    out: str | os.PathLike[str],
    *,
    distinct: Sequence[str] = (),
    common_columns: bool = False,
) -> Zoo:
    """Put the rows of several zoos one after another.

    Equal architectures (specification and forward definition) become one; an architecture whose name is taken
    by another gets a number behind it. Splits of one name are joined. If one zoo stores ``float32``, all is.

    Args:
        zoos: in the order of their rows.
        out: the zoo file to make; never overwritten. It appears whole or not at all.
        distinct: columns such as ``model`` or ``image`` whose values mean something else in each zoo: they
            are numbered anew, so that no two zoos share one.
        common_columns: leave out columns that not all zoos have; without it, such columns are an error.

    Raises:
        ZooError: columns that differ, a group that comes into two splits, two rows of one (model, step), or
            ``out`` exists.
    """
    if not zoos:
        raise ZooError("No zoos were given to merge.")
    architectures, numbers_of = _joined_architectures(zoos)
    numbers = np.concatenate(
        [np.array(of)[zoo.tables.numbers] for zoo, of in zip(zoos, numbers_of, strict=True)]
    )
    dtype = "float32" if any(zoo.dtype == "float32" for zoo in zoos) else "float16"
    parts: list[list[Part]] = [[] for _ in architectures]
    for zoo, of in zip(zoos, numbers_of, strict=True):
        for number, view in zip(of, zoo.architectures.values(), strict=True):
            parts[number].append((view, np.arange(len(view))))
    columns = _joined_columns(zoos, distinct, common_columns)
    made = Tables(
        architectures=tuple(architectures),
        numbers=numbers.astype(np.int32),
        provenance=_provenance({"operation": "merge", "distinct": list(distinct)}, zoos),
        dtype=dtype,
        columns=columns,
        splits=_joined_splits(zoos, columns),
        hashes=np.concatenate([_hashes(zoo, dtype) for zoo in zoos]),
    )
    return _write(out, made, parts)


def _groups(columns: Sequence[np.ndarray]) -> np.ndarray:
    """``(rows,)``: the column, or numbers of what stands together in several; raises ZooError for none."""
    if not columns:
        raise ZooError("No column was given to split by. Name at least one, such as model.")
    groups = columns[0]
    for column in columns[1:]:
        _, more = np.unique(column, return_inverse=True)
        _, numbers = np.unique(groups, return_inverse=True)
        groups = numbers * (int(more.max()) + 1) + more
    return groups


def first_of_equals(zoo: Zoo, rows: np.ndarray) -> np.ndarray:
    """``(m,)`` ascending positions in ``rows``: the first of each set with one architecture and one hash."""
    keys = np.empty(len(rows), dtype=[("number", "<i4"), ("hash", "V16")])
    keys["number"] = zoo.tables.numbers[rows]
    keys["hash"] = np.ascontiguousarray(zoo.hashes[rows]).view("V16")[:, 0]
    _, first = np.unique(keys.view("V20"), return_index=True)
    return np.sort(first)


def _joined_architectures(zoos: Sequence[Zoo]) -> tuple[list[Architecture], list[list[int]]]:
    """The distinct architectures, and for each zoo where its own are among them."""
    joined: list[Architecture] = []
    found: dict[tuple[str, str], int] = {}
    places: list[list[int]] = []
    for zoo in zoos:
        places.append([])
        for architecture in zoo.tables.architectures:
            key = (architecture.spec_text, architecture.forward_text)
            if key not in found:
                found[key] = len(joined)
                taken = {other.name for other in joined}
                joined.append(_renamed(architecture, taken))
            places[-1].append(found[key])
    return joined, places


def _renamed(architecture: Architecture, taken: Container[str]) -> Architecture:
    """The architecture, with a number behind its name if that is taken."""
    if architecture.name not in taken:
        return architecture
    free = next(name for n in count(2) if (name := f"{architecture.name}-{n}") not in taken)
    return Architecture(free, architecture.spec, architecture.forward)


def _joined_columns(zoos: Sequence[Zoo], distinct: Sequence[str], common: bool) -> dict[str, np.ndarray]:
    shared = set(zoos[0].metadata).intersection(*(zoo.metadata for zoo in zoos))
    for zoo in zoos:
        more = sorted(set(zoo.metadata) - shared)
        if more and not common:
            raise ZooError(
                f"{zoo.path} has the metadata columns {more}, which not all zoos have. "
                "Merge with common_columns to leave them out (--common_columns)."
            )
    unknown = sorted(set(distinct) - shared)
    if unknown:
        raise ZooError(f"There are no columns {unknown} to number anew; the zoos share {sorted(shared)}.")
    columns = {}
    for name in sorted(shared):
        stream, start = ColumnStream(name), 0
        for zoo in zoos:
            values = zoo.metadata[name]
            if name in distinct:
                _, values = np.unique(values, return_inverse=True)
                values, start = values + start, start + int(values.max()) + 1
            stream.check(values)
            stream.append(values)
        columns[name] = stream.array()
    return columns


def _joined_splits(zoos: Sequence[Zoo], kept: Container[str]) -> dict[str, Split]:
    """The splits of all zoos by name; ``kept`` are the columns that are left to check their groups by."""
    starts = np.cumsum([0, *(len(zoo) for zoo in zoos)])
    names = dict.fromkeys(name for zoo in zoos for name in zoo.splits)
    joined = {}
    for name in names:
        having = [(zoo, start) for zoo, start in zip(zoos, starts, strict=False) if name in zoo.splits]
        splits = [zoo.splits[name] for zoo, _ in having]
        columns = {split.recipe.get("column") for split in splits}
        column = columns.pop() if len(columns) == 1 else None
        recipe = {
            "method": "merge_zoos",
            "parts": [{"recipe": split.recipe, "seed": split.seed} for split in splits],
            "column": column if column in kept else None,
        }
        joined[name] = Split(np.concatenate([zoo.split(name) + start for zoo, start in having]), recipe)
    return joined


def _hashes(zoo: Zoo, dtype: str) -> np.ndarray:
    if zoo.dtype == dtype:
        return zoo.hashes
    hashes = np.empty_like(zoo.hashes)
    for view in zoo.architectures.values():
        start = 0
        for block in _blocks([(view, np.arange(len(view)))], dtype):
            hashes[view.rows[start : start + len(block)]] = hash_rows(block)
            start += len(block)
    return hashes


def _blocks(parts: Sequence[Part], dtype: str) -> Iterator[np.ndarray]:
    for view, rows in parts:
        step = max(1, BLOCK_BYTES // (4 * view.width))
        for start in range(0, len(rows), step):
            yield view.matrix(rows[start : start + step], STORED_DTYPES[dtype])


def _write(out: str | os.PathLike[str], tables: Tables, parts: Sequence[Sequence[Part]]) -> Zoo:
    check_tables(tables)

    def write(partial: Path) -> None:
        write_zoo(partial, tables, [_blocks(part, tables.dtype) for part in parts])
        read_content(partial)  # it must read back before it gets its name

    path = Path(out).absolute()
    with WritingFolder(path) as folder:
        folder.finish(write)
    return Zoo.open(path)


def _provenance(operation: dict[str, Any], zoos: Sequence[Zoo]) -> dict[str, Any]:
    sources = [{"fingerprint": zoo.fingerprint, "provenance": zoo.provenance} for zoo in zoos]
    return {**operation, "version": wsl.__version__, "sources": sources}
