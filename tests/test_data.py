import pickle

import numpy as np
import pytest
import tiny_zoo
import torch

from wsl.augment import AddNoise, Augmentation, Networks, Permute
from wsl.data import (
    BatchSampler,
    DataError,
    WeightBatch,
    ZooDataModule,
    weight_statistics,
    zoo_statistics,
)
from wsl.encoders import GraphMetanetwork
from wsl.models import Siren
from wsl.zoo import Architecture, Shard, ShardedBuild, Split, Zoo, ZooError


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tiny_zoo.build(tmp_path_factory.mktemp("zoo") / "tiny.h5").path


def batches(loader):
    return [(batch.rows.tolist(), batch.weights["layers.1.weight"].clone()) for batch in loader]


def same(a, b):
    return len(a) == len(b) and all(
        rows == others and torch.equal(x, y) for (rows, x), (others, y) in zip(a, b, strict=True)
    )


def test_batches_are_what_the_zoo_holds(path):
    data, zoo = ZooDataModule(str(path), batch_size=16), Zoo.open(path)
    data.setup("fit")
    seen = []
    for batch in data.train_dataloader():
        assert isinstance(batch, WeightBatch)
        stored = zoo.weights(batch.rows.numpy())
        assert all(torch.equal(batch.weights[name], stored[name]) for name in stored)
        assert torch.equal(batch.labels, torch.from_numpy(zoo.metadata["label"][batch.rows.numpy()]))
        seen += batch.rows.tolist()
    assert sorted(seen) == zoo.split("train").tolist()
    assert data.classes == tiny_zoo.CLASSES and data.spec == zoo.spec
    assert data.fingerprint == zoo.fingerprint


def test_evaluation_reads_each_row_once_and_in_order(path):
    data = ZooDataModule(str(path), batch_size=7, eval_batch_size=5)
    zoo = Zoo.open(path)
    for split, loader in (("val", data.val_dataloader), ("test", data.test_dataloader)):
        rows = [batch.rows.tolist() for batch in loader()]
        assert [row for part in rows for row in part] == zoo.split(split).tolist()
        assert all(len(part) == 5 for part in rows[:-1])


def test_images_do_not_leak_between_splits(path):
    zoo = Zoo.open(path)
    images = [set(zoo.metadata["image"][zoo.split(name)]) for name in ("train", "val", "test")]
    assert not images[0] & images[1] and not images[0] & images[2] and not images[1] & images[2]


def test_one_read_of_the_zoo_a_batch(path, monkeypatch):
    reads = []
    original = Zoo.weights
    monkeypatch.setattr(Zoo, "weights", lambda self, rows: reads.append(len(rows)) or original(self, rows))
    data = ZooDataModule(str(path), batch_size=16)
    assert len(list(data.train_dataloader())) == len(reads) == 5


def test_epochs_differ_and_repeat(path):
    data = ZooDataModule(str(path), batch_size=16, augmentations=[Permute(), AddNoise(0.1)], seed=3)
    loader = data.train_dataloader()
    epochs = []
    for epoch in (0, 1):
        loader.sampler.set_epoch(epoch)
        epochs.append(batches(loader))
    assert not same(epochs[0], epochs[1])
    orders = [[row for rows, _ in epoch for row in rows] for epoch in epochs]
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])
    again = data.train_dataloader()
    again.sampler.set_epoch(1)
    assert same(batches(again), epochs[1])
    other = ZooDataModule(str(path), batch_size=16, augmentations=[Permute(), AddNoise(0.1)], seed=4)
    assert not same(batches(other.train_dataloader()), epochs[0])


@pytest.mark.parametrize("taken", [0, 1, 3, 5])
def test_a_loader_continues_behind_the_batches_it_gave(path, taken):
    data = ZooDataModule(str(path), batch_size=16, augmentations=[AddNoise(0.1)])
    loader = data.train_dataloader()
    loader.sampler.set_epoch(2)
    whole = batches(loader)
    iterator = iter(loader)
    for _ in range(taken):
        next(iterator)
    state = pickle.loads(pickle.dumps(loader.state_dict() if taken else {"epoch": 2, "batches": 0}))
    resumed = data.train_dataloader()
    resumed.load_state_dict(state)
    assert same(batches(resumed), whole[taken % 5 :])
    resumed.sampler.set_epoch(3)
    loader.sampler.set_epoch(3)
    assert same(batches(resumed), batches(loader)), "the epoch after it is a whole one"


def test_spawned_workers_give_the_same_batches(path):
    plain = ZooDataModule(str(path), batch_size=16, augmentations=[Permute(), AddNoise(0.1)])
    spawned = ZooDataModule(str(path), batch_size=16, augmentations=[Permute(), AddNoise(0.1)], num_workers=2)
    loaders = [data.train_dataloader() for data in (plain, spawned)]
    for epoch in (0, 4):
        for loader in loaders:
            loader.sampler.set_epoch(epoch)
        assert same(batches(loaders[0]), batches(loaders[1]))


