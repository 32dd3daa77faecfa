"""Reading a zoo: rows, types, tables, pickling, loader workers."""

import pickle
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_zoos import FORWARD, PROVENANCE, SPEC, build_zoo, flat, row_metadata, row_weights, start_build

from wsl.spec import WeightSpec
from wsl.zoo import Architecture, ForwardDefinition, Shard, ShardedBuild, Zoo, ZooError, verify_zoo

ROWS = 16


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return build_zoo(tmp_path_factory.mktemp("zoo") / "small.h5", ROWS)


@pytest.fixture(scope="module")
def expected() -> torch.Tensor:
    return flat(row_weights(range(ROWS)))


def test_everything_comes_back(zoo: Zoo) -> None:
    reopened = Zoo.open(zoo.path)
    assert len(reopened) == ROWS
    assert reopened.spec == SPEC
    assert reopened.forward == FORWARD
    assert reopened.provenance == PROVENANCE
    assert reopened.dtype == "float32"
    weights = reopened.weights()
    assert list(weights) == list(SPEC.tensors)
    for name, tensor in row_weights(range(ROWS)).items():
        assert weights[name].dtype == torch.float32
        assert torch.equal(weights[name], tensor)
    assert list(reopened.metadata) == ["image", "label", "psnr", "title"]
    for name, values in row_metadata(range(ROWS)).items():
        np.testing.assert_array_equal(reopened.metadata[name], np.asarray(values))
    assert [reopened.metadata[name].dtype.kind for name in reopened.metadata] == ["i", "i", "f", "U"]
    assert verify_zoo(zoo.path).ok


def test_hashes_are_blake2b_of_the_stored_bytes(zoo: Zoo) -> None:
    for row, stored in zip(zoo.matrix(), zoo.hashes, strict=True):
        assert blake2b(row.tobytes(), digest_size=16).digest() == stored.tobytes()


@given(rows=st.lists(st.integers(-ROWS, ROWS - 1), max_size=40))
def test_any_rows_in_any_order(zoo: Zoo, expected: torch.Tensor, rows: list[int]) -> None:
    assert torch.equal(flat(zoo.weights(rows)), expected[torch.tensor(rows, dtype=torch.long)])
    np.testing.assert_array_equal(
        zoo.matrix(np.array(rows, dtype=np.int32)), zoo.matrix()[np.array(rows, dtype=int)]
    )


@given(st.slices(ROWS))
def test_slices(zoo: Zoo, rows: slice) -> None:
    np.testing.assert_array_equal(zoo.matrix(rows), zoo.matrix()[rows])


def test_masks_ranges_and_tensors(zoo: Zoo, expected: torch.Tensor) -> None:
    mask = np.arange(ROWS) % 3 == 0
    assert torch.equal(flat(zoo.weights(mask)), expected[::3])
    assert torch.equal(flat(zoo.weights(range(2, 5))), expected[2:5])
    assert torch.equal(flat(zoo.weights(torch.tensor([7, 2]))), expected[[7, 2]])
    assert zoo.weights([])["layers.0.weight"].shape == (0, 5, 2)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROWS], "Row 16 does not exist: the zoo has 16 rows"),
        ([0, -ROWS - 1], "Row -17 does not exist"),
        ([0.0], r"pass \[row\]"),
        (3, r"pass \[row\]"),
        ([[1, 2]], r"shape \(1, 2\)"),
        (np.array([True]), "mask has 1 entries"),
    ],
)
def test_wrong_rows(zoo: Zoo, rows: object, message: str) -> None:
    with pytest.raises(ZooError, match=message):
        zoo.weights(rows)  # type: ignore[arg-type]


def test_types_and_copies(zoo: Zoo, expected: torch.Tensor) -> None:
    assert torch.equal(flat(zoo.weights(dtype=torch.float64)), expected.double())
    assert zoo.weights([1], dtype=torch.bfloat16)["layers.0.bias"].dtype == torch.bfloat16
    weights = zoo.weights([5, 3])
    assert len({tensor.untyped_storage().data_ptr() for tensor in weights.values()}) == 1, "views of one copy"
    for tensor in weights.values():
        tensor.fill_(7)
    zoo.matrix()[:] = 7
    assert torch.equal(flat(zoo.weights()), expected), "a reader must not reach the file"


def test_float16_is_half_the_size_and_rounds_once(tmp_path: Path, expected: torch.Tensor) -> None:
    zoo = build_zoo(tmp_path / "half.h5", ROWS, dtype="float16")
    assert zoo.dtype == "float16"
    assert torch.equal(flat(zoo.weights()), expected.half().float())
    assert torch.equal(flat(zoo.weights([9, 4])), expected[[9, 4]].half().float())
    assert zoo.matrix([1]).dtype == np.float32
    assert verify_zoo(zoo.path).ok


def test_weights_too_large_for_float16(tmp_path: Path) -> None:
    with start_build(tmp_path / "half.h5", dtype="float16") as build:
        weights = row_weights(build.rows_of(0))
        weights["layers.0.bias"][2, 0] = 1e5
        with pytest.raises(ZooError, match="layers.0.bias of row 2 .* float16"):
            build.write(0, weights, row_metadata(build.rows_of(0)))


