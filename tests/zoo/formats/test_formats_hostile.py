"""Files made to run code, to fill memory, to hang or to read other files: refused, with nothing run."""

import gzip
import io
import json
import pickle
import resource
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import foreign_zoos
import h5py
import numpy as np
import pytest
import torch
from foreign_pickles import evil_pickle
from mutations import deep_json, plant_fifo

from wsl.zoo import ZooError
from wsl.zoo.formats import FORMATS, import_zoo
from wsl.zoo.formats._pickle import read_pickle
from wsl.zoo.formats._torch_file import read_torch_file

TORCH_ZOOS = [
    name for name in foreign_zoos.ZOOS if name not in ("safetensors", "cnnzoo", "nef", "nws", "lora")
]


def repacked(path: Path, **members: bytes) -> None:
    """Replace members of a file of ``torch.save``, checksums and all."""
    with zipfile.ZipFile(path) as archive:
        contents = {info.filename: archive.read(info) for info in archive.infolist()}
        root = archive.namelist()[0].partition("/")[0]
    contents |= {f"{root}/{name.replace('__', '.')}": content for name, content in members.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def refusal(name: str, source: Path, out: Path) -> str:
    with pytest.raises(ZooError) as caught:
        import_zoo(FORMATS[foreign_zoos.ZOOS[name][0]], source, out)
    assert not out.exists()
    return str(caught.value)


@pytest.mark.parametrize("name", TORCH_ZOOS)
def test_pickles_run_nothing(name: str, tmp_path: Path) -> None:
    source = foreign_zoos.ZOOS[name][1](tmp_path / "source")
    path = next(p for p in sorted(source.rglob("*")) if zipfile.is_zipfile(p) and p.name != "optimizer")
    repacked(path, data__pkl=evil_pickle(tmp_path / "marker"))
    message = refusal(name, source, tmp_path / "zoo.h5")
    assert "Nothing was run" in message and path.name in message
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "value",
    [print, OrderedDict, Path("a"), slice(1), 1j, {1, 2}, bytearray(b"a"), np.float64(1), torch.nn.ReLU()],
)
def test_values_beyond_plain_data_are_refused(value: Any, protocol: int) -> None:
    data = pickle.dumps({"x": value}, protocol=protocol)
    try:
        found = read_pickle(data, {})
    except ZooError:
        return
    assert type(found["x"]).__name__ == "_Name", "a name is never looked up"


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_are_read(protocol: int) -> None:
    value = {"a": [1, -2, 2**70, 1.5, None, True], "b": ("x", "y", ()), "c": {"d": "é" * 300}, 3: [[]]}
    assert read_pickle(pickle.dumps(value, protocol=protocol), {}) == value


def test_pickles_that_would_hash_for_ever_are_refused() -> None:
    # (((a, a), (a, a)), …) as a key: hashing it would take 2**200 steps
    data = b"\x80\x02}" + b")q\x00" + b"h\x00h\x00\x86q\x00" * 200 + b"0" * 0
    with pytest.raises(ZooError):
        read_pickle(data + b"K\x01s.", {})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"\x80\x02.",
        b"\x80\x02}q\x00h\x07.",
        b"\x80\x02(((((.",
        b"\x80\x02]K\x01K\x02s.",
        b"\x80\x02X\xff\xff\xff\x7fabc.",
        b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.",
        b"\x80\x02c__builtin__\neval\nX\x01\x00\x00\x001\x85R.",
        b"\x80\x02K\x01Q.",
    ],
)
def test_broken_pickles_are_refused(data: bytes) -> None:
    with pytest.raises(ZooError):
        read_pickle(data, {})


def tensor_file(path: Path, storage: bytes, count: int, arguments: tuple[Any, ...]) -> None:
    """A file of torch whose only tensor has these arguments (offset, size, stride)."""

    class Storage:
        pass

    class Tensor:
        def __reduce__(self) -> Any:
            return (torch._utils._rebuild_tensor_v2, (Storage(), *arguments, False, OrderedDict()))

    out = io.BytesIO()
    pickler = pickle.Pickler(out, protocol=2)
    identifier = ("storage", torch.FloatStorage, "0", "cpu", count)
    pickler.persistent_id = lambda obj: identifier if isinstance(obj, Storage) else None  # type: ignore[method-assign]
    pickler.dump({"w": Tensor()})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", out.getvalue())
        archive.writestr("a/data/0", storage)


