"""Files that are missing, cut off, damaged, foreign or hostile: always a ZooError, never wrong data."""

import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_zoos import build_zoo

import wsl.zoo._reader
from wsl.zoo import Zoo, ZooArchitecture, ZooError, verify_zoo

ARCHITECTURE = "architectures/0"


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return build_zoo(tmp_path_factory.mktemp("zoo") / "good.h5")


@pytest.fixture(scope="module")
def scratch(zoo: Zoo) -> Path:
    return zoo.path.with_name("bad.h5")


def use(architecture: ZooArchitecture) -> None:
    """Ask for what is read when it is first used."""
    assert architecture.spec.tensors and architecture.parameters and architecture.forward.factory


def refusal(path: Path) -> str:
    """The message with which every way into the file refuses it."""
    with pytest.raises(ZooError) as caught:
        for architecture in Zoo.open(path).architectures.values():
            use(architecture)
    with pytest.raises(ZooError):
        verify_zoo(path)
    message = str(caught.value)
    assert str(path) in message, "the message names the file"
    assert "\n\n" not in message, "one paragraph"
    return message


def cut(zoo: Zoo, scratch: Path, size: int) -> str:
    scratch.write_bytes(zoo.path.read_bytes()[:size])
    return refusal(scratch)


@settings(max_examples=200)
@given(share=st.floats(0, 1, exclude_max=True))
def test_truncated_anywhere(zoo: Zoo, scratch: Path, share: float) -> None:
    assert "again" in cut(zoo, scratch, int(share * zoo.path.stat().st_size)), "it says the way out"


def test_truncated_by_little(zoo: Zoo, scratch: Path) -> None:
    for missing in range(1, 130):
        cut(zoo, scratch, zoo.path.stat().st_size - missing)


@settings(max_examples=150)
@given(data=st.data())
def test_damaged_anywhere(zoo: Zoo, scratch: Path, data: st.DataObject) -> None:
    content = bytearray(zoo.path.read_bytes())
    start = data.draw(st.integers(0, len(content) - 8))
    for position in range(start, start + data.draw(st.integers(1, 8))):
        content[position] = data.draw(st.integers(0, 255))
    scratch.write_bytes(content)
    try:
        damaged = Zoo.open(scratch)
        failed = verify_zoo(scratch).failed
    except ZooError as err:
        assert str(scratch) in str(err)
        return
    wrong = np.flatnonzero((damaged.matrix().view("u4") != zoo.matrix().view("u4")).any(axis=1))
    assert failed == wrong.tolist(), "exactly the damaged rows are named"
    assert damaged.fingerprint == zoo.fingerprint, "everything else is as it was"


def test_verify_names_damaged_rows(zoo: Zoo, scratch: Path) -> None:
    content = bytearray(zoo.path.read_bytes())
    ((start, (_, width)),) = zoo.stored
    for row, value in ((3, 0), (3, 7), (11, width - 1)):
        content[start + 4 * (row * width + value)] ^= 0x10
    scratch.write_bytes(content)
    result = verify_zoo(scratch)
    assert (result.rows, result.failed, result.ok) == (16, [3, 11], False)


def test_missing_file(tmp_path: Path) -> None:
    assert "There is no zoo at" in refusal(tmp_path / "none.h5")
    assert "python -m wsl zoo build" in refusal(tmp_path / "none.h5")
    assert list(tmp_path.iterdir()) == []


def test_folder(tmp_path: Path) -> None:
    assert "is a folder, expected a zoo file" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is an empty file"),
        (b"label,psnr\n1,40\n", "does not start as an HDF5 file does"),
        (b"PK\x03\x04", "does not start as an HDF5 file does"),
        (b"\x89HDF\r\n\x1a\n" + bytes(500), "is damaged and cannot be read as a zoo"),
    ],
)
def test_other_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.h5"
    path.write_bytes(content)
    assert message in refusal(path)


def test_foreign_hdf5(tmp_path: Path) -> None:
    path = tmp_path / "foreign.h5"
    with h5py.File(path, "w") as file:
        file["images"] = np.zeros((3, 28, 28))
    assert "an HDF5 file but not a zoo" in refusal(path)


def replaced(group: Any, name: str, value: Any, **arguments: Any) -> None:
    del group[name]
    group.create_dataset(name, data=value, **arguments)