def test_augmentations_touch_training_batches_only(path):
    class Zero(Augmentation):
        preserves_function = False

        def __call__(self, networks, generator):
            return networks.having({name: torch.zeros_like(w) for name, w in networks.weights.items()})

    data = ZooDataModule(str(path), augmentations=[Zero()])
    assert all(not batch.weights["layers.0.bias"].any() for batch in data.train_dataloader())
    assert all(batch.weights["layers.0.bias"].all() for batch in data.val_dataloader())
    assert all(batch.weights["layers.0.bias"].all() for batch in data.test_dataloader())


@pytest.mark.parametrize("replicas", [2, 3])
def test_processes_share_the_rows(replicas):
    rows = np.arange(100, 171)
    parts = [
        BatchSampler(rows, 8, shuffle=True, seed=0, replicas=replicas, rank=rank) for rank in range(replicas)
    ]
    drawn = [[request.rows for request in part] for part in parts]
    assert len({len(part) for part in drawn}) == 1, "all processes take equally many steps"
    assert all(len(part) == len(sampler) for part, sampler in zip(drawn, parts, strict=True))
    assert {row for part in drawn for batch in part for row in batch} == set(rows.tolist())
    evaluated = [
        BatchSampler(rows, 8, shuffle=False, seed=0, replicas=replicas, rank=rank) for rank in range(replicas)
    ]
    counted = [row for part in evaluated for request in part for row in request.rows]
    assert sorted(counted) == rows.tolist(), "evaluation counts no row twice"


def test_augmentations_are_drawn_anew_in_every_batch_epoch_and_process():
    seeds = []
    for rank in (0, 1):
        sampler = BatchSampler(range(20), 4, shuffle=True, seed=3, replicas=2, rank=rank)
        for epoch in range(3):
            sampler.set_epoch(epoch)
            seeds += [request.seed for request in sampler]
    assert len(set(seeds)) == len(seeds) == 2 * 3 * 3


def test_statistics_are_those_of_the_train_split(path):
    zoo = Zoo.open(path)
    rows = zoo.split("train")
    statistics = ZooDataModule(str(path)).statistics
    for name, tensor in zoo.weights(rows, dtype=torch.float64).items():
        assert statistics.mean[name] == pytest.approx(tensor.mean().item(), abs=1e-12)
        assert statistics.std[name] == pytest.approx(tensor.std(correction=0).item(), rel=1e-12)
    for chunk in (1, 7):
        streamed = zoo_statistics(zoo, rows, chunk)
        assert streamed.std == pytest.approx(statistics.std, rel=1e-12)
    held_out = zoo_statistics(zoo, zoo.split("test"))
    assert held_out.mean != pytest.approx(statistics.mean, rel=1e-6)


def test_statistics_of_far_off_and_constant_values():
    values = 1e6 + torch.randn(3, 50, 4, dtype=torch.float64)
    constant = torch.full((3, 50, 2), 0.7, dtype=torch.float64)
    statistics = weight_statistics({"a": values[i], "b": constant[i]} for i in range(3))
    assert statistics.std["a"] == pytest.approx(values.std(correction=0).item(), rel=1e-9)
    assert statistics.std["b"] == 0.0 and statistics.mean["b"] == pytest.approx(0.7)


def test_weights_that_never_vary_get_no_noise_and_are_only_centred():
    spec = tiny_zoo.SPEC
    weights = {name: torch.full((8, *tensor.shape), 0.3) for name, tensor in spec.tensors.items()}
    statistics = weight_statistics([spec.split(weights)])
    generator = torch.Generator().manual_seed(0)
    noisy = AddNoise(0.1)(Networks(spec, weights, std=statistics.std), generator).weights
    assert all(torch.equal(noisy[name], weights[name]) for name in weights)
    encoder = GraphMetanetwork(spec, channels=4, layers=1)
    encoder.set_statistics(statistics.mean, statistics.std)
    assert all(block.abs().max() < 1e-6 for block in encoder.read(weights).values())


def test_statistics_refuse_nothing_and_nan():
    with pytest.raises(ValueError, match="no networks"):
        weight_statistics([])
    with pytest.raises(ValueError, match="b holds values that are not finite"):
        weight_statistics([{"b": torch.tensor([1.0, float("nan")])}])


def test_missing_zoo_says_what_to_do(tmp_path):
    with pytest.raises(ZooError, match="python -m wsl zoo build"):
        ZooDataModule(str(tmp_path / "none.h5")).setup("fit")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": "digit"}, "no metadata column 'digit'; it has image, label, score"),
        ({"label": "score"}, "does not number classes"),
        ({"batch_size": 0}, "expected at least 1"),
    ],
)
def test_wrong_arguments(path, arguments, message):
    with pytest.raises(DataError, match=message):
        _ = ZooDataModule(str(path), **arguments).classes


def test_pickles_without_its_file(path):
    data = ZooDataModule(str(path), batch_size=16)
    rows = batches(data.val_dataloader())
    assert same(batches(pickle.loads(pickle.dumps(data)).val_dataloader()), rows)


