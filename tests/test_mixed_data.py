"""Data of several architectures: zoos as one list of rows, mixed batches, statistics by kind."""

import pickle

import numpy as np
import pytest
import tiny_zoo
import torch

from wsl.augment import AddNoise, Permute
from wsl.data import DataError, MixedBatch, WeightBatch, ZooCollection, ZooDataModule, mixed_statistics
from wsl.encoders import WEIGHT_KINDS
from wsl.spec import WeightSpec
from wsl.zoo import Architecture, Split, Zoo, ZooError, ZooWriter

SHAPES = ((6, 5), (4, 7))


def build_mixed(path, zoos):
    """One file with the networks of several zoos, and their splits."""
    with ZooWriter(path, provenance={}) as writer:
        starts = np.cumsum([0, *map(len, zoos)])
        for number, zoo in enumerate(zoos):
            writer.add(Architecture(f"siren{number}", zoo.spec, zoo.forward))
            writer.append(
                f"siren{number}", zoo.weights(), {name: zoo.metadata[name] for name in ("label", "image")}
            )
        splits = {}
        for name in ("train", "val", "test"):
            rows = [start + zoo.split(name) for start, zoo in zip(starts, zoos, strict=False)]
            splits[name] = Split(np.concatenate(rows), {}, 0)
        return writer.finish(splits)


@pytest.fixture(scope="module")
def zoos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoos")
    return [
        tiny_zoo.build(folder / f"{i}.h5", images=(30, 15)[i], hidden=hidden)
        for i, hidden in enumerate(SHAPES)
    ]


@pytest.fixture(scope="module")
def together(zoos, tmp_path_factory):
    return build_mixed(tmp_path_factory.mktemp("mixed") / "mixed.h5", zoos)


@pytest.fixture(params=["two files", "one file"])
def path(request, zoos, together):
    return [str(zoo.path) for zoo in zoos] if request.param == "two files" else str(together.path)


def batches(loader):
    return [
        (batch.rows.tolist(), [spec for spec, _ in batch.weights], [weights for _, weights in batch.weights])
        for batch in loader
    ]


def same(a, b):
    return len(a) == len(b) and all(
        x[:2] == y[:2]
        and all(torch.equal(v[name], w[name]) for v, w in zip(x[2], y[2], strict=True) for name in v)
        for x, y in zip(a, b, strict=True)
    )


def test_batches_are_what_the_zoos_hold(path, zoos):
    data = ZooDataModule(path, batch_size=16)
    assert data.mixed and data.classes == tiny_zoo.CLASSES
    labels = np.concatenate([zoo.metadata["label"] for zoo in zoos])
    seen, whole = [], 0
    for batch in data.train_dataloader():
        assert isinstance(batch, MixedBatch)
        assert torch.equal(batch.labels, torch.from_numpy(labels[batch.rows.numpy()]))
        rows = batch.rows.tolist()
        for spec, weights in batch.weights:
            number = [zoo.spec for zoo in zoos].index(spec)
            count = len(weights["layers.0.bias"])
            own, rows = rows[:count], rows[count:]
            stored = zoos[number].weights(np.array(own) - number * len(zoos[0]))
            assert all(torch.equal(weights[name], stored[name]) for name in stored)
        assert not rows
        whole += len(batch.weights) == 1
        seen += batch.rows.tolist()
    split = [*zoos[0].split("train"), *(len(zoos[0]) + zoos[1].split("train"))]
    assert sorted(seen) == split and whole >= 2


def test_a_list_of_zoos_and_one_file_of_their_networks_are_the_same_data(zoos, together):
    listed = ZooDataModule([str(zoo.path) for zoo in zoos], batch_size=16)
    one = ZooDataModule(str(together.path), batch_size=16)
    for name in ("train", "val", "test"):
        loaders = [getattr(data, f"{name}_dataloader")() for data in (listed, one)]
        assert same(*map(batches, loaders))
    assert listed.statistics == one.statistics


def test_evaluation_reads_each_row_once_architecture_by_architecture(path):
    data = ZooDataModule(path, eval_batch_size=5)
    rows = [row for batch in data.val_dataloader() for row in batch.rows.tolist()]
    assert rows == data.rows("val").tolist()


def test_zoos_of_one_architecture_are_one_group(zoos, tmp_path):
    """And a list of one zoo is mixed data too, as a model for any architecture needs it."""
    other = tiny_zoo.build(tmp_path / "other.h5", images=30, seed=1, hidden=SHAPES[0])
    data = ZooDataModule([str(zoos[0].path), str(other.path)], batch_size=16)
    assert data.zoos.specs == (zoos[0].spec,)
    assert all(len(batch.weights) == 1 for batch in data.train_dataloader())
    (batch,) = data.zoos.read(np.array([len(zoos[0]) + 3, 2, len(zoos[0])]))
    stored = torch.cat([zoos[0].weights([2])["layers.1.weight"], other.weights([3, 0])["layers.1.weight"]])
    assert batch.positions.tolist() == [1, 0, 2] and torch.equal(batch.weights["layers.1.weight"], stored)
    assert ZooDataModule([str(zoos[0].path)]).mixed
    alone = ZooDataModule(str(zoos[0].path))
    assert not alone.mixed and isinstance(next(iter(alone.train_dataloader())), WeightBatch)
    assert alone.fingerprint == zoos[0].fingerprint != data.fingerprint