def test_scalars_and_kernels(tmp_path: Path) -> None:
    spec = WeightSpec.parse(
        """
axes   c1: 3 hidden relu   x: 2 input   y: 1 output
temperature
conv.weight   c1 x _ _   _=3x3
out.weight    y (c1 4)
"""
    )
    weights = {name: torch.randn(4, *tensor.shape) for name, tensor in spec.tensors.items()}
    architecture = Architecture("network", spec, ForwardDefinition("elsewhere:Network"))
    with ShardedBuild(
        tmp_path / "z.h5", architectures=[architecture], shards=[Shard(4)], provenance={}
    ) as build:
        build.write(0, weights, {})
        zoo = build.pack({})
    assert zoo.spec == spec
    assert not zoo.metadata and not zoo.splits
    for name, tensor in zoo.weights([2, 0]).items():
        assert torch.equal(tensor, weights[name][[2, 0]])


def test_fingerprint_is_the_identity_of_the_content(tmp_path: Path, zoo: Zoo) -> None:
    same = build_zoo(tmp_path / "same.h5", ROWS, provenance=PROVENANCE | {"package": "1"})
    assert same.fingerprint == zoo.fingerprint, "provenance is not content"
    others = [
        build_zoo(tmp_path / "rows.h5", ROWS - 2),
        build_zoo(tmp_path / "dtype.h5", ROWS, dtype="float16"),
        build_zoo(
            tmp_path / "forward.h5", ROWS, forward=ForwardDefinition("wsl.models:Siren", {"hidden": [5]})
        ),
    ]
    assert len({zoo.fingerprint, *(other.fingerprint for other in others)}) == 4


def test_splits_come_back_with_recipe_and_seed(zoo: Zoo) -> None:
    assert sorted(zoo.splits) == ["test", "train", "val"]
    assert zoo.splits["train"].seed == 1
    assert zoo.splits["train"].recipe["method"] == "split_by_model"
    assert zoo.splits["train"].recipe["fractions"] == {"train": 0.5, "val": 0.25, "test": 0.25}
    everything = np.concatenate([zoo.split(name) for name in zoo.splits])
    assert sorted(everything) == list(range(ROWS))
    with pytest.raises(ZooError, match=r"no split 'trian'; it has test, train, val"):
        zoo.split("trian")


def test_pickle_holds_no_content_and_reopens(zoo: Zoo, expected: torch.Tensor) -> None:
    zoo.matrix([0])
    text = pickle.dumps(zoo)
    assert len(text) < 1000
    copy = pickle.loads(text)
    assert torch.equal(flat(copy.weights([3])), expected[[3]])
    assert copy.fingerprint == zoo.fingerprint


def test_a_pickled_zoo_refuses_another_file_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "z.h5"
    text = pickle.dumps(build_zoo(path))
    path.unlink()
    build_zoo(path, dtype="float16")
    with pytest.raises(ZooError, match="was replaced by another zoo"):
        len(pickle.loads(text))


@pytest.mark.parametrize("content", [None, b"cut"])
def test_a_file_that_goes_away_after_opening_is_explained(tmp_path: Path, content: bytes | None) -> None:
    zoo = build_zoo(tmp_path / "z.h5")
    zoo.path.unlink()
    if content is not None:
        zoo.path.write_bytes(content)
    with pytest.raises(ZooError, match="was moved, replaced or cut while in use"):
        zoo.weights([0])


def test_bfloat16_is_widened_and_gradients_are_left_behind(tmp_path: Path) -> None:
    weights = {name: tensor.bfloat16().requires_grad_() for name, tensor in row_weights(range(4)).items()}
    with start_build(tmp_path / "z.h5", 4, 4) as build:
        build.write(0, weights, {"loss": torch.full((4,), 0.5, dtype=torch.bfloat16, requires_grad=True)})
        zoo = build.pack({})
    assert torch.equal(flat(zoo.weights()), flat(weights).float())
    assert zoo.metadata["loss"].tolist() == [0.5] * 4


def test_forward_definition_rebuilds_the_network(zoo: Zoo) -> None:
    before = torch.get_rng_state()
    module = zoo.forward.build()
    assert torch.equal(torch.get_rng_state(), before)
    assert {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()} == {
        name: tensor.shape for name, tensor in SPEC.tensors.items()
    }
    module.load_state_dict({name: tensor[0] for name, tensor in zoo.weights([4]).items()})


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("os:system", "pass the module explicitly"),
        ("torch.nn:Linear", "pass the module explicitly"),
        ("wsl.models.os:system", "pass the module explicitly"),
        ("wsl.models:torch", "no such module"),
        ("wsl.models:nn", "no such module"),
        ("wsl.models:coordinate_grid", "no such module"),
        ("wsl.models:Missing", "no such module"),
    ],
)
def test_a_file_cannot_name_code_to_run(factory: str, message: str) -> None:
    with pytest.raises(ZooError, match=message):
        ForwardDefinition(factory).build()


def test_forward_definition_with_wrong_arguments() -> None:
    with pytest.raises(ZooError, match="does not accept this zoo's arguments"):
        ForwardDefinition("wsl.models:Siren", {"depth": 4}).build()


@pytest.mark.parametrize(
    "change",
    [
        {"factory": "no colon"},
        {"factory": "a:b.c"},
        {"arguments": {"w0": float("nan")}},
        {"arguments": {"w0": object()}},
        {"arguments": [1]},
        {"grid": (0, 2)},
        {"grid": ()},
        {"grid": (2.5, 2)},
        {"output_scale": float("inf")},
        {"output_offset": "half"},
        {"channels": 0},
        {"channels": True},
    ],
)
def test_forward_definitions_that_cannot_be_stored(change: dict[str, object]) -> None:
    with pytest.raises(ZooError):
        ForwardDefinition(**({"factory": "wsl.models:Siren"} | change))  # type: ignore[arg-type]
