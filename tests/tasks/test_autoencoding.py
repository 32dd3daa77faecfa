"""Autoencoders of weights: decoded networks run, losses by definition, symmetry, learning, checkpoints."""

from functools import partial

import mixed_zoo
import pytest
import tiny_zoo
import torch
from short_runs import assert_resumes, train

from wsl import symmetry
from wsl.data import ZooDataModule
from wsl.encoders import GraphMetanetwork, ScaleGMN
from wsl.models import Siren
from wsl.tasks import TaskError, WeightAutoencoder
from wsl.tasks.autoencoding import WeightDecoder, psnr, spread
from wsl.zoo import Zoo, render

SMALL = partial(GraphMetanetwork, channels=8, layers=1, frequencies=4)
FAST = partial(torch.optim.AdamW, lr=0.01)


def data(path, **options):
    return ZooDataModule(path, batch_size=24, label="row", seed=3, **options)


def made(encoder=SMALL, **options):
    return WeightAutoencoder(encoder, FAST, latent=8, hidden=32, **options)


@pytest.fixture(scope="module")
def trained(zoo_path):
    return train(made(), data(zoo_path), epochs=20)


def test_decoded_weights_run(trained, zoo_path):
    task, _ = trained
    zoo = Zoo.open(zoo_path)
    with torch.no_grad():
        decoded = task.decode(task.embed(zoo.weights([3])))
    network = Siren(**zoo.forward.arguments)
    network.load_state_dict({name: tensor[0] for name, tensor in decoded.items()})
    image = network(zoo.forward.points()).reshape(4, 4).clamp(0, 1)
    torch.testing.assert_close(task.render.show(decoded)[0], image)


def test_it_learns_what_networks_show(trained, zoo_path):
    task, trainer = trained
    zoo = Zoo.open(zoo_path)
    mean = render(zoo, zoo.split("train")).mean(0)
    constant = (render(zoo, zoo.split("test")) - mean).square().mean()
    (found,) = trainer.test(task, datamodule=data(zoo_path), verbose=False)
    assert found["test/loss"] < 0.5 * constant, "the mean image for every network"


def test_losses_are_by_their_definition(zoo_path):
    task, trainer = train(made(weight_loss=0.5), data(zoo_path))
    zoo = Zoo.open(zoo_path)
    weights, shown = zoo.weights(zoo.split("val")), render(zoo, zoo.split("val"))
    with torch.no_grad():
        decoded = task.decode(task(weights))
        errors = (task.render(decoded) - shown).square().mean()
        std = data(zoo_path).statistics.std
        apart = [((decoded[n] - weights[n]) / s).square().flatten(1) for n, s in std.items() if s]
        cut = (task.render(decoded).clamp(0, 1) - shown).square().flatten(1).mean(1)
    (found,) = trainer.validate(task, datamodule=data(zoo_path), verbose=False)
    assert found["val/loss"] == pytest.approx(float(errors + 0.5 * torch.cat(apart, 1).mean()), rel=1e-4)
    expected = [100.0 if error <= 1e-10 else float(-10 * error.log10()) for error in cut]
    assert found["val/psnr"] == pytest.approx(sum(expected) / len(expected), rel=1e-3)


def test_the_mean_signal_is_judged_without_bias():
    """By the mean of a batch, with one degree of freedom less."""
    signals = torch.randn(4000, 10, 3, 5, dtype=torch.float64) * 2 + torch.arange(5)
    assert float(torch.stack([spread(batch) for batch in signals]).mean()) == pytest.approx(4.0, rel=0.01)
    assert float(spread(signals[0, :1])) == 0.0
    batch = signals[0].flatten(1)
    assert float(spread(signals[0])) == pytest.approx(float(batch.var(dim=0).mean()))


def test_psnr_of_known_errors():
    image = torch.zeros(3, 4, 4)
    moved = image + torch.tensor([0.1, 1.0, 0.0])[:, None, None]
    assert psnr(moved, image).tolist() == pytest.approx([20.0, 0.0, 100.0], abs=1e-4)


