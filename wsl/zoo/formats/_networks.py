"""From single networks to chunks: names and shapes are checked, values become float32."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo._layout import Architecture
from wsl.zoo.formats._protocol import Rows

CHUNK_BYTES = 16 << 20
_CHUNK_ROWS = 4096
_NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,200}")
_MOST_TENSORS = 100_000


class Network(NamedTuple):
    """One network: float32 tensors, a value for each metadata column, and its split ("" if in none)."""

    architecture: Architecture
    weights: Mapping[str, np.ndarray]
    columns: Mapping[str, Any]
    split: str = ""


def batched(networks: Iterable[Network], kinds: Mapping[str, type]) -> Iterator[Rows]:
    """Put consecutive networks of one architecture together, some megabytes at a time.

    Args:
        kinds: the columns of every network and their type: ``int``, ``float`` or ``str``.
    """
    pending: list[Network] = []
    size = 0
    for network in networks:
        other = pending and network.architecture is not pending[0].architecture
        if other or size > CHUNK_BYTES or len(pending) >= _CHUNK_ROWS:
            yield _stack(pending, kinds)
            pending, size = [], 0
        pending.append(network)
        size += sum(array.nbytes for array in network.weights.values())
    if pending:
        yield _stack(pending, kinds)


def _stack(networks: Sequence[Network], kinds: Mapping[str, type]) -> Rows:
    names = list(networks[0].weights)
    types: dict[type, Any] = {int: np.int64, float: np.float64, str: np.str_}
    return Rows(
        networks[0].architecture,
        {name: np.stack([network.weights[name] for network in networks]) for name in names},
        {c: np.array([n.columns[c] for n in networks], dtype=types[kind]) for c, kind in kinds.items()},
        np.array([network.split for network in networks], dtype=np.str_),
    )


def tensors_of(state: Any, where: str) -> dict[str, np.ndarray]:
    """A state dict as it is: text names, arrays as values.

    Raises:
        ZooError: anything else, with what it holds.
    """
    if not isinstance(state, dict):
        raise ZooError(f"{where} holds a {type(state).__name__}, expected a dictionary of tensors.")
    if not state or len(state) > _MOST_TENSORS:
        raise ZooError(f"{where} holds {len(state)} tensors.")
    for name, value in state.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ZooError(f"{where} has a tensor named {str(name)[:60]!r}, which cannot be a tensor's name.")
        if not isinstance(value, np.ndarray):
            raise ZooError(
                f"{where} holds a {type(value).__name__} under {name!r}, expected tensors only. Save the "
                "plain dictionary of tensors."
            )
    return state


def match(
    tensors: Mapping[str, np.ndarray],
    names: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
    where: str,
) -> dict[str, np.ndarray]:
    """The tensors of a network under the names of its specification.

    Args:
        tensors: as they were read.
        names: name in the file -> name in the specification; exactly these tensors must be there.
        shapes: by the names of the specification.
        where: the file, for messages.

    Raises:
        ZooError: a missing or extra tensor, another shape, or values that no float32 holds.
    """
    if tensors.keys() != names.keys():
        missing, extra = sorted(names.keys() - tensors.keys()), sorted(tensors.keys() - names.keys())
        raise ZooError(f"{where}: missing tensors {_list(missing)}, unknown tensors {_list(extra)}.")
    found = {}
    for name, ours in names.items():
        array = tensors[name]
        if array.shape != shapes[ours]:
            raise ZooError(f"{where}: {name} has the shape {array.shape}, expected {shapes[ours]}.")
        found[ours] = as_float32(array, f"{where}: {name}")
    return found


def as_float32(array: np.ndarray, what: str, notes: list[str] | None = None) -> np.ndarray:
    """Values as float32.

    Args:
        notes: takes one sentence if float64 values are rounded; without it that is an error.

    Raises:
        ZooError: values that are not real numbers, or that float32 does not hold.
    """
    if array.dtype.kind not in "fiub":
        raise ZooError(f"{what} holds {array.dtype} values, expected real numbers.")
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = array.astype(np.float32)
        same = np.array_equal(narrow.astype(array.dtype), array, equal_nan=array.dtype.kind == "f")
    if not same:
        if notes is None or array.dtype.kind != "f" or (np.isinf(narrow) & np.isfinite(array)).any():
            raise ZooError(
                f"{what} holds {array.dtype} values that float32, which zoos store, does not hold."
            )
        sentence = "float64 values were rounded to float32, which zoos store."
        if sentence not in notes:
            notes.append(sentence)
    return narrow


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    return shown or "none"
