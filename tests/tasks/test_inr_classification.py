"""The task in Python: what it learns, what checkpoints hold, that resumed runs equal unbroken ones."""

from functools import partial

import lightning.pytorch as pl
import pytest
import tiny_zoo
import torch
from short_runs import QUIET, assert_resumes, train
from torch import nn

from wsl.augment import AddNoise, DropWeights, FlipSigns
from wsl.data import DataError, ZooDataModule
from wsl.encoders import FlatMLP, GraphMetanetwork
from wsl.spec import WeightSpec
from wsl.tasks import INRClassification, TaskError
from wsl.zoo import Zoo

SMALL = partial(GraphMetanetwork, channels=8, layers=1, frequencies=4)


class DroppingHead(INRClassification):
    """Draws from torch's global generator in every step."""

    def build_head(self, spec, encoder, outputs):
        head = super().build_head(spec, encoder, outputs)
        head.layers[2] = nn.Dropout(0.3)
        return head


def data(path, **options):
    changes = [FlipSigns(), AddNoise(0.1), DropWeights(0.05)]
    return ZooDataModule(path, batch_size=16, augmentations=changes, seed=3, **options)


def fit(path, task=None, epochs=2, **options):
    return train(task or INRClassification(SMALL), data(path), epochs=epochs, **options)


@pytest.mark.filterwarnings("ignore:Checkpoint directory")
@pytest.mark.parametrize(
    ("when", "killed_at"),
    [
        ({"save_on_train_epoch_end": True}, 12),
        ({}, 12),
        ({"every_n_train_steps": 3, "save_on_train_epoch_end": False}, 8),
        ({"every_n_train_steps": 5, "save_on_train_epoch_end": False}, 8),
    ],
    ids=["end of an epoch", "after validation", "inside an epoch", "last step of an epoch"],
)
def test_a_killed_run_resumes_to_the_same_weights(zoo_path, tmp_path, when, killed_at):
    steps = assert_resumes(
        lambda: DroppingHead(SMALL), lambda: data(zoo_path), tmp_path, when, killed_at, epochs=3
    )
    assert steps == 15


def test_another_seed_gives_other_weights(zoo_path):
    runs = []
    for seed in (0, 0, 1):
        pl.seed_everything(seed, verbose=False)
        trainer = pl.Trainer(max_epochs=1, enable_checkpointing=False, **QUIET)
        task = DroppingHead(SMALL)
        trainer.fit(task, datamodule=data(zoo_path))
        runs.append(task.head.layers[0].weight.detach())
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


@pytest.mark.parametrize("probes", [0, 5])
def test_checkpoints_load_safely_and_predict_the_same(zoo_path, tmp_path, probes):
    task, trainer = fit(zoo_path, INRClassification(SMALL, probes=probes), epochs=1)
    path = tmp_path / "c.ckpt"
    trainer.save_checkpoint(path)
    assert torch.load(path, weights_only=True)["hyper_parameters"]["encoder"]["init_args"]["channels"] == 8
    loaded = INRClassification.load_from_checkpoint(path, weights_only=True)
    weights = Zoo.open(zoo_path).weights([0, 5, 7])
    task.eval(), loaded.eval()
    assert torch.equal(loaded(weights), task(weights))
    assert loaded.hparams == task.hparams
    trainer.test(loaded, datamodule=data(zoo_path), verbose=False)


def test_the_train_splits_statistics_are_in_the_encoder(zoo_path):
    task, _ = fit(zoo_path, epochs=1)
    statistics = data(zoo_path).statistics
    assert task.encoder.std.tolist() == pytest.approx(list(statistics.std.values()))
    assert task.encoder.mean.tolist() == pytest.approx(list(statistics.mean.values()))


def test_it_learns_what_can_be_learned(tmp_path):
    easy = ZooDataModule(str(tiny_zoo.build(tmp_path / "easy.h5", images=210).path), batch_size=32)
    encoder = partial(GraphMetanetwork, channels=16, layers=1)
    task = INRClassification(encoder, optimizer=partial(torch.optim.AdamW, lr=0.01))
    torch.manual_seed(0)
    trainer = pl.Trainer(max_epochs=8, enable_checkpointing=False, **QUIET)
    trainer.fit(task, datamodule=easy)
    (metrics,) = trainer.test(task, datamodule=easy, verbose=False)
    assert metrics["test/accuracy"] >= 0.8


