"""Editing INRs: what is rendered, what is learned, symmetry, checkpoints, pictures."""

from functools import partial

import numpy as np
import pytest
import tiny_zoo
import torch
from short_runs import assert_resumes, train

from wsl import symmetry
from wsl.data import ZooDataModule
from wsl.encoders import NFNNP, FlatMLP, GraphMetanetwork, ScaleGMN
from wsl.nn import ScaleEquivariantHead
from wsl.tasks import Dilate, Erode, INREditing, StretchContrast, TaskError
from wsl.tasks.callbacks import picture_grid
from wsl.zoo import Zoo, render

SMALL = partial(GraphMetanetwork, channels=8, layers=1, frequencies=4)
FAST = partial(torch.optim.AdamW, lr=0.01)


def data(path, **options):
    return ZooDataModule(path, batch_size=24, label="row", seed=3, **options)


@pytest.fixture(scope="module")
def trained(zoo_path):
    return train(INREditing(SMALL, FAST, edit=StretchContrast()), data(zoo_path), epochs=15)


def test_it_renders_what_the_zoo_shows(trained, zoo_path):
    task, _ = trained
    zoo = Zoo.open(zoo_path)
    shown = task.render(zoo.weights([0, 4, 9])).clamp(0, 1)
    torch.testing.assert_close(shown, render(zoo, [0, 4, 9]))


def test_it_learns_to_edit(trained, zoo_path):
    task, trainer = trained
    (found,) = trainer.test(task, datamodule=data(zoo_path), verbose=False)
    assert found["test/loss"] < 0.85 * found["test/copy_loss"]


def test_losses_are_mean_squared_errors_of_images(trained, zoo_path):
    task, trainer = trained
    rows = Zoo.open(zoo_path).split("val")
    weights = Zoo.open(zoo_path).weights(rows)
    before = task.render(weights).clamp(0, 1).numpy()
    wanted = StretchContrast()(before)
    with torch.no_grad():
        after = task.render(task(weights)).numpy()
    (found,) = trainer.validate(task, datamodule=data(zoo_path), verbose=False)
    assert found["val/loss"] == pytest.approx(((after - wanted) ** 2).mean(), rel=1e-4)
    assert found["val/copy_loss"] == pytest.approx(((before - wanted) ** 2).mean(), rel=1e-4)


@pytest.mark.parametrize(
    "encoder", [SMALL, partial(NFNNP, channels=4, layers=1), partial(ScaleGMN, channels=4)]
)
def test_permuted_networks_get_the_permuted_edit(zoo_path, encoder):
    task, _ = train(INREditing(encoder), data(zoo_path))
    task = task.double().eval()
    weights = {name: tensor.double() for name, tensor in Zoo.open(zoo_path).weights([1, 2]).items()}
    signs = isinstance(task.head, ScaleEquivariantHead)
    generator = torch.Generator().manual_seed(0)
    action = symmetry.sample(task.spec, 2, generator=generator, scale=signs, dtype=torch.float64)
    moved, expected = (symmetry.apply(task.spec, action, given) for given in (weights, task(weights)))
    for name, tensor in task(moved).items():
        torch.testing.assert_close(tensor, expected[name], atol=1e-9, rtol=1e-9)


def test_checkpoints_hold_the_edit(zoo_path, tmp_path):
    task, trainer = train(INREditing(SMALL, edit=Erode(5), scale=0.1), data(zoo_path))
    trainer.save_checkpoint(tmp_path / "c.ckpt")
    loaded = INREditing.load_from_checkpoint(tmp_path / "c.ckpt", weights_only=True)
    assert loaded.edit == Erode(5) and loaded.hparams == task.hparams
    weights = Zoo.open(zoo_path).weights([0, 1])
    for made, own in zip(loaded(weights).values(), task(weights).values(), strict=True):
        assert torch.equal(made, own)
    assert torch.equal(loaded.render(weights), task.render(weights))


@pytest.mark.filterwarnings("ignore:Checkpoint directory")
def test_a_killed_run_resumes_to_the_same_weights(zoo_path, tmp_path):
    when = {"every_n_train_steps": 2, "save_on_train_epoch_end": False}
    assert_resumes(lambda: INREditing(SMALL), lambda: data(zoo_path), tmp_path, when, killed_at=5, epochs=3)


def test_pictures_and_predictions_are_of_the_networks(trained, zoo_path):
    task, trainer = trained
    rows = Zoo.open(zoo_path).split("val")[:8]
    before, wanted, after = task.pictures
    assert before.shape == wanted.shape == after.shape == (8, 4, 4)
    torch.testing.assert_close(before, render(Zoo.open(zoo_path), rows))
    (part,) = trainer.predict(task, datamodule=data(zoo_path))
    assert part["rows"].tolist() == Zoo.open(zoo_path).split("test").tolist()
    torch.testing.assert_close(part["before"], render(Zoo.open(zoo_path), part["rows"].numpy()))
    assert part["after"].min() >= 0 and part["after"].max() <= 1


def test_grids_of_pictures():
    rows = [np.zeros((3, 4, 5)), np.ones((3, 4, 5))]
    grid = picture_grid(rows, zoom=2)
    assert grid.shape == (2 * 2 * 6, 3 * 2 * 7) and grid.dtype == np.uint8
    assert (grid[2:10, 2:12] == 0).all() and (grid[14:22, 16:26] == 255).all()
    assert picture_grid([np.ones((2, 4, 4, 3))]).shape == (18, 36, 3)


def test_the_flat_baseline_changes_each_weight_by_itself(zoo_path):
    task, _ = train(INREditing(partial(FlatMLP, channels=8, hidden=16)), data(zoo_path))
    weights = Zoo.open(zoo_path).weights([0, 1])
    change = (task(weights)["layers.1.weight"] - weights["layers.1.weight"]).detach()
    assert isinstance(task.edit, Dilate) and len(change[0].unique()) == change[0].numel()
    moved = {
        name: tensor.flip(1) if name == "layers.1.weight" else tensor for name, tensor in weights.items()
    }
    assert not torch.allclose(task(moved)["layers.1.weight"] - moved["layers.1.weight"], change.flip(1))


def test_networks_that_show_no_images_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tiny_zoo, "FORWARD", tiny_zoo.replace(tiny_zoo.FORWARD, grid=None))
    path = str(tiny_zoo.build(tmp_path / "zoo.h5", images=20).path)
    with pytest.raises(TaskError, match="edits images, and the networks of the zoo show none"):
        train(INREditing(SMALL), data(path))