@pytest.mark.parametrize("encoder", [SMALL, partial(ScaleGMN, channels=4, layers=1)])
def test_equal_networks_are_decoded_alike(zoo_path, encoder):
    task, _ = train(made(encoder), data(zoo_path))
    task = task.double().eval()
    weights = {name: tensor.double() for name, tensor in Zoo.open(zoo_path).weights([1, 2]).items()}
    generator = torch.Generator().manual_seed(0)
    signs = encoder.func is ScaleGMN
    action = symmetry.sample(task.spec, 2, generator=generator, scale=signs, dtype=torch.float64)
    moved = symmetry.apply(task.spec, action, weights)
    assert not torch.allclose(moved["layers.1.weight"], weights["layers.1.weight"])
    torch.testing.assert_close(task.embed(moved), task.embed(weights), atol=1e-9, rtol=1e-9)
    ours, theirs = task.decode(task.embed(weights)), task.decode(task.embed(moved))
    torch.testing.assert_close(theirs, ours, atol=1e-9, rtol=1e-9)
    assert task.render(ours).dtype == torch.float64


def test_decoders_begin_with_typical_weights(zoo_path):
    zoo, statistics = Zoo.open(zoo_path), data(zoo_path).statistics
    decoder = WeightDecoder(zoo.spec, 5, hidden=16)
    decoder.set_statistics(statistics.mean, statistics.std)
    decoded = decoder(torch.randn(7, 5))
    assert {name: tensor.shape for name, tensor in decoded.items()} == {
        name: tensor.shape for name, tensor in zoo.weights(range(7)).items()
    }
    wide = decoded["layers.1.weight"].std() / statistics.std["layers.1.weight"]
    assert 0.5 < wide < 2
    decoder.set_statistics(statistics.mean, dict.fromkeys(statistics.std, 0.0))
    for name, tensor in decoder(torch.randn(2, 5)).items():
        torch.testing.assert_close(tensor, torch.full_like(tensor, statistics.mean[name]))


@pytest.mark.filterwarnings("ignore:Checkpoint directory")
def test_a_killed_run_resumes_to_the_same_weights(zoo_path, tmp_path):
    when = {"every_n_train_steps": 2, "save_on_train_epoch_end": False}
    assert_resumes(made, lambda: data(zoo_path), tmp_path, when, killed_at=5, epochs=3)


def test_checkpoints_decode_the_same(trained, zoo_path, tmp_path):
    task, trainer = trained
    trainer.save_checkpoint(tmp_path / "c.ckpt")
    loaded = WeightAutoencoder.load_from_checkpoint(tmp_path / "c.ckpt", weights_only=True)
    assert loaded.hparams == task.hparams
    weights = Zoo.open(zoo_path).weights([0, 1])
    ours, theirs = task.decode(task.embed(weights)), loaded.decode(loaded.embed(weights))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_pictures_and_predictions_are_of_the_networks(trained, zoo_path):
    task, trainer = trained
    zoo = Zoo.open(zoo_path)
    assert task.picture_rows == ("given", "decoded")
    before, after = task.pictures
    torch.testing.assert_close(before, render(zoo, zoo.split("val")[:8]))
    assert after.shape == before.shape and after.min() >= 0 and after.max() <= 1
    (part,) = trainer.predict(task, datamodule=data(zoo_path))
    assert part["embeddings"].shape == (len(zoo.split("test")), 8)
    torch.testing.assert_close(part["embeddings"], part["latents"])


@pytest.mark.parametrize(
    "arguments", [{"latent": 0}, {"hidden": 0}, {"layers": -1}, {"weight_loss": -1.0}], ids=str
)
def test_arguments_that_make_no_sense(arguments):
    with pytest.raises(TaskError, match=rf"{next(iter(arguments))} (is )?{next(iter(arguments.values()))}"):
        WeightAutoencoder(SMALL, **arguments)


def test_data_that_it_cannot_decode(tmp_path, zoo_path, monkeypatch):
    task = WeightAutoencoder(SMALL)
    with pytest.raises(TaskError, match="has no encoder yet"):
        task.decode(torch.zeros(1, 64))
    with pytest.raises(TaskError, match="WeightAutoencoder reads one architecture"):
        task.rehearse(data(str(mixed_zoo.build(tmp_path / "cnns.h5").path)))
    monkeypatch.setattr(tiny_zoo, "FORWARD", tiny_zoo.replace(tiny_zoo.FORWARD, grid=None))
    path = str(tiny_zoo.build(tmp_path / "zoo.h5", images=20).path)
    with pytest.raises(TaskError, match="has no coordinate grid"):
        task.rehearse(data(path))
