"""Seeded damage to the files of a foreign zoo: flipped, cut, swapped, hostile."""

import io
import json
import os
import random
import re
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

from foreign_pickles import evil_pickle

_HOSTILE_TOKENS = [
    "-1", "0", "1e999", "NaN", "99999999999999999999999", "null", "[]", "{}", '"../../etc/passwd"',
    '"\\u0000"', "[" * 3000, '""', "true", "2147483648", "__import__('os')", ",,,", '"', "\x00", "\n",
]  # fmt: skip


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 4, 30))):
        changed[rng.randrange(len(changed))] = rng.choice((0, 255, rng.randrange(256)))
    return bytes(changed)


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _lose(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randrange(1, 40) :]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    return data[: start + rng.randrange(1, 60)] + data[start:]


def _noise(rng: random.Random, data: bytes) -> bytes:
    return rng.randbytes(rng.choice((0, 1, 8, 700)))


def _tokens(rng: random.Random, data: bytes) -> bytes:
    """Put something hostile in the place of a number or text."""
    places = list(re.finditer(rb'-?\d+(?:\.\d+)?|"[^"]{0,40}"|[a-z_]{3,}', data))
    if not places:
        return _flip(rng, data)
    place = rng.choice(places)
    return data[: place.start()] + rng.choice(_HOSTILE_TOKENS).encode() + data[place.end() :]


def _number(rng: random.Random, data: bytes) -> bytes:
    """Put an extreme number into binary data."""
    size, start = rng.choice((4, 8)), rng.randrange(max(1, len(data) - 8))
    value = rng.choice((0, 1, -1, 2**31 - 1, -(2**31)))
    return data[:start] + struct.pack("<i" if size == 4 else "<q", value) + data[start + size :]


_BYTES: list[Callable[[random.Random, bytes], bytes]] = [
    _flip, _flip, _cut, _lose, _repeat, _noise, _tokens, _tokens, _number,
]  # fmt: skip


def _repack(rng: random.Random, data: bytes, marker: Path) -> bytes:
    """Damage a member of a zip archive so that its checksum still holds, or plant a pickle that runs code."""
    members = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    pickles = [name for name in members if name.endswith("data.pkl")]
    name = rng.choice(pickles * 4 + list(members))
    if rng.random() < 0.2 and pickles:
        members[pickles[0]] = evil_pickle(marker)
    elif members[name]:
        members[name] = rng.choice(_BYTES)(rng, members[name])
    out = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if rng.random() < 0.1 else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", kind) as archive:
        for member, content in members.items():
            archive.writestr(f"../../{member}" if rng.random() < 0.02 else member, content)
    return out.getvalue()


def damage(source: Path, seed: int, marker: Path) -> str:
    """Damage one file below ``source``; returns what was done.

    Args:
        marker: a file that must never appear: planted pickles would make it.
    """
    rng = random.Random(seed)
    files = sorted(path for path in source.rglob("*") if path.is_file() and path.stat().st_size)
    path = rng.choice(files)
    data = path.read_bytes()
    action = rng.choice(
        ["bytes"] * 8 + ["repack"] * 6 + ["remove", "empty", "folder", "link", "swap", "rename"]
    )
    if action == "repack" and not zipfile.is_zipfile(path):
        action = "bytes"
    if action == "bytes":
        change = rng.choice(_BYTES)
        action = change.__name__
        path.write_bytes(change(rng, data))
    elif action == "repack":
        path.write_bytes(_repack(rng, data, marker))
    elif action == "swap":
        path.write_bytes(rng.choice(files).read_bytes())
    elif action == "rename":
        path.rename(
            path.with_name(rng.choice(("x" + path.name, path.name + "0", path.name.replace("0", "1"))))
        )
    else:
        path.unlink()
        if action == "empty":
            path.touch()
        elif action == "folder":
            path.mkdir()
        elif action == "link":
            path.symlink_to("/etc/passwd")
    return f"{action} of {path.relative_to(source)}"


def copied(pristine: Path, folder: Path) -> Path:
    """A fresh copy of a source, which may be damaged."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(pristine, folder)
    return folder


def plant_fifo(path: Path) -> None:
    """A file that blocks for ever whoever reads it."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def deep_json(levels: int) -> str:
    """JSON nested deeper than any stack."""
    return "[" * levels + json.dumps(0) + "]" * levels
