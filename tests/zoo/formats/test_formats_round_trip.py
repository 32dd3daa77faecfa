"""Every public format: import, export, import again gives the same zoo; the generic ones hold any zoo."""

from pathlib import Path

import numpy as np
import pytest
from foreign_zoos import ZOOS

from wsl.zoo import Zoo, ZooError
from wsl.zoo.formats import FORMATS, export_zoo, import_zoo

KEPT_OUT = {"wildpark": ["config is a plain dictionary"]}


def assert_same(one: Zoo, other: Zoo) -> None:
    """Weights, metadata, splits with their recipes, specifications and forward definitions, bit for bit."""
    for name in one.metadata:
        a, b = one.metadata[name], other.metadata[name]
        assert a.dtype.kind == b.dtype.kind and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), name
    assert set(one.metadata) == set(other.metadata)
    assert np.array_equal(one.hashes, other.hashes)
    for name, split in one.splits.items():
        assert np.array_equal(split.indices, other.split(name)), name
    assert one.fingerprint == other.fingerprint


@pytest.fixture(scope="module", params=list(ZOOS))
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Zoo]:
    name, make = ZOOS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    return name, import_zoo(FORMATS[name], make(folder / "source"), folder / "zoo.h5").zoo


def test_own_format(imported: tuple[str, Zoo], tmp_path: Path) -> None:
    name, zoo = imported
    notes = export_zoo(zoo, FORMATS[name], tmp_path / "exported")
    assert len(notes) == len(KEPT_OUT.get(name, []))
    assert all(part in note for part, note in zip(KEPT_OUT.get(name, []), notes, strict=True))
    again = import_zoo(FORMATS[name], tmp_path / "exported", tmp_path / "again.h5").zoo
    assert_same(zoo, again)
    assert not list(tmp_path.glob("*.partial*")) and not list(tmp_path.glob("*.writing"))


@pytest.mark.parametrize("generic", ["state_dicts", "safetensors"])
def test_generic_formats_hold_any_zoo(imported: tuple[str, Zoo], generic: str, tmp_path: Path) -> None:
    _, zoo = imported
    assert export_zoo(zoo, FORMATS[generic], tmp_path / "exported") == []
    again = import_zoo(FORMATS[generic], tmp_path / "exported", tmp_path / "again.h5").zoo
    assert_same(zoo, again)


@pytest.mark.parametrize("target", [name for name in FORMATS if name not in ("state_dicts", "safetensors")])
def test_other_formats_refuse(imported: tuple[str, Zoo], target: str, tmp_path: Path) -> None:
    name, zoo = imported
    if name == target or name not in ("dws", "wildpark"):
        return
    with pytest.raises(ZooError) as caught:
        export_zoo(zoo, FORMATS[target], tmp_path / "exported")
    assert len(str(caught.value)) > 40
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_exports_never_overwrite(imported: tuple[str, Zoo], tmp_path: Path) -> None:
    name, zoo = imported
    (tmp_path / "there").mkdir()
    with pytest.raises(ZooError, match="exists"):
        export_zoo(zoo, FORMATS[name], tmp_path / "there")
    with pytest.raises(ZooError, match="exists"):
        import_zoo(FORMATS[name], tmp_path, zoo.path)
