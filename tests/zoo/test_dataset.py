"""A zoo inside PyTorch's own loaders, and its networks as graphs of PyTorch Geometric."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from small_zoos import build_zoo, flat, mixed_zoo, row_weights
from torch.utils.data import DataLoader, default_collate

from wsl.graph import ComputationalGraph
from wsl.zoo import Zoo, ZooDataset, ZooError
from wsl.zoo._map import RowFile


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return build_zoo(tmp_path_factory.mktemp("zoo") / "z.h5", 16)


def test_batches_of_a_loader(zoo: Zoo) -> None:
    dataset = ZooDataset(zoo, zoo.split("train"), ["label", "title"])
    batches = list(DataLoader(pickle.loads(pickle.dumps(dataset)), batch_size=3))
    assert len(dataset) == 8
    rows = torch.cat([batch["row"] for batch in batches])
    assert rows.tolist() == zoo.split("train").tolist()
    found = torch.cat([flat(batch["weights"]) for batch in batches])
    assert torch.equal(found, flat(row_weights(range(16)))[rows])
    assert torch.cat([batch["metadata"]["label"] for batch in batches]).tolist() == [row % 3 for row in rows]
    assert [title for batch in batches for title in batch["metadata"]["title"]] == [
        "é" * (row % 5) for row in rows.tolist()
    ]


def test_items(zoo: Zoo) -> None:
    dataset = ZooDataset(zoo)
    item = dataset[-1]
    assert item["row"] == 15
    assert set(item["metadata"]) == {"image", "label", "psnr", "title"}
    assert item["weights"]["layers.0.weight"].shape == (5, 2)
    batch = default_collate([dataset[4], item])
    assert torch.equal(flat(batch["weights"]), flat(zoo.weights([4, 15])))
    assert [item["row"] for item in dataset] == list(range(16))
    with pytest.raises(IndexError, match="Item 16 does not exist: the dataset has 16"):
        dataset[16]
    with pytest.raises(ZooError, match="no metadata column 'loss'"):
        ZooDataset(zoo, columns=["loss"])


def test_one_read_a_batch(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, reads = ZooDataset(zoo), []
    read = RowFile.read
    monkeypatch.setattr(RowFile, "read", lambda self, *rest: reads.append(1) or read(self, *rest))
    assert len(list(DataLoader(dataset, batch_size=8))) == 2
    assert len(reads) == 2


def test_one_architecture_of_several(tmp_path: Path) -> None:
    mixed = mixed_zoo(tmp_path / "mixed.h5")
    with pytest.raises(ZooError, match="holds 2 architectures"):
        ZooDataset(mixed)
    wide = mixed.architectures["wide"]
    item = ZooDataset(wide, [1])[0]
    np.testing.assert_array_equal(item["weights"]["layers.0.bias"], wide.weights([1])["layers.0.bias"][0])
    assert item["metadata"]["image"] == wide.metadata["image"][1]


def test_graphs_of_pytorch_geometric(zoo: Zoo) -> None:
    graphs = ComputationalGraph.from_weights(zoo.spec, zoo.weights([3, 4])).to_pyg()
    assert graphs.num_graphs == 2
    assert graphs[0].num_nodes == 2 + 5 + 1
