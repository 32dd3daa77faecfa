"""A zoo of many architectures: each is read when it is first used, and not before."""

from pathlib import Path

import numpy as np
import pytest
import torch
from small_zoos import SPEC, mixed_zoo

from wsl.spec import WeightSpec
from wsl.zoo import Architecture, ForwardDefinition, Zoo, ZooWriter, iter_rows, merge_zoos, subset_zoo

COUNT = 30


def of_width(width: int) -> Architecture:
    spec = WeightSpec.parse(str(SPEC).replace("h1: 5", f"h1: {width}"))
    return Architecture(f"width {width}", spec, ForwardDefinition("wsl.models:Siren", {"hidden": [width]}))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Architectures of 1, 2, … neurons; each row is filled with its own number."""
    out = tmp_path_factory.mktemp("zoo") / "many.h5"
    with ZooWriter(out, provenance={}) as writer:
        for width in range(1, COUNT + 1):
            writer.add(of_width(width))
        for row in range(2 * COUNT):
            name, size = f"width {row % COUNT + 1}", 4 * (row % COUNT + 1) + 1
            writer.append(name, np.full((1, size), row, np.float32), {"model": [row]})
        writer.finish()
    return out


def test_specifications_are_parsed_when_they_are_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, parse, parsed = of_width(7).spec, WeightSpec.parse, []
    monkeypatch.setattr(WeightSpec, "parse", lambda text: parsed.append(text) or parse(text))
    zoo = Zoo.open(path)
    view = zoo.architectures["width 7"]
    assert (len(zoo.architectures), len(view), view.width) == (COUNT, 2, 29)
    assert zoo.where("architecture == 'width 7'").tolist() == [6, 6 + COUNT]
    assert view.matrix([1]).tolist() == [[6 + COUNT] * 29]
    assert parsed == []
    assert view.spec == expected
    assert view.weights()["layers.0.weight"].shape == (2, 7, 2)
    assert parsed == [str(expected)]


def test_what_was_stored_is_what_was_given(path: Path) -> None:
    stored = Zoo.open(path).tables.architectures
    assert stored == tuple(of_width(width) for width in range(1, COUNT + 1))
    assert hash(stored[3]) == hash(of_width(4))
    assert stored[3] != of_width(5)
    assert stored[3] != "width 4"
    assert stored[3].parameters == of_width(4).parameters


def test_rows_of_all_architectures_at_once(path: Path) -> None:
    zoo, rows = Zoo.open(path), np.random.default_rng(0).permutation(2 * COUNT)[:50]
    found = zoo.locate(rows)
    assert [part.architecture.name for part in found] == [
        f"width {number + 1}" for number in sorted({*(rows % COUNT).tolist()})
    ]
    assert sorted(np.concatenate([part.positions for part in found]).tolist()) == list(range(50))
    for part in found:
        weights, again = part.weights(), part.architecture.weights(part.rows)
        for name, tensor in weights.items():
            assert torch.equal(tensor, again[name])
            assert (tensor.flatten(1).T.numpy() == rows[part.positions]).all()
    assert zoo.locate([]) == []
    assert sorted(row for block in iter_rows(zoo) for row in block.rows.tolist()) == list(range(2 * COUNT))


def test_copies_of_stored_architectures(path: Path, tmp_path: Path) -> None:
    zoo, other = Zoo.open(path), mixed_zoo(tmp_path / "mixed.h5")
    merged = merge_zoos([zoo, other], tmp_path / "merged.h5", common_columns=True)
    assert len(merged.architectures) == COUNT + 2
    part = subset_zoo(merged, tmp_path / "part.h5", [0, COUNT, 2 * COUNT])
    assert list(part.architectures) == ["width 1", "small"]
    assert part.architectures["small"].spec == SPEC