def text(value: str) -> np.ndarray:
    return np.array(value.encode())


def forward_with(**changes: object) -> np.ndarray:
    entries = {
        "factory": "wsl.models:Siren",
        "arguments": {},
        "grid": None,
        "output_offset": 0.0,
        "output_scale": 1.0,
        "channels": 1,
    }
    return text(json.dumps(entries | changes))


def external(architecture: Any) -> None:
    del architecture["weights"]
    architecture.create_dataset("weights", (16, 21), "<f4", external=[("/etc/hostname", 0, 16 * 21 * 4)])


def virtual(architecture: Any) -> None:
    del architecture["weights"]
    layout = h5py.VirtualLayout((16, 21), "<f4")
    layout[:] = h5py.VirtualSource("other.h5", "weights", (16, 21))
    architecture.create_virtual_dataset("weights", layout)


def linked(architecture: Any) -> None:
    del architecture["spec"]
    architecture["spec"] = h5py.ExternalLink("/etc/other.h5", "spec")


def soft(architecture: Any) -> None:
    architecture.file["columns/other"] = h5py.SoftLink("/provenance")


def unallocated(architecture: Any) -> None:
    del architecture["weights"]
    architecture.create_dataset("weights", (1 << 40, 21), "<f4")


def another_architecture(architecture: Any) -> None:
    architecture.parent.copy("0", "1")
    replaced(architecture.parent["1"], "name", text("other"))


def parameters(architecture: Any) -> None:
    records = architecture["parameters"][()]
    records["offset"][1] += 4
    replaced(architecture, "parameters", records)


def split(name: str, indices: Any, recipe: str = "{}") -> Callable[[Any], None]:
    def change(architecture: Any) -> None:
        splits = architecture.file["splits"]
        if name in splits:
            del splits[name]
        dataset = splits.create_dataset(name, data=np.array(indices, dtype="<i8"))
        dataset.attrs["recipe"], dataset.attrs["seed"] = np.bytes_(recipe.encode()), np.int64(0)

    return change


