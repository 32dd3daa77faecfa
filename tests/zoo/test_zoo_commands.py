"""``python -m wsl zoo``: cut, join, divide and print zoos."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_zoos import FORWARD, SPEC, mixed_zoo, row_weights

from wsl.cli import main
from wsl.zoo import Architecture, Zoo, ZooWriter


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(mixed_zoo(tmp_path / "mixed.h5").path)


def test_subset(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out.h5")
    arguments = [
        "zoo",
        "subset",
        file,
        "--out",
        out,
        "--where",
        "label != 0 and title != 'a: b'",
        "--split",
        "train",
    ]
    assert main([*arguments, "--dedupe"]) == 0
    made, source = Zoo.open(out), Zoo.open(file)
    assert f"{out}: {len(made)} of 16 networks, fingerprint {made.fingerprint}" in capsys.readouterr().out
    kept = [row for row in source.split("train") if source.metadata["label"][row]]
    assert made.metadata["title"].tolist() == source.metadata["title"][kept].tolist()
    assert made.provenance["dedupe"] is True
    assert main(arguments) == 2
    assert "exists and is not overwritten" in capsys.readouterr().err


def test_merge(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other, out = str(tmp_path / "other.h5"), str(tmp_path / "out.h5")
    assert main(["zoo", "split", file, "--out", other, "--by", "image", "--seed", "9"]) == 0
    assert main(["zoo", "merge", file, other, "--out", out]) == 2
    assert "Rows of one model or image must stay together" in capsys.readouterr().err
    assert main(["zoo", "merge", file, other, "--out", out, "--distinct", "[image]", "--common_columns"]) == 0
    assert f"{out}: 32 networks" in capsys.readouterr().out


def test_split(file: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out.h5")
    fractions = "{train: 0.5, test: 0.5}"
    assert (
        main(["zoo", "split", file, "--out", out, "--by", "image", "--fractions", fractions, "--seed", "3"])
        == 0
    )
    splits = Zoo.open(out).splits
    assert {name: len(split.indices) for name, split in splits.items()} == {"test": 8, "train": 8}
    assert splits["train"].seed == 3


def test_cat(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["zoo", "cat", file, "--where", "row > 3", "--split", "val", "--columns", "[row,label]"]
    assert main(arguments) == 0
    zoo = Zoo.open(file)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["row"] for line in lines] == [row for row in zoo.split("val") if row > 3]
    assert main([*arguments, "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("row,label\n")
    for wrong, message in (("step == 3", "no metadata column 'step'"), ("row =", "cannot be read")):
        assert main(["zoo", "cat", file, "--where", wrong]) == 2
        assert message in capsys.readouterr().err


def test_cat_into_a_reader_that_stops(tmp_path: Path, repository: Path) -> None:
    with ZooWriter(tmp_path / "z.h5", provenance={}) as writer:
        writer.add(Architecture("net", SPEC, FORWARD))
        writer.append("net", row_weights(range(1)), {"title": ["x" * 200]})
        for _ in range(2000):
            writer.append("net", row_weights(range(1)), {"title": ["x" * 200]})
        path = writer.finish().path
    command = [sys.executable, "-m", "wsl", "zoo", "cat", str(path)]
    environment = os.environ | {"PYTHONPATH": str(repository)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["row"] == 0
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_verify_says_what_is_not_finite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = row_weights(range(3))
    weights["layers.1.bias"][1] = float("nan")
    with ZooWriter(tmp_path / "z.h5", provenance={}) as writer:
        writer.add(Architecture("net", SPEC, FORWARD))
        writer.append("net", weights, {"diverged": [0, 1, 0]})
        path = str(writer.finish().path)
    assert main(["zoo", "verify", path]) == 0
    assert "1 rows hold values that are not finite, as they were written: 1\n" in capsys.readouterr().out
    assert main(["zoo", "info", path]) == 0
    assert "diverged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "config", "options", "said"),
    [
        (
            "classifiers",
            "small_cnn_fashion_mnist",
            ["--architecture.activation", "[]"],
            "architecture.activation is []",
        ),
        (
            "classifiers",
            "small_cnn_fashion_mnist",
            ["--recipe.dropout", "{low: 1, high: 0}"],
            "from 1.0 to 0.0",
        ),
        (
            "classifiers",
            "small_cnn_fashion_mnist",
            ["--recipe.epochs", "1.5"],
            "epochs: expected int or list, got 1.5",
        ),
        (
            "language",
            "language_rnn",
            ["--architecture.hidden", "0"],
            "architecture.hidden is 0, expected whole",
        ),
        ("phases", "phases_digits", ["--measures.thresholds.sharp", "-1"], "thresholds.sharp is -1.0"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_populations_cannot_be_is_one_paragraph(
    tmp_path, repository, capsys, command, config, options, said
):
    path = repository / "configs" / "zoo" / f"{config}.yaml"
    given = ["--config", str(path), "--out", str(tmp_path / "z.h5"), *options]
    assert main(["zoo", f"build-{command}", *given]) == 2
    text = capsys.readouterr().err.strip()
    assert said in text and "\n" not in text and "Union" not in text and len(text) < 400
    assert list(tmp_path.iterdir()) == []
