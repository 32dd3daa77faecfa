"""Reads the files of ``torch.save`` as data: numpy arrays in plain containers."""

import math
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo.formats._files import read_bytes
from wsl.zoo.formats._pickle import read_pickle

_TYPES = {
    "FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "BFloat16Storage": "<u2",
    "LongStorage": "<i8", "IntStorage": "<i4", "ShortStorage": "<i2", "CharStorage": "i1",
    "ByteStorage": "u1", "BoolStorage": "?",
}  # fmt: skip
_LARGEST_PICKLE = 64 << 20
_LARGEST_FILE = 64 << 30
_SHARED = 4  # tensors may share a storage, as tied weights do, but not make a small file a large network
_WAY_OUT = "Copy it again, or save it again with torch 1.6 or later."


def read_torch_file(
    path: Path,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    records: frozenset[str] = frozenset(),
) -> Any:
    """What ``torch.save`` stored, with tensors as numpy arrays (bfloat16 widened to float32).

    Args:
        path: a file in the zip format, torch's own since 1.6.
        functions, records: further names that the pickle may use, see
            :func:`wsl.zoo.formats._pickle.read_pickle`.

    Raises:
        ZooError: another format, damage, or anything in it beyond tensors and plain values.
    """
    if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
        read_bytes(path, _LARGEST_FILE)
    try:
        with zipfile.ZipFile(path) as archive:
            return _Archive(archive).load(functions or {}, records)
    except ZooError as err:
        raise ZooError(f"{path}: {err}") from err.__cause__
    except zipfile.BadZipFile as err:
        raise ZooError(f"{path} is no file of torch.save, or is damaged ({err}). {_WAY_OUT}") from err
    except Exception as err:  # zipfile raises many types on damaged archives
        raise ZooError(f"{path} is damaged ({type(err).__name__}: {err}). {_WAY_OUT}") from err


class _Archive:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.storages: dict[str, np.ndarray] = {}
        self.entries = 0
        members = archive.infolist()
        self.members = {member.filename: member for member in members}
        if len(self.members) != len(members):
            raise ZooError("its archive holds two members of one name.")
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
                raise ZooError(
                    f"its member {member.filename[:60]!r} is compressed, as torch.save never does."
                )
        roots = [name.removesuffix("/data.pkl") for name in self.members if name.endswith("/data.pkl")]
        if len(roots) != 1 or "/" in roots[0]:
            raise ZooError(f"its archive holds {len(roots)} pickles, expected one. {_WAY_OUT}")
        self.root = roots[0]

    def load(self, functions: Mapping[str, Callable[..., Any]], records: frozenset[str]) -> Any:
        if f"{self.root}/byteorder" in self.members and self.read("byteorder", 16) != b"little":
            raise ZooError("its bytes are in big-endian order. Save it again on a usual machine.")
        ours: dict[str, Callable[..., Any]] = {
            "torch._utils._rebuild_tensor_v2": self.tensor,
            "torch._utils._rebuild_parameter": lambda data, *_: _array(data),
            "collections.OrderedDict": _empty,
        }
        return read_pickle(
            self.read("data.pkl", _LARGEST_PICKLE),
            ours | dict(functions),
            records,
            self.storage,
        )

    def read(self, name: str, limit: int) -> bytes:
        member = self.members.get(f"{self.root}/{name}")
        if member is None:
            raise ZooError(f"its archive has no member {name[:60]!r}. {_WAY_OUT}")
        if member.file_size > limit:
            raise ZooError(
                f"its member {name[:60]!r} has {member.file_size} bytes, expected at most {limit}."
            )
        return self.archive.read(member)

    def storage(self, identifier: Any) -> np.ndarray:
        kind, storage_type, key, _, count = identifier
        type_name = getattr(storage_type, "name", "").removeprefix("torch.")
        if kind != "storage" or type_name not in _TYPES or not isinstance(key, str):
            raise ZooError(f"it holds a storage of the type {type_name or type(storage_type).__name__}.")
        if key not in self.storages:
            values = np.frombuffer(self.read(f"data/{key}", _LARGEST_FILE), dtype=_TYPES[type_name])
            if type_name == "BFloat16Storage":
                values = (values.astype("<u4") << 16).view("<f4")
            self.storages[key] = values
        if len(self.storages[key]) != count:
            raise ZooError(
                f"its storage {key[:20]} has {len(self.storages[key])} values, and its pickle says "
                f"{count if isinstance(count, int) else 'otherwise'}. {_WAY_OUT}"
            )
        return self.storages[key]

    def tensor(self, storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> np.ndarray:
        values = _array(storage)
        numbers = [offset, *size, *stride]
        if len(size) != len(stride) or len(size) > 16 or not all(type(n) is int and n >= 0 for n in numbers):
            raise ZooError("it holds a tensor with impossible sizes or strides.")
        count = math.prod(size)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if count else 0
        self.entries += count
        held = sum(map(len, self.storages.values()))
        if last >= max(len(values), 1) or count > len(values) or self.entries > _SHARED * held:
            raise ZooError(f"it holds a tensor of {count} values, more than are stored. {_WAY_OUT}")
        bytes_of = tuple(step * values.itemsize for step in stride)
        return np.lib.stride_tricks.as_strided(
            values[min(offset, len(values)) :], size, bytes_of, writeable=False
        )


def _array(value: Any) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a {type(value).__name__} where a tensor belongs")
    return value


def _empty(*arguments: Any) -> OrderedDict[Any, Any]:
    if arguments:
        raise TypeError("an ordered dictionary with arguments")
    return OrderedDict()