HOSTILE: dict[str, tuple[Callable[[Any], None], str]] = {
    "newer version": (lambda a: a.file.attrs.modify("format_version", np.int64(3)), "Upgrade wsl"),
    "older version": (
        lambda a: a.file.attrs.modify("format_version", np.int64(1)),
        "zoo format 1, and this version of wsl reads format 2. Build it again",
    ),
    "version of text": (lambda a: a.file.attrs.create("format_version", "two"), "format version"),
    "version zero": (lambda a: a.file.attrs.modify("format_version", np.int64(0)), "format version"),
    "an empty architecture": (lambda a: a.parent.create_group("1"), "it has no /architectures/1/spec"),
    "an architecture without a number": (lambda a: a.parent.create_group("x"), "without a gap"),
    "an architecture twice": (lambda a: a.parent.copy("0", "1"), "expected distinct names"),
    "an architecture without rows": (another_architecture, "weights are stored for [16, 16]"),
    "rows of no architecture": (
        lambda a: replaced(a.file, "architecture", np.arange(16, dtype="<i4")),
        "name architectures 0 to 15, but it has 1",
    ),
    "architecture name": (lambda a: replaced(a, "name", text("a/b")), "cannot name an architecture"),
    "architecture renamed": (lambda a: replaced(a, "name", text("Sirens")), "digest"),
    "no architectures": (lambda a: a.file.pop("architectures"), "it has no /architectures"),
    "spec is prose": (lambda a: replaced(a, "spec", text("a poem about axes")), "does not parse"),
    "spec is not text": (lambda a: replaced(a, "spec", np.arange(3)), "expected one text"),
    "spec is not UTF-8": (lambda a: replaced(a, "spec", np.array(b"axes \xff\xfe")), "damaged"),
    "spec of another size": (
        lambda a: replaced(a, "spec", text(a["spec"][()].decode().replace("h1: 5", "h1: 6"))),
        "parameter table of Siren disagrees",
    ),
    "parameter table": (parameters, "parameter table of Siren disagrees"),
    "parameter table of numbers": (
        lambda a: replaced(a, "parameters", np.arange(4)),
        "parameter table of Siren disagrees",
    ),
    "forward is not JSON": (lambda a: replaced(a, "forward", text("{factory")), "not valid JSON"),
    "forward is deep": (lambda a: replaced(a, "forward", text("[" * 100_000)), "not valid JSON"),
    "forward is a list": (lambda a: replaced(a, "forward", text("[1]")), "expected an object"),
    "forward has NaN": (lambda a: replaced(a, "forward", text('{"factory":NaN}')), "not valid JSON"),
    "forward has more": (lambda a: replaced(a, "forward", forward_with(code="import os")), "has the entries"),
    "forward grid": (lambda a: replaced(a, "forward", forward_with(grid=[-1, 2])), "grid"),
    "forward changed": (lambda a: replaced(a, "forward", forward_with()), "digest"),
    "provenance": (lambda a: replaced(a.file, "provenance", text("{}")), "digest"),
    "weights elsewhere": (external, "contiguous"),
    "weights of another file": (virtual, "contiguous"),
    "weights compressed": (lambda a: replaced(a, "weights", a["weights"][()], chunks=(4, 21)), "contiguous"),
    "weights never written": (unallocated, "no fixed size"),
    "weights of float64": (
        lambda a: replaced(a, "weights", np.zeros((16, 21))),
        "expected float32 or float16",
    ),
    "weights big-endian": (
        lambda a: replaced(a, "weights", np.zeros((16, 21), ">f4")),
        "expected float32 or float16",
    ),
    "weights flat": (
        lambda a: replaced(a, "weights", np.zeros(16 * 21, "<f4")),
        "expected float32 or float16",
    ),
    "weights too wide": (
        lambda a: replaced(a, "weights", np.zeros((16, 22), "<f4")),
        "rows of Siren have 22 values",
    ),
    "fewer rows": (lambda a: replaced(a, "weights", np.zeros((8, 21), "<f4")), "stored for [8]"),
    "a link to another file": (linked, "is a link"),
    "a link inside": (soft, "is a link"),
    "a group as a column": (lambda a: a.file.create_group("columns/deep"), "expected a Dataset"),
    "pickled column": (
        lambda a: a.file["columns"].create_dataset("o", (16,), h5py.string_dtype()),
        "damaged|no fixed size",
    ),
    "complex column": (
        lambda a: a.file["columns"].create_dataset("c", data=np.zeros(16, complex)),
        "complex128",
    ),
    "extra column": (lambda a: a.file["columns"].create_dataset("e", data=np.zeros(16)), "digest"),
    "hashes cut": (lambda a: replaced(a.file, "hashes", np.zeros((16, 8), "u1")), "hashes is uint8 (16, 8)"),
    "hashes changed": (lambda a: replaced(a.file, "hashes", np.zeros((16, 16), "u1")), "digest"),
    "split outside": (split("val", [15, 16]), "expected distinct rows from 0 to 15"),
    "split below": (split("val", [-1]), "expected distinct rows from 0 to 15"),
    "split overlap": (split("extra", [0, 1, 2]), "must be disjoint"),
    "split recipe": (split("val", [0], "recipe"), "not valid JSON"),
    "digest": (
        lambda a: a.file.attrs.create("digest", np.bytes_(blake2b(digest_size=16).hexdigest())),
        "digest",
    ),
    "no digest": (lambda a: a.file.attrs.pop("digest"), "digest"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_content(zoo: Zoo, scratch: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, message = HOSTILE[name]
    if message != "digest":  # whoever changes a file can give it the digest that it then has
        monkeypatch.setattr(wsl.zoo._reader, "digest", lambda *_: zoo._digest)
    scratch.write_bytes(zoo.path.read_bytes())
    with h5py.File(scratch, "r+") as file:
        change(file[ARCHITECTURE])
    refused = refusal(scratch)
    assert any(part in refused for part in message.split("|")), refused


def test_the_changes_above_are_what_is_refused(zoo: Zoo, scratch: Path) -> None:
    scratch.write_bytes(zoo.path.read_bytes())
    with h5py.File(scratch, "r+") as file:
        replaced(file[ARCHITECTURE], "weights", file[ARCHITECTURE]["weights"][()])
        replaced(file[ARCHITECTURE], "forward", file[ARCHITECTURE]["forward"][()])
    assert Zoo.open(scratch).fingerprint == zoo.fingerprint, (
        "a rewritten file of the same content is accepted"
    )
    assert verify_zoo(scratch).ok
