"""Augmentations in data modules and tasks: modules of the networks, mixed labels, several architectures."""

from functools import partial

import lightning.pytorch as pl
import numpy as np
import pytest
import tiny_zoo
import torch

from wsl.augment import (
    AddNoise,
    AlignedMixUp,
    AugmentError,
    FlipSigns,
    MixUp,
    PermutedMixUp,
    RotateInputs,
    ShiftPhases,
    TranslateInputs,
)
from wsl.data import DataError, ZooDataModule
from wsl.encoders import FlatMLP, GraphMetanetwork
from wsl.tasks import INRClassification
from wsl.zoo import Architecture, ForwardDefinition, Shard, ShardedBuild, Zoo, split_by_model

QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


def with_forward(source, path, factory="wsl.models:Siren", **arguments):
    """The zoo of ``source`` with another forward definition."""
    zoo = Zoo.open(source)
    forward = ForwardDefinition(factory, {**zoo.forward.arguments, **arguments}, zoo.forward.grid)
    rows = np.arange(len(zoo))
    build = ShardedBuild(
        path,
        architectures=[Architecture("Siren", zoo.spec, forward)],
        shards=[Shard(len(zoo))],
        provenance={},
    )
    with build:
        weights = {name: tensor.numpy() for name, tensor in zoo.weights(rows).items()}
        build.write(0, weights, {"label": zoo.metadata["label"], "image": zoo.metadata["image"]})
        shares = {"train": 0.6, "val": 0.2, "test": 0.2}
        return str(build.pack(split_by_model(zoo.metadata["image"], shares, 0, column="image")).path)


def outputs(weights, points, module):
    return torch.func.vmap(lambda w: torch.func.functional_call(module, w, (points,)))(weights)


def test_networks_are_run_as_the_zoo_says(zoo_path, tmp_path):
    """Half periods depend on the frequency that the zoo stores; a wrong one would change the function."""
    path = with_forward(zoo_path, tmp_path / "w0.h5", w0=5.0, first_w0=11.0)
    data = ZooDataModule(path, augmentations=[FlipSigns(), ShiftPhases(2)])
    zoo = Zoo.open(path)
    batch = next(iter(data.train_dataloader()))
    stored, module = zoo.weights(batch.rows.numpy()), zoo.forward.build()
    points = zoo.forward.points()
    torch.testing.assert_close(
        outputs(batch.weights, points, module), outputs(stored, points, module), rtol=0, atol=1e-4
    )
    assert not torch.equal(batch.weights["layers.0.bias"].abs(), stored["layers.0.bias"].abs())


@pytest.mark.parametrize("kind", [MixUp, PermutedMixUp, AlignedMixUp])
def test_training_labels_become_probabilities(zoo_path, kind):
    data = ZooDataModule(zoo_path, batch_size=16, augmentations=[kind()])
    for batch in data.train_dataloader():
        assert batch.labels.shape == (len(batch.rows), tiny_zoo.CLASSES)
        torch.testing.assert_close(batch.labels.sum(1), torch.ones(len(batch.rows)))
    assert next(iter(data.val_dataloader())).labels.dtype == torch.int64
    again = ZooDataModule(zoo_path, batch_size=16, augmentations=[kind()])
    for batch, other in zip(data.train_dataloader(), again.train_dataloader(), strict=True):
        assert torch.equal(batch.labels, other.labels)
        assert all(torch.equal(batch.weights[name], other.weights[name]) for name in batch.weights)


def test_labels_that_are_numbers_are_mixed_as_numbers(zoo_path):
    data = ZooDataModule(zoo_path, label="score", augmentations=[MixUp()])
    batch = next(iter(data.train_dataloader()))
    assert batch.labels.shape == batch.rows.shape and batch.labels.dtype == torch.float32
    assert not set(batch.labels.tolist()) <= {0.0, 0.5, 1.0}


def test_groups_of_several_architectures_are_mixed_among_themselves(zoo_path, tmp_path):
    other = tiny_zoo.build(tmp_path / "other.h5", images=31, seed=1, hidden=(4, 7))
    data = ZooDataModule([zoo_path, str(other.path)], batch_size=16, augmentations=[MixUp(), ShiftPhases()])
    sizes = set()
    for batch in data.train_dataloader():
        assert batch.labels.shape == (len(batch.rows), tiny_zoo.CLASSES)
        first, start = torch.as_tensor(data.labels[batch.rows.numpy()]), 0
        for _, weights in batch.weights:
            count = len(weights["layers.0.bias"])
            own = slice(start, start + count)
            present = torch.nn.functional.one_hot(first[own], tiny_zoo.CLASSES).sum(0) > 0
            assert not batch.labels[own][:, ~present].any(), "no label of another group is mixed in"
            sizes, start = sizes | {len(batch.weights)}, start + count
    assert sizes == {1, 2}


def test_networks_that_run_in_different_ways_are_refused(zoo_path, tmp_path):
    path = with_forward(zoo_path, tmp_path / "w0.h5", w0=5.0)
    data = ZooDataModule([zoo_path, path], augmentations=[ShiftPhases()])
    with pytest.raises(AugmentError, match="run in different ways"):
        data.check("fit")
    data.check("test")
    ZooDataModule([zoo_path, path], augmentations=[FlipSigns()]).check("fit")


def test_what_cannot_act_is_refused_before_a_run(zoo_path, tmp_path):
    path = with_forward(zoo_path, tmp_path / "fourier.h5", "wsl.models:FourierMLP", frequencies=1)
    for given in (path, [path]):
        with pytest.raises(AugmentError, match="RotateInputs needs a Siren"):
            ZooDataModule(given, augmentations=[RotateInputs()]).check("fit")
        ZooDataModule(given, augmentations=[TranslateInputs()]).check("fit")
        ZooDataModule(given, augmentations=[RotateInputs()]).check("test")


def test_a_column_without_classes_is_refused(zoo_path):
    data = ZooDataModule(zoo_path, augmentations=[MixUp()])
    data.setup("fit")
    data._labels = data._labels - 1
    with pytest.raises(DataError, match="does not number classes"):
        data.train_dataloader()


@pytest.mark.parametrize("several", [False, True])
def test_tasks_learn_from_mixed_labels(zoo_path, several):
    torch.manual_seed(0)
    paths = [zoo_path] if several else zoo_path
    data = ZooDataModule(paths, batch_size=16, augmentations=[AlignedMixUp(), AddNoise(0.01)])
    encoder = (
        partial(GraphMetanetwork, channels=4, layers=1, frequencies=2)
        if several
        else partial(FlatMLP, channels=16)
    )
    trainer = pl.Trainer(max_epochs=1, enable_checkpointing=False, **QUIET)
    trainer.fit(INRClassification(encoder, label_smoothing=0.1), datamodule=data)
    assert 0 <= trainer.callback_metrics["train/accuracy"] <= 1
    assert trainer.callback_metrics["train/loss"].isfinite()