def test_predictions_are_of_the_test_split(zoo_path):
    task, trainer = fit(zoo_path, epochs=1)
    parts = trainer.predict(task, datamodule=data(zoo_path))
    rows = torch.cat([part["rows"] for part in parts])
    assert rows.tolist() == Zoo.open(zoo_path).split("test").tolist()
    probabilities = torch.cat([part["probabilities"] for part in parts])
    assert probabilities.shape == (len(rows), tiny_zoo.CLASSES)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(len(rows)))
    assert torch.cat([part["embeddings"] for part in parts]).shape[0] == len(rows)


def test_probes_need_an_encoder_that_has_them(zoo_path):
    with pytest.raises(TaskError, match="FlatMLP has no probe features"):
        fit(zoo_path, INRClassification(FlatMLP, probes=3))


def test_a_lambda_is_refused_before_training():
    with pytest.raises(TaskError, match="expected a class"):
        INRClassification(lambda spec: FlatMLP(spec))


def test_weights_before_there_is_an_encoder(zoo_path):
    with pytest.raises(TaskError, match="has no encoder yet"):
        INRClassification(SMALL)(Zoo.open(zoo_path).weights([0]))


def test_a_rehearsal_leaves_nothing_behind(zoo_path):
    task, data = INRClassification(SMALL), ZooDataModule(zoo_path)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    task.rehearse(data)
    assert torch.equal(torch.get_rng_state(), state) and task.encoder is None and not list(task.parameters())
    with pytest.raises(TaskError, match="got layers=-1"):
        INRClassification(partial(SMALL, layers=-1)).rehearse(data)
    assert set(task.metrics) > {"val/accuracy", "test/loss"}


def test_data_of_another_architecture_is_refused(zoo_path, tmp_path):
    task, trainer = fit(zoo_path, epochs=1)
    trainer.save_checkpoint(tmp_path / "c.ckpt")
    checkpoint = torch.load(tmp_path / "c.ckpt", weights_only=True)
    checkpoint["wsl"]["spec"] = str(WeightSpec.parse(str(tiny_zoo.SPEC).replace("h2", "g2")))
    torch.save(checkpoint, tmp_path / "other.ckpt")
    with pytest.raises(TaskError, match="built for another spec"):
        trainer.test(task, datamodule=data(zoo_path), ckpt_path=str(tmp_path / "other.ckpt"), verbose=False)


def test_a_foreign_checkpoint_is_refused(zoo_path, tmp_path):
    _, trainer = fit(zoo_path, epochs=1)
    trainer.save_checkpoint(tmp_path / "c.ckpt")
    checkpoint = torch.load(tmp_path / "c.ckpt", weights_only=True)
    del checkpoint["wsl"]
    torch.save(checkpoint, tmp_path / "foreign.ckpt")
    with pytest.raises(TaskError, match="not written by a task of wsl"):
        INRClassification.load_from_checkpoint(tmp_path / "foreign.ckpt", weights_only=True)


def test_resuming_on_other_data_is_refused(zoo_path, tmp_path):
    _, trainer = fit(zoo_path, epochs=1)
    trainer.save_checkpoint(tmp_path / "c.ckpt")
    other = str(tiny_zoo.build(tmp_path / "other.h5", seed=1).path)
    with pytest.raises(DataError, match="saw other data.*fingerprint was"):
        fit(other, ckpt_path=str(tmp_path / "c.ckpt"))
    metrics = pl.Trainer(**QUIET).test(
        INRClassification(SMALL), datamodule=data(other), ckpt_path=str(tmp_path / "c.ckpt"), verbose=False
    )
    assert "test/accuracy" in metrics[0], "evaluation may read any zoo of the architecture"


def test_without_a_data_module():
    with pytest.raises(TaskError, match="expected a wsl data module"):
        pl.Trainer(max_epochs=1, enable_checkpointing=False, **QUIET).fit(INRClassification(SMALL), [1], [1])
