"""What `zoo info` and `zoo cat` show."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from small_zoos import FORWARD, SPEC, build_zoo, mixed_zoo, row_weights

from wsl.zoo import Architecture, Zoo, ZooError, ZooWriter, row_lines, zoo_info


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return mixed_zoo(tmp_path_factory.mktemp("zoo") / "mixed.h5")


def zoo_of(out: Path, rows: int, **columns: object) -> Zoo:
    with ZooWriter(out, provenance={}) as writer:
        writer.add(Architecture("net", SPEC, FORWARD))
        writer.append("net", np.concatenate([np.zeros((rows, 20)), np.ones((rows, 1))], axis=1), columns)
        return writer.finish()


def test_info_names_what_matters(tmp_path: Path) -> None:
    zoo = build_zoo(tmp_path / "z.h5")
    text = zoo_info(zoo.path)
    for part in (
        "networks     16, float32, 0.0 MB",
        "Siren              16 networks of 21 weights, wsl.models:Siren",
        "4 x 3",
        zoo.fingerprint,
        "train 8",
        "image              int    0 to 7, 8 distinct",
        "0 to 2.14286, median 1.14286, 1 missing",
        "title              text   5 distinct: , é, éé, ééé, éééé",
        "seed               3",
        "layers.0.weight   h1 x",
    ):
        assert part in text
    assert zoo.fingerprint in repr(zoo)


def test_info_of_several_architectures(mixed: Zoo) -> None:
    text = zoo_info(mixed.path)
    assert "architectures, 2" in text
    assert "small              11 networks of 21 weights, wsl.models:Siren(hidden=[5], w0=20.0)" in text
    assert "wide               5 networks of 29 weights" in text
    assert "h1 x" not in text


def test_info_counts_checkpoints(tmp_path: Path) -> None:
    even = zoo_of(tmp_path / "a.h5", 4, model=[0, 1, 0, 1], step=[0, 0, 5, 5])
    assert "2 models of 2 checkpoints" in zoo_info(even.path)
    assert "net                4 networks of 21 weights" in zoo_info(even.path)
    odd = zoo_of(tmp_path / "b.h5", 3, model=["x", "x", "y"], step=[0, 1, 0])
    assert "2 models of 1 to 2 checkpoints" in zoo_info(odd.path)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.0] * 5 + [1.0, 0.5], "[█         ▂        ▂] 0 to 1, median 0"),
        ([2.5, 2.5], "[constant] 2.5 to 2.5"),
        ([np.nan, np.nan], "no finite value, 2 missing"),
        ([np.inf, -np.inf, np.nan, 1.0], "[constant] 1 to 1, median 1, 1 missing, 2 infinite"),
        ([-1.7e308, 1.7e308], "[wide]"),
    ],
)
def test_histograms(tmp_path: Path, values: list[float], shown: str) -> None:
    assert shown in zoo_info(zoo_of(tmp_path / "z.h5", len(values), loss=values).path)


def test_info_fits_a_screen(tmp_path: Path) -> None:
    with ZooWriter(
        tmp_path / "z.h5", provenance={"note": "x" * 500} | {f"n{i}": i for i in range(50)}
    ) as writer:
        for number in range(40):
            writer.add(Architecture(f"net {number}", SPEC, FORWARD))
            writer.append(f"net {number}", row_weights(range(1)), {"title": ["y" * 300]})
        lines = zoo_info(writer.finish().path).splitlines()
    assert len(lines) < 60
    assert max(map(len, lines)) <= 110
    assert "  … 17 more" in lines
    assert "  … 28 more" in lines


def test_info_of_a_foreign_file_cannot_steer_the_terminal(tmp_path: Path) -> None:
    zoo = build_zoo(tmp_path / "z.h5", provenance={"note": "\x1b[2J\rgone"})
    assert not set("\x1b\r") & set(zoo_info(zoo.path))


def test_rows_as_json(mixed: Zoo) -> None:
    lines = [json.loads(line) for line in row_lines(mixed)]
    assert len(lines) == len(mixed)
    assert lines[2] == {
        "row": 2,
        "architecture": "wide",
        "image": 1,
        "label": 2,
        "psnr": mixed.metadata["psnr"][2],
        "title": "éé",
    }
    assert lines[1]["psnr"] is None
    assert "éé" in list(row_lines(mixed))[2]
    assert [json.loads(line) for line in row_lines(mixed, [5, -1], columns=["row", "hash"])] == [
        {"row": row, "hash": mixed.hashes[row].tobytes().hex()} for row in (5, 15)
    ]


def test_rows_as_csv(tmp_path: Path) -> None:
    zoo = zoo_of(tmp_path / "z.h5", 3, title=["plain", 'a "b", c', "two\nlines"], loss=[0.1, np.nan, np.inf])
    text = "\n".join(row_lines(zoo, form="csv"))
    assert list(csv.reader(io.StringIO(text))) == [
        ["row", "loss", "title"],
        ["0", "0.1", "plain"],
        ["1", "nan", 'a "b", c'],
        ["2", "inf", "two\nlines"],
    ]


def test_rows_that_cannot_be_printed(mixed: Zoo) -> None:
    with pytest.raises(ZooError, match="no metadata column 'loss': .* has architecture, hash, image, label"):
        row_lines(mixed, columns=["loss"])
    with pytest.raises(ZooError, match="jsonl or csv, not as 'xml'"):
        row_lines(mixed, form="xml")
    with pytest.raises(ZooError, match="Row 99 does not exist"):
        row_lines(mixed, [99])