@pytest.mark.parametrize("taken", [1, 3])
def test_a_loader_continues_behind_the_batches_it_gave(path, taken):
    data = ZooDataModule(path, batch_size=16, augmentations=[Permute(), AddNoise(0.1)])
    loader = data.train_dataloader()
    loader.sampler.set_epoch(2)
    whole = batches(loader)
    iterator = iter(loader)
    for _ in range(taken):
        next(iterator)
    resumed = data.train_dataloader()
    resumed.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
    assert same(batches(resumed), whole[taken:])
    loader.sampler.set_epoch(3)
    assert not same(batches(loader), whole)


@pytest.mark.slow  # starts a process
def test_spawned_workers_give_the_same_batches(zoos):
    paths = [str(zoo.path) for zoo in zoos]
    plain, spawned = (
        ZooDataModule(paths, batch_size=16, augmentations=[AddNoise(0.1)], num_workers=n) for n in (0, 1)
    )
    given = list(spawned.train_dataloader())
    assert same(batches(plain.train_dataloader()), batches(given))
    assert all(any(spec is known for known in spawned.zoos.specs) for b in given for spec, _ in b.weights)


def test_statistics_are_by_kind_over_all_architectures(zoos):
    statistics = ZooDataModule([str(zoo.path) for zoo in zoos]).statistics
    assert set(statistics.mean) == set(statistics.std) == set(WEIGHT_KINDS)
    parts = [zoo.weights(zoo.split("train"), dtype=torch.float64) for zoo in zoos]

    def over(*names):
        return torch.cat([part[name].flatten() for part in parts for name in names])

    expected = {
        "weight of hidden from input": over("layers.0.weight"),
        "weight of hidden from hidden": over("layers.1.weight"),
        "weight of output from hidden": over("layers.2.weight"),
        "bias of hidden": over("layers.0.bias", "layers.1.bias"),
        # what these zoos do not have: all of the role, or else all weights
        "weight of fixed from hidden": over("layers.0.weight", "layers.1.weight", "layers.2.weight"),
        "running_mean of hidden": over(*tiny_zoo.SPEC.tensors),
    }
    for kind, values in expected.items():
        assert statistics.mean[kind] == pytest.approx(values.mean().item(), abs=1e-12), kind
        assert statistics.std[kind] == pytest.approx(values.std(correction=0).item(), rel=1e-12), kind
    collection = ZooCollection(zoos)
    rows = np.concatenate([zoos[0].split("train"), len(zoos[0]) + zoos[1].split("train")])
    assert mixed_statistics(collection.chunks(rows, 7)).std == pytest.approx(statistics.std, rel=1e-12)
    with pytest.raises(ValueError, match="no networks"):
        mixed_statistics([])


def test_noise_has_the_scale_of_a_kind(zoos):
    paths = [str(zoo.path) for zoo in zoos]
    data = ZooDataModule(paths, batch_size=1000, augmentations=[AddNoise(0.5)])
    (batch,) = data.train_dataloader()
    starts = {zoo.spec: start for zoo, start in zip(zoos, (0, len(zoos[0])), strict=True)}
    rows = batch.rows
    for spec, weights in batch.weights:
        count = len(weights["layers.1.weight"])
        own, rows = rows[:count], rows[count:]
        zoo = zoos[[z.spec for z in zoos].index(spec)]
        change = weights["layers.1.weight"] - zoo.weights(own.numpy() - starts[spec])["layers.1.weight"]
        expected = 0.5 * data.statistics.std["weight of hidden from hidden"]
        assert change.std().item() == pytest.approx(expected, rel=0.1)


def test_batches_move_to_other_devices_and_types():
    spec = tiny_zoo.SPEC
    weights = {name: torch.zeros(2, *tensor.shape) for name, tensor in spec.tensors.items()}
    batch = MixedBatch(((spec, weights),), torch.zeros(2), torch.arange(2))
    moved = batch.to("meta")
    assert moved.weights[0][0] is spec and moved.labels.device.type == moved.rows.device.type == "meta"
    assert all(tensor.device.type == "meta" for tensor in moved.weights[0][1].values())


def test_faulty_lists(zoos, tmp_path):
    with pytest.raises(DataError, match="path names no zoo"):
        ZooDataModule([])
    with pytest.raises(ZooError, match="There is no zoo at"):
        ZooDataModule([str(zoos[0].path), str(tmp_path / "none.h5")]).setup("fit")
    with pytest.raises(ZooError, match="has no split 'extra'"):
        ZooDataModule([str(zoos[0].path)]).rows("extra")


def test_many_shapes_and_one_spec_object(zoos):
    data = ZooDataModule([str(zoo.path) for zoo in zoos])
    assert data.spec is data.zoos.specs[0] and WeightSpec.parse(str(data.spec)) == tiny_zoo.spec(SHAPES[0])
    assert isinstance(data.zoos.zoos[0], Zoo) and len(data.labels) == len(data.zoos) == 90
