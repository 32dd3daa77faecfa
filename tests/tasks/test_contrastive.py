"""Contrastive embeddings: the loss by its definition, copies, symmetry, learning, checkpoints, mixed data."""

from functools import partial

import mixed_zoo
import pytest
import tiny_zoo
import torch
from short_runs import assert_resumes, train

from wsl import symmetry
from wsl.augment import AddNoise, AugmentError, FlipSigns, MixUp, Permute, Rescale, RotateInputs
from wsl.data import ZooDataModule
from wsl.encoders import GraphMetanetwork, MixedEncoder, ScaleGMN
from wsl.tasks import ContrastiveEmbedding, TaskError
from wsl.tasks.contrastive import nt_xent, retrieval
from wsl.zoo import Zoo
from wsl.zoo.inr import Renderer

SMALL = partial(GraphMetanetwork, channels=8, layers=1, frequencies=4)
FAST = partial(torch.optim.AdamW, lr=0.01)
ROTATED = (RotateInputs(20), AddNoise(0.01))


def data(path, **options):
    return ZooDataModule(path, batch_size=24, label="row", seed=3, **options)


def made(optimizer):
    views = (Permute(), FlipSigns(), AddNoise(0.02))
    return ContrastiveEmbedding(SMALL, optimizer, augmentations=views, dimensions=16)


@pytest.fixture(scope="module")
def trained(zoo_path):
    return train(made(FAST), data(zoo_path), epochs=15)


def test_the_loss_is_that_of_its_equation():
    a, b = torch.randn(2, 3, 4, dtype=torch.float64)
    copies = [*zip(a, b, strict=True), *zip(b, a, strict=True)]
    rows, total = [*a, *b], 0.0
    for i, (one, partner) in enumerate(copies):
        values = [torch.cosine_similarity(one, other, dim=0) for k, other in enumerate(rows) if k != i]
        above = torch.exp(torch.cosine_similarity(one, partner, dim=0) / 0.3)
        total -= float(torch.log(above / sum(torch.exp(value / 0.3) for value in values)))
    assert float(nt_xent(a, b, 0.3)) == pytest.approx(total / 6)
    assert float(nt_xent(2 * a, b / 3, 0.3)) == pytest.approx(total / 6), "lengths do not count"


def test_retrieval_counts_both_copies():
    a = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert retrieval(a, a) == 1
    assert retrieval(a, a.flip(0)) == 0
    assert retrieval(a, torch.tensor([[1.0, 0.1], [1.0, 0.0]])) == 0.25


def test_it_learns_to_tell_partners(trained, zoo_path):
    task, trainer = trained
    (found,) = trainer.test(task, datamodule=data(zoo_path), verbose=False)
    still, trainer = train(made(partial(torch.optim.SGD, lr=0.0)), data(zoo_path))
    (start,) = trainer.test(still, datamodule=data(zoo_path), verbose=False)
    assert found["test/loss"] < 0.6 * start["test/loss"]
    assert found["test/retrieval"] > 1.5 * start["test/retrieval"]


def test_evaluation_sees_the_same_copies_every_time(trained, zoo_path):
    task, trainer = trained
    first, again = (trainer.validate(task, datamodule=data(zoo_path), verbose=False) for _ in range(2))
    assert first == again


def test_copies_differ_and_show_the_same(zoo_path):
    task, _ = train(ContrastiveEmbedding(SMALL, augmentations=(Permute(), FlipSigns())), data(zoo_path))
    zoo, generator = Zoo.open(zoo_path), torch.Generator().manual_seed(0)
    weights = zoo.weights([0, 1, 2])
    a, b = (task.copies(weights, generator) for _ in range(2))
    assert not torch.equal(a["layers.1.weight"], b["layers.1.weight"])
    show = Renderer(zoo.forward)
    torch.testing.assert_close(show(a), show(weights))
    torch.testing.assert_close(show(b), show(weights))


def test_noise_is_in_units_of_the_deviations(zoo_path):
    task, _ = train(ContrastiveEmbedding(SMALL, augmentations=(AddNoise(0.1),)), data(zoo_path))
    weights = Zoo.open(zoo_path).weights()
    made = task.copies(weights, torch.Generator().manual_seed(0))
    for name, std in data(zoo_path).statistics.std.items():
        assert float((made[name] - weights[name]).std()) == pytest.approx(0.1 * std, rel=0.15, abs=1e-6)