@pytest.mark.parametrize(
    ("count", "arguments"),
    [
        (4, (0, (5,), (1,))),
        (4, (1, (4,), (1,))),
        (4, (0, (10**12,), (0,))),
        (4, (0, (2, 2), (3, 1))),
        (4, (-1, (1,), (1,))),
        (4, (0, (-1,), (1,))),
        (4, (0, (2,), (-1,))),
        (4, (0, (2, 2), (1,))),
        (4, (2**70, (1,), (1,))),
        (4, (0, (1.0,), (1,))),
        (10**12, (0, (4,), (1,))),
        (4, (0, (1,) * 40, (1,) * 40)),
    ],
)
def test_tensors_beyond_their_storage_are_refused(
    count: int, arguments: tuple[Any, ...], tmp_path: Path
) -> None:
    tensor_file(tmp_path / "good.pt", bytes(16), 4, (1, (3,), (1,)))
    assert read_torch_file(tmp_path / "good.pt")["w"].shape == (3,)
    tensor_file(tmp_path / "bad.pt", bytes(16), count, arguments)
    with pytest.raises(ZooError, match=r"bad\.pt"):
        read_torch_file(tmp_path / "bad.pt")


def test_views_are_read_as_torch_reads_them(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    stored = {"t": base.T, "part": base[1:, ::2], "none": base[:0], "one": base[2, 3], "base": base}
    torch.save(stored, tmp_path / "views.pt")
    for name, array in read_torch_file(tmp_path / "views.pt").items():
        assert np.array_equal(array, stored[name].numpy()) and array.shape == tuple(stored[name].shape), name


@pytest.mark.parametrize("damage", ["compressed", "doubled", "no pickle", "two pickles", "legacy"])
def test_archives_that_torch_never_makes_are_refused(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"w": torch.ones(2)}, path, _use_new_zipfile_serialization=damage != "legacy")
    if damage != "legacy":
        with zipfile.ZipFile(path) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
        if damage == "no pickle":
            members = [member for member in members if not member[0].endswith("data.pkl")]
        if damage == "two pickles":
            members.append(("b/data.pkl", b"\x80\x02}."))
        kind = zipfile.ZIP_DEFLATED if damage == "compressed" else zipfile.ZIP_STORED
        with zipfile.ZipFile(path, "w", kind) as archive:
            for name, content in members:
                archive.writestr(name, content)
            if damage == "doubled":
                with pytest.warns(UserWarning, match="Duplicate"):
                    archive.writestr(*members[0])
    with pytest.raises(ZooError, match=r"a\.pt"):
        read_torch_file(path)


def test_numpy_files_are_never_unpickled(tmp_path: Path) -> None:
    source = foreign_zoos.cnnzoo(tmp_path / "source")
    np.save(source / "weights.npy", np.array([[foreign_zoos]] * 0 + [[{}] * 4970] * 30), allow_pickle=True)
    assert "object" in refusal("cnnzoo", source, tmp_path / "zoo.h5")


def test_small_compressed_tables_do_not_go_on_for_ever(tmp_path: Path) -> None:
    source = foreign_zoos.cnnzoo(tmp_path / "source")
    header = ",".join(foreign_zoos.CNN_METRICS).encode()
    (source / "metrics.csv.gz").write_bytes(gzip.compress(header + b"\n" + b"a" * 50_000_000))
    assert "line 2" in refusal("cnnzoo", source, tmp_path / "zoo.h5")
    (source / "metrics.csv.gz").write_bytes(gzip.compress(b"\n" * 50_000_000))
    refusal("cnnzoo", source, tmp_path / "zoo.h5")


