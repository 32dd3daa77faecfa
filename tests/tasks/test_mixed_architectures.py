"""The task on data of several architectures: resumed runs equal unbroken ones, safe checkpoints, refusals."""

from functools import partial

import lightning.pytorch as pl
import pytest
import tiny_zoo
import torch
from short_runs import QUIET, assert_resumes, train
from torch import nn

from wsl.augment import DropWeights, FlipSigns
from wsl.data import MixedBatch, ZooDataModule
from wsl.encoders import FlatMLP, GraphMetanetwork, MixedEncoder, ScaleGMN, StatNet
from wsl.nn import PooledHead
from wsl.tasks import BaseTask, INRClassification, TaskError
from wsl.zoo import Zoo

SMALL = partial(GraphMetanetwork, channels=8, layers=1, frequencies=4)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoos")
    shapes = {"a": (6, 5), "b": (4, 7), "c": (3, 3)}
    return [
        str(tiny_zoo.build(folder / f"{name}.h5", images=30, hidden=hidden).path)
        for name, hidden in shapes.items()
    ]


class DroppingHead(INRClassification):
    """Draws from torch's global generator in every step."""

    def build_mixed_head(self, encoder, outputs):
        head = super().build_mixed_head(encoder, outputs)
        head.layers[2] = nn.Dropout(0.3)
        return head


def data(paths, **options):
    return ZooDataModule(
        paths, batch_size=16, augmentations=[FlipSigns(), DropWeights(0.05)], seed=3, **options
    )


def fit(paths, task=None):
    return train(task or INRClassification(SMALL), data(paths))


@pytest.mark.filterwarnings("ignore:Checkpoint directory")
@pytest.mark.parametrize(
    "when",
    [
        {"save_on_train_epoch_end": True},
        {"every_n_train_steps": 4, "save_on_train_epoch_end": False},
    ],
    ids=["end of an epoch", "inside an epoch"],
)
def test_a_killed_run_resumes_to_the_same_weights(paths, tmp_path, when):
    steps = assert_resumes(
        lambda: DroppingHead(SMALL), lambda: data(paths[:2]), tmp_path, when, killed_at=9, epochs=2
    )
    assert steps == 10


def test_checkpoints_load_safely_and_read_any_architecture(paths, tmp_path):
    task, trainer = fit(paths[:2])
    assert isinstance(task.encoder, MixedEncoder) and isinstance(task.head, PooledHead)
    path = tmp_path / "c.ckpt"
    trainer.save_checkpoint(path)
    torch.load(path, weights_only=True)
    loaded = INRClassification.load_from_checkpoint(path, weights_only=True)
    statistics = data(paths[:2]).statistics
    assert loaded.encoder.std.tolist() == pytest.approx(list(statistics.std.values()))
    zoos = [Zoo.open(path) for path in paths]
    weights = [(zoo.spec, zoo.weights([0, 5])) for zoo in zoos]
    task.eval(), loaded.eval()
    assert torch.equal(loaded(weights), task(weights)) and loaded(weights).shape == (6, 3)
    metrics = trainer.test(loaded, datamodule=data(paths[2:]), verbose=False)
    assert "test/accuracy" in metrics[0], "an architecture that training has not seen"
    other, _ = fit(paths[:1], INRClassification(SMALL))
    assert {n: p.shape for n, p in other.named_parameters()} == {
        n: p.shape for n, p in task.named_parameters()
    }


def test_steps_are_the_same_in_the_dense_and_in_the_sparse_form(paths):
    tasks = [fit(paths)[0] for _ in range(2)]
    batch = next(batch for batch in data(paths).train_dataloader() if len(batch.weights) > 1)
    grads = []
    for task, dense_from in zip(tasks, (0, 1e9), strict=True):
        task.double().encoder.dense_from = dense_from
        double = tuple((spec, {n: w.double() for n, w in own.items()}) for spec, own in batch.weights)
        logits = task(MixedBatch(double, batch.labels, batch.rows).weights)
        nn.functional.cross_entropy(logits, batch.labels).backward()
        grads.append({name: p.grad for name, p in task.named_parameters()})
    for name, grad in grads[0].items():
        if grad is not None:
            assert torch.allclose(grad, grads[1][name], rtol=1e-9, atol=1e-9), name


def test_it_learns_what_can_be_learned(tmp_path):
    shapes = ((6, 5), (4, 7))
    paths = [
        str(tiny_zoo.build(tmp_path / f"{i}.h5", images=105, hidden=hidden).path)
        for i, hidden in enumerate(shapes)
    ]
    easy = ZooDataModule(paths, batch_size=32)
    task = INRClassification(
        partial(GraphMetanetwork, channels=16, layers=1), optimizer=partial(torch.optim.AdamW, lr=0.01)
    )
    torch.manual_seed(0)
    trainer = pl.Trainer(max_epochs=8, enable_checkpointing=False, **QUIET)
    trainer.fit(task, datamodule=easy)
    (metrics,) = trainer.test(task, datamodule=easy, verbose=False)
    assert metrics["test/accuracy"] >= 0.8
    parts = trainer.predict(task, datamodule=easy)
    rows = torch.cat([part["rows"] for part in parts])
    probabilities = torch.cat([part["probabilities"] for part in parts])
    assert rows.tolist() == easy.rows("test").tolist()
    right = probabilities.argmax(1).numpy() == easy.labels[rows.numpy()]
    assert right.mean() == pytest.approx(metrics["test/accuracy"])
    assert torch.cat([part["embeddings"] for part in parts]).shape == (len(rows), 9 * 16)


def test_other_encoders_for_any_architecture(paths):
    task, _ = fit(paths[:2], INRClassification(partial(ScaleGMN, channels=4, layers=1)))
    assert task.encoder.channels == 4


@pytest.mark.parametrize("kind", [FlatMLP, StatNet])
def test_encoders_of_one_architecture_are_refused(paths, kind):
    with pytest.raises(
        TaskError, match=rf"{kind.__name__} reads one architecture only.*\n.*: .*DeepSets, .*ScaleGMN"
    ):
        INRClassification(kind).rehearse(data(paths))


def test_tasks_of_one_architecture_are_refused(paths):
    class Single(INRClassification):
        build_mixed_head = BaseTask.build_mixed_head

    with pytest.raises(TaskError, match="Single reads one architecture"):
        Single(SMALL).rehearse(data(paths))


def test_models_for_one_architecture_and_for_any_are_not_mixed_up(paths, tmp_path):
    task, trainer = fit(paths[:2])
    trainer.save_checkpoint(tmp_path / "c.ckpt")
    with pytest.raises(TaskError, match=r"the model is one for one architecture.*\n.*data\.path \[FILE\]"):
        trainer.test(
            INRClassification(SMALL),
            datamodule=data(paths[0]),
            ckpt_path=str(tmp_path / "c.ckpt"),
            verbose=False,
        )
    with pytest.raises(TaskError, match="the model is one for any architectures"):
        trainer.test(task, datamodule=data(paths[0]), verbose=False)