def test_conditions_choose_rows_of_every_split_or_of_some(zoo_path):
    zoo = Zoo.open(zoo_path)
    data = ZooDataModule(zoo_path, where="label != 1")
    labels = zoo.metadata["label"]
    for split in ("train", "val", "test"):
        expected = [row for row in zoo.split(split) if labels[row] != 1]
        assert data.rows(split).tolist() == expected and 0 < len(expected) < len(zoo.split(split))
    data = ZooDataModule(zoo_path, where={"train": "label == 0", "test": "label == 2"})
    assert set(labels[data.rows("train")]) == {0} and set(labels[data.rows("test")]) == {2}
    assert data.rows("val").tolist() == zoo.split("val").tolist()
    for batch in data.train_dataloader():
        assert set(batch.labels.tolist()) == {0}
    with pytest.raises(DataError, match=r"none of the 72 networks in split 'train' .* 'label == 9'"):
        ZooDataModule(zoo_path, where="label == 9").check("fit")


def test_conditions_for_splits_that_there_are_not_are_refused(zoo_path):
    with pytest.raises(
        DataError, match="where has a condition for 'trian', but the splits are test, train, val"
    ):
        ZooDataModule(zoo_path, where={"trian": "label == 0"}).check("fit")


@pytest.mark.parametrize("mixed", [False, True])
def test_diverged_training_networks_are_refused_before_a_run(tmp_path, mixed):
    path = str(tmp_path / "diverged.h5")
    network = Siren(2, (6, 5), 1, generator=torch.Generator().manual_seed(0)).state_dict()
    weights = {name: np.stack([tensor.numpy()] * 6) for name, tensor in network.items()}
    weights["layers.1.weight"][0, 0, 0] = np.inf
    architecture = Architecture("Siren", tiny_zoo.SPEC, tiny_zoo.FORWARD)
    model = np.arange(6)
    with ShardedBuild(path, architectures=[architecture], shards=[Shard(6)], provenance={}) as build:
        build.write(0, weights, {"label": model % 2, "model": model, "diverged": (model == 0).astype(int)})
        build.pack({"train": Split(np.arange(4), {}, 0), "val": Split(np.arange(4, 6), {}, 0)})
    given = [path] if mixed else path
    with pytest.raises(DataError, match=r"split 'train' .* not finite(.|\n)*diverged == 0"):
        ZooDataModule(given).check("fit")
    ZooDataModule(given, where="diverged == 0").check("fit")


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_networks_that_are_not_finite_are_named(tmp_path, mixed, split):
    path = str(tmp_path / "diverged.h5")
    network = Siren(2, (6, 5), 1, generator=torch.Generator().manual_seed(0)).state_dict()
    weights = {name: np.stack([tensor.numpy()] * 30) for name, tensor in network.items()}
    splits = {"train": np.arange(10), "val": np.arange(10, 20), "test": np.arange(20, 30)}
    bad = splits[split][[2, 5, 6]]
    weights["layers.1.bias"][bad, 3] = np.nan
    architecture = Architecture("Siren", tiny_zoo.SPEC, tiny_zoo.FORWARD)
    label = {"label": np.arange(30) % 2, "model": np.arange(30), "diverged": np.zeros(30, int)}
    label["diverged"][[*bad, *(bad + 1)]] = 1  # some diverged, and are finite all the same
    with ShardedBuild(path, architectures=[architecture], shards=[Shard(30)], provenance={}) as build:
        build.write(0, weights, label)
        build.pack({name: Split(rows, {}, 0) for name, rows in splits.items()})
    data = ZooDataModule([path] if mixed else path)
    stage = {"train": "fit", "val": "validate", "test": "test"}[split]
    said = (
        rf"split '{split}' of .* not finite: 3 of 10, in rows {bad[0]}, {bad[1]}, {bad[2]}\.(.|\n)*data.where"
    )
    with pytest.raises(DataError, match=said):
        data.check(stage)
    if split != "train":
        with pytest.raises(DataError, match=said):
            getattr(data, f"{split}_dataloader")()
    others = {"train": "test", "val": "train", "test": "val"}[split]
    assert len(list(getattr(data, f"{others}_dataloader")())) == 1, "other splits are read"


def test_statistics_are_of_the_chosen_rows(zoo_path):
    data = ZooDataModule(zoo_path, where="label == 2")
    chosen = Zoo.open(zoo_path).weights(data.rows("train"))["layers.1.weight"]
    assert float(data.statistics.std["layers.1.weight"]) == pytest.approx(
        float(chosen.std(correction=0)), rel=1e-4
    )


def test_labels_are_computed_from_columns(zoo_path):
    data = ZooDataModule(zoo_path, label="1 - score / 2")
    data.setup("fit")
    assert np.allclose(data.labels, 1 - Zoo.open(zoo_path).metadata["score"] / 2)
    values = data.labels[data.rows("train")]
    expected = (values.mean(), values.std(), values.min(), values.max())
    assert data.targets == pytest.approx(expected, rel=1e-6)
