"""Metadata as the data frames of other packages."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_zoos import build_zoo, mixed_zoo

from wsl.zoo import Metadata, Zoo, ZooError

WAYS = {"pandas": Metadata.to_pandas, "polars": Metadata.to_polars, "pyarrow": Metadata.to_arrow}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return build_zoo(tmp_path_factory.mktemp("zoo") / "z.h5")


def lists(table: Any) -> dict[str, list[Any]]:
    columns = {name: table[name] for name in getattr(table, "column_names", None) or table.columns}
    return {
        name: column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
        for name, column in columns.items()
    }


@pytest.mark.parametrize("package", WAYS)
def test_tables_hold_the_columns(zoo: Zoo, package: str) -> None:
    pytest.importorskip(package)
    found = lists(WAYS[package](zoo.metadata))
    assert list(found) == ["image", "label", "psnr", "title"]
    assert found["image"] == zoo.metadata["image"].tolist()
    assert found["title"] == zoo.metadata["title"].tolist()
    np.testing.assert_array_equal(found["psnr"], zoo.metadata["psnr"])
    assert {type(value) for name in ("image", "label") for value in found[name]} == {int}
    assert {type(value) for value in found["title"]} == {str}


@pytest.mark.parametrize("package", WAYS)
def test_tables_of_one_architecture(tmp_path: Path, package: str) -> None:
    pytest.importorskip(package)
    wide = mixed_zoo(tmp_path / "mixed.h5").architectures["wide"]
    table = WAYS[package](wide.metadata)
    assert len(table) == len(wide)
    assert lists(table)["image"] == [row // 2 for row in wide.rows.tolist()]


@pytest.mark.parametrize("package", WAYS)
def test_a_package_that_is_missing_is_named(zoo: Zoo, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ZooError, match=rf"needs {package}, .* pip install 'weightspace\[tables\]'. Without it"
    ):
        WAYS[package](zoo.metadata)
