"""Numbers predicted from weights: learning, losses, scores of whole splits, resumption, refusals."""

from functools import partial

import numpy as np
import pytest
import tiny_zoo
import torch
from short_runs import assert_resumes, train
from torch.nn import functional as F

from wsl._scores import scores
from wsl.augment import MixUp
from wsl.data import ZooDataModule
from wsl.encoders import GraphMetanetwork
from wsl.tasks import GeneralizationPrediction, TaskError
from wsl.tasks.generalization_prediction import _numbers, ranking_loss
from wsl.zoo import Zoo, split_zoo, subset_zoo

SMALL = partial(GraphMetanetwork, channels=8, layers=1, frequencies=4)
FAST = partial(torch.optim.AdamW, lr=0.01)


def data(path, label="score", **options):
    return ZooDataModule(path, batch_size=16, label=label, seed=3, **options)


@pytest.mark.parametrize("loss", ["cross_entropy", "logit_mse", "mse"])
def test_it_learns_the_order_of_networks(zoo_path, loss):
    task, trainer = train(GeneralizationPrediction(SMALL, FAST, loss=loss), data(zoo_path), epochs=25)
    (found,) = trainer.test(task, datamodule=data(zoo_path), verbose=False)
    assert found["test/tau"] > 0.5 and found["test/spearman"] > 0.6 and found["test/mae"] < 0.25


def test_scores_are_of_the_whole_split(zoo_path):
    task, trainer = train(GeneralizationPrediction(SMALL), data(zoo_path, eval_batch_size=7))
    zoo = Zoo.open(zoo_path)
    rows = zoo.split("val")
    task.eval()
    predicted = task.read_out(task(zoo.weights(rows)))["predictions"]
    expected = scores(predicted.detach().double().numpy(), zoo.metadata["score"][rows])
    for name, value in expected.items():
        assert float(trainer.callback_metrics[f"val/{name}"]) == pytest.approx(value, abs=1e-6)


def test_predictions_are_in_the_targets_unit(zoo_path, tmp_path):
    shifted = data(zoo_path, label="1000 + 50 * score")
    task, trainer = train(GeneralizationPrediction(SMALL, FAST, loss="mse"), shifted, epochs=20)
    parts = trainer.predict(task, datamodule=shifted)
    predicted, labels = (torch.cat([part[name] for part in parts]) for name in ("predictions", "labels"))
    assert (predicted - labels).abs().mean() < 20 and labels.min() >= 1000
    trainer.save_checkpoint(tmp_path / "c.ckpt")
    loaded = GeneralizationPrediction.load_from_checkpoint(tmp_path / "c.ckpt", weights_only=True).eval()
    weights = Zoo.open(zoo_path).weights([0, 1])
    assert torch.equal(
        loaded.read_out(loaded(weights))["predictions"], task.read_out(task(weights))["predictions"]
    )


def test_several_architectures(tmp_path):
    paths = [str(tmp_path / f"{width}.h5") for width in (6, 7)]
    for path, width in zip(paths, (6, 7), strict=True):
        tiny_zoo.build(path, images=20, hidden=(width, 5))
    _, trainer = train(GeneralizationPrediction(SMALL, ranking=0.5), data(paths), epochs=2)
    assert np.isfinite(float(trainer.callback_metrics["val/tau"]))


@pytest.mark.filterwarnings("ignore:Checkpoint directory")
def test_a_killed_run_resumes_to_the_same_weights(zoo_path, tmp_path):
    def task():
        return GeneralizationPrediction(SMALL, loss="mse", ranking=0.1)

    when = {"every_n_train_steps": 3, "save_on_train_epoch_end": False}
    assert_resumes(task, lambda: data(zoo_path), tmp_path, when, killed_at=8, epochs=3)


def test_cross_entropy_is_that_of_shares(zoo_path):
    task, _ = train(GeneralizationPrediction(SMALL), data(zoo_path))
    values, targets = torch.tensor([0.3, -1.0]), torch.tensor([0.25, 0.5])
    p = values.sigmoid()
    expected = -(targets * p.log() + (1 - targets) * (1 - p).log()).mean()
    assert torch.allclose(task._distance(values, targets), expected)


def test_whole_numbers_can_be_mixed(zoo_path):
    """MixUp makes probabilities of whole numbers; what is predicted is their mean, as of other numbers."""
    shares = torch.tensor([[0.25, 0, 0.75], [0, 1, 0]])
    assert torch.allclose(_numbers(shares), torch.tensor([1.5, 1.0]))
    mixed = data(zoo_path, label="label", augmentations=[MixUp()])
    _, trainer = train(GeneralizationPrediction(SMALL, loss="mse", ranking=0.1), mixed)
    assert np.isfinite(float(trainer.callback_metrics["train/loss"]))


def test_ranking_loss_is_the_mean_over_pairs_that_differ():
    values, targets = torch.tensor([0.2, 1.0, -0.5, 0.3]), torch.tensor([1.0, 2.0, 2.0, 0.0])
    pairs = [
        F.softplus(-(values[i] - values[j])) for i in range(4) for j in range(4) if targets[i] > targets[j]
    ]
    assert torch.allclose(ranking_loss(values, targets), torch.stack(pairs).mean())
    assert ranking_loss(values, torch.ones(4)) == 0


@pytest.mark.parametrize(
    ("task", "label", "message"),
    [
        ({}, "1 + score", "for shares from 0 to 1"),
        ({}, "label", "for shares from 0 to 1"),
        ({"loss": "mse"}, "score / 0", "not finite"),
        # a single image of the val split has a label that is no share, or no number
        ({}, "score + (image == {val})", "for shares from 0 to 1"),
        ({"loss": "mse"}, "score / (image != {val}) + 0 / (image != {val})", "not finite for 2 of .* 'val'"),
        ({"loss": "mse"}, "scor", "no metadata column 'scor'"),
    ],
)
def test_targets_it_cannot_use_are_refused(zoo_path, task, label, message):
    zoo = Zoo.open(zoo_path)
    rows = [row for row in zoo.split("val") if zoo.metadata["score"][row]]
    label = label.format(val=zoo.metadata["image"][rows[0]])
    with pytest.raises((TaskError, ValueError), match=message):
        train(GeneralizationPrediction(SMALL, **task), data(zoo_path, label=label))


def test_a_zoo_to_test_on_needs_no_training_networks(zoo_path, tmp_path):
    task, trainer = train(GeneralizationPrediction(SMALL, loss="mse"), data(zoo_path))
    mean = float(task.target_mean)
    zoo = Zoo.open(zoo_path)
    other = subset_zoo(zoo, tmp_path / "other.h5", zoo.split("test"))
    only = split_zoo(other, tmp_path / "only.h5", {"test": 1.0}, by="image")
    trainer.test(task, datamodule=data(str(only.path)), verbose=False)
    assert np.isfinite(float(trainer.callback_metrics["test/tau"])) and float(task.target_mean) == mean