@pytest.mark.parametrize("encoder", [SMALL, partial(ScaleGMN, channels=4, layers=1)])
def test_embeddings_do_not_depend_on_the_order_of_neurons(zoo_path, encoder):
    task, _ = train(ContrastiveEmbedding(encoder), data(zoo_path))
    task = task.double().eval()
    weights = {name: tensor.double() for name, tensor in Zoo.open(zoo_path).weights([1, 2]).items()}
    generator = torch.Generator().manual_seed(0)
    action = symmetry.sample(task.spec, 2, generator=generator, dtype=torch.float64)
    moved = symmetry.apply(task.spec, action, weights)
    assert not torch.allclose(moved["layers.1.weight"], weights["layers.1.weight"])
    torch.testing.assert_close(task.embed(moved), task.embed(weights), atol=1e-9, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Checkpoint directory")
def test_a_killed_run_resumes_to_the_same_weights(zoo_path, tmp_path):
    when = {"every_n_train_steps": 2, "save_on_train_epoch_end": False}
    make = partial(ContrastiveEmbedding, SMALL, augmentations=ROTATED)
    assert_resumes(make, lambda: data(zoo_path), tmp_path, when, killed_at=5, epochs=3)


def test_checkpoints_hold_the_augmentations(zoo_path, tmp_path):
    task, trainer = train(ContrastiveEmbedding(SMALL, augmentations=ROTATED), data(zoo_path))
    trainer.save_checkpoint(tmp_path / "c.ckpt")
    loaded = ContrastiveEmbedding.load_from_checkpoint(tmp_path / "c.ckpt", weights_only=True)
    assert loaded.augmentations == ROTATED and loaded.hparams == task.hparams
    weights = Zoo.open(zoo_path).weights([0, 1])
    assert torch.equal(loaded.embed(weights), task.embed(weights))
    assert torch.equal(loaded(weights), task(weights))
    made, own = (one.copies(weights, torch.Generator().manual_seed(1)) for one in (loaded, task))
    assert torch.equal(made["layers.0.weight"], own["layers.0.weight"])


def test_on_several_architectures(tmp_path):
    path = str(mixed_zoo.build(tmp_path / "cnns.h5").path)
    views = (Permute(), FlipSigns(), Rescale(0.2), AddNoise(0.05))
    task, trainer = train(ContrastiveEmbedding(SMALL, FAST, augmentations=views), data(path), epochs=3)
    assert isinstance(task.encoder, MixedEncoder)
    (part,) = trainer.predict(task, datamodule=data(path))
    assert part["projections"].shape == (len(part["rows"]), 64)
    torch.testing.assert_close(part["projections"].norm(dim=1), torch.ones(len(part["rows"])))
    assert len(part["embeddings"]) == len(part["labels"]) == len(part["rows"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"augmentations": (MixUp(),)}, "augmentations has MixUp, which mixes networks"),
        ({"temperature": 0.0}, "temperature 0.0; expected at least 1, and above 0"),
        ({"dimensions": 0}, "dimensions is 0"),
    ],
)
def test_arguments_that_make_no_sense(arguments, message):
    with pytest.raises(TaskError, match=message):
        ContrastiveEmbedding(SMALL, **arguments)


def test_augmentations_that_cannot_act_on_the_networks(tmp_path, zoo_path, monkeypatch):
    path = str(mixed_zoo.build(tmp_path / "cnns.h5").path)
    task = ContrastiveEmbedding(SMALL, augmentations=ROTATED)
    with pytest.raises(AugmentError, match="need a Siren or a FourierMLP"):
        train(task, data(path))
    arguments = {**tiny_zoo.FORWARD.arguments, "w0": 10.0}
    monkeypatch.setattr(tiny_zoo, "FORWARD", tiny_zoo.replace(tiny_zoo.FORWARD, arguments=arguments))
    other = str(tiny_zoo.build(tmp_path / "other.h5", images=20).path)
    with pytest.raises(TaskError, match="networks with equal specifications run differently"):
        ContrastiveEmbedding(SMALL, augmentations=ROTATED).rehearse(data([zoo_path, other]))