@pytest.mark.parametrize("trick", ["external link", "external storage", "virtual", "fill", "soft link"])
def test_hdf5_files_do_not_lead_elsewhere_or_grow(trick: str, tmp_path: Path) -> None:
    source = foreign_zoos.nef(tmp_path / "source")
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["params"] = np.ones((5, 64), np.float32)
    width = sum(int(np.prod(shape)) for _, shape in foreign_zoos.NEF_CONFIG)
    with h5py.File(source / "nefs_7-12.hdf5", "r+") as file:
        del file["params"]
        if trick == "external link":
            file["params"] = h5py.ExternalLink(str(secret), "/params")
        elif trick == "soft link":
            file["params"] = h5py.SoftLink("/labels")
        elif trick == "external storage":
            file.create_dataset("params", (5, width), "<f4", external=[(str(secret), 0, 20 * width)])
        elif trick == "virtual":
            layout = h5py.VirtualLayout((5, width), "<f4")
            layout[:] = h5py.VirtualSource(secret, "params", (5, width))
            file.create_virtual_dataset("params", layout)
        else:
            file.create_dataset("params", (10**11, width), "<f4", chunks=(1024, width))
    if trick == "fill":
        (source / "nefs_7-12.hdf5").rename(source / "nefs_7-100000000007.hdf5")
    assert "params" in refusal("nef", source, tmp_path / "zoo.h5")


@pytest.mark.parametrize(
    "header",
    [
        {name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for name in "wx"},
        {"w": {"dtype": "F32", "shape": [10**15], "data_offsets": [0, 4 * 10**15]}},
        {"w": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}},
        {"w": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}},
        {"w": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}},
        {"w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}},
        {"w": {"dtype": "F32", "shape": 2}},
        {"w": [], "__metadata__": {"a": 1}},
        [],
    ],
)  # fmt: skip
def test_safetensors_headers_are_checked(header: Any, tmp_path: Path) -> None:
    text = json.dumps(header).encode()
    (tmp_path / "source").mkdir()
    (tmp_path / "source/a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    assert "a.safetensors" in refusal("safetensors", tmp_path / "source", tmp_path / "zoo.h5")


def test_files_that_block_their_reader_are_passed_by(tmp_path: Path) -> None:
    source = foreign_zoos.state_dicts(tmp_path / "source")
    plant_fifo(source / "net4.pt")
    assert "net4.pt" in refusal("state_dicts", source, tmp_path / "zoo.h5")
    source = foreign_zoos.dws_mnist(tmp_path / "dws")
    plant_fifo(next(source.rglob("model_final.pth")))
    assert "no regular file" in refusal("dws_mnist", source, tmp_path / "zoo.h5")


@pytest.mark.parametrize("name", ["dws_mnist", "modelzoo_dataset", "sane", "implicit_zoo", "lora", "nef"])
def test_json_without_bottom_is_refused(name: str, tmp_path: Path) -> None:
    source = foreign_zoos.ZOOS[name][1](tmp_path / "source")
    for path in sorted((tmp_path / "source").rglob("*.json")):
        path.write_text(deep_json(200_000))
    assert "not valid JSON" in refusal(name, source, tmp_path / "zoo.h5")


def test_a_table_names_no_file_outside(tmp_path: Path) -> None:
    source = foreign_zoos.state_dicts(tmp_path / "source")
    torch.save({"a": torch.ones(1)}, tmp_path / "secret.pt")
    for name in ("../secret.pt", str(tmp_path / "secret.pt"), "./net0.pt", "a/../net0.pt"):
        (source / "labels.csv").write_text(f"file\n{name}\n")
        assert "there is no such network" in refusal("state_dicts", source, tmp_path / "zoo.h5")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_zoo(tmp_path: Path) -> None:
    """A Small CNN Zoo of 1.2 GB within 700 MB of memory beyond what Python and torch take."""
    source = foreign_zoos.cnnzoo(tmp_path / "source", models=200, steps=(0, 40, 86))
    rows = 60_000
    with open(source / "weights.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (rows, 4970)}
        )
        file.truncate(file.tell() + rows * 4970 * 4)
    text = gzip.decompress((source / "metrics.csv.gz").read_bytes()).decode().splitlines()
    lines = [text[0]]
    for row in range(rows):
        lines.append(text[1 + row % 600].replace("/x/", f"/{row // 600}/"))
    (source / "metrics.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode(), 1))
    (source / "cifar10_split.csv").unlink()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    zoo = import_zoo(FORMATS["cnnzoo"], source, tmp_path / "zoo.h5").zoo
    assert len(zoo) == rows
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 700_000
