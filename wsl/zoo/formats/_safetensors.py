"""Safetensors files as numpy arrays; bfloat16 is widened to float32."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo.formats._files import parse_json, read_bytes
from wsl.zoo.formats._networks import tensors_of

_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_NAMES = {np.dtype(kind): name for name, kind in _TYPES.items() if name != "BF16"}
_LARGEST_FILE = 64 << 30


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors and metadata of a file.

    Raises:
        ZooError: the header is damaged, or tensors overlap, leave gaps, or do not fit their shapes.
    """
    data = read_bytes(path, _LARGEST_FILE)
    length = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else -1
    if not 2 <= length <= len(data) - 8:
        raise ZooError(f"{path} is no safetensors file, or is cut off. Copy it again.")
    header = parse_json(data[8 : 8 + length], f"{path}: the header", dict)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ZooError(f"{path}: the metadata of the header are no texts.")
    body = memoryview(data)[8 + length :]
    spans, tensors = [], {}
    for name, entry in header.items():
        start, stop, kind, shape = _entry(entry, f"{path}: {name[:60]}")
        expected = int(np.prod(shape, dtype=object)) * np.dtype(_TYPES[kind]).itemsize
        if stop - start != expected or stop > len(body):
            raise ZooError(
                f"{path}: {name[:60]} takes {stop - start} bytes, expected {expected} for {kind} {shape}."
            )
        values = np.frombuffer(body[start:stop], _TYPES[kind]).reshape(shape)
        tensors[name] = (values.astype("<u4") << 16).view("<f4") if kind == "BF16" else values
        spans.append((start, stop))
    ends = [0, *(stop for _, stop in sorted(spans))]
    if [start for start, _ in sorted(spans)] != ends[:-1] or ends[-1] != len(body):
        raise ZooError(f"{path}: its tensors overlap or leave gaps. It is damaged: copy it again.")
    return tensors_of(tensors, str(path)), metadata


def _entry(entry: Any, where: str) -> tuple[int, int, str, tuple[int, ...]]:
    entry = entry if isinstance(entry, dict) else {}
    kind, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    lists = isinstance(shape, list) and len(shape) <= 16 and isinstance(offsets, list) and len(offsets) == 2
    if not lists or kind not in _TYPES or not all(type(n) is int and n >= 0 for n in [*shape, *offsets]):
        raise ZooError(f"{where}: the header has no usable dtype ({str(kind)[:20]}), shape and data_offsets.")
    return offsets[0], offsets[1], kind, tuple(shape)


def write_safetensors(path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Store tensors in their own types, in the order given, the body aligned to 8 bytes."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    stop = 0
    for name, array in tensors.items():
        start, stop = stop, stop + array.nbytes
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [start, stop],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).tobytes())
