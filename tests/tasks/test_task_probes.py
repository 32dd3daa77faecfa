"""Probes through tasks: of networks that take images, and of data of several architectures."""

from dataclasses import replace
from functools import partial

import mixed_zoo
import numpy as np
import pytest
import tiny_zoo
import torch
from short_runs import assert_resumes, train

import wsl
from wsl.data import ZooDataModule
from wsl.encoders import FastGraphMetanetwork, GraphMetanetwork, ProbeGen, ProbeSamples, StatNet
from wsl.models import Siren, coordinate_grid
from wsl.nn import ProbedModule
from wsl.spec import SpecError
from wsl.tasks import INRClassification, TaskError
from wsl.tasks.own_network import predict_network
from wsl.zoo import ForwardDefinition, Zoo
from wsl.zoo.images import ArrayImages

GRAPH = partial(GraphMetanetwork, channels=8, layers=1, frequencies=4)
FAST = partial(FastGraphMetanetwork, channels=8, layers=1, runs=4)
GENERATED = partial(ProbeGen, channels=8, layers=1, hidden=16)
SAMPLES = partial(ProbeSamples, channels=8, layers=1, hidden=16, logits=True)


def data(path, **options):
    return ZooDataModule(path, batch_size=8, **options)


def noise_images(folder, *shape):
    """Images of noise in a file, ``(count, H, W)``."""
    path = folder / f"{shape}.npy"
    np.save(path, np.random.default_rng(0).random(shape, dtype=np.float32))
    return ArrayImages(path)


def probes_of(task) -> ProbedModule:
    encoder = getattr(task.encoder, "encoder", task.encoder)
    return encoder.probes


@pytest.fixture(scope="module")
def cnns(tmp_path_factory):
    return str(mixed_zoo.build(tmp_path_factory.mktemp("cnns") / "cnns.h5").path)


@pytest.fixture(scope="module")
def one_cnn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cnn")
    return str(mixed_zoo.build(folder / "cnn.h5", mixed_zoo.CNNS[1:]).path)


@pytest.fixture(scope="module")
def sirens(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sirens")
    return [
        str(tiny_zoo.build(folder / f"{i}.h5", images=12, hidden=hidden).path)
        for i, hidden in enumerate(((6, 5), (4, 7), (3, 3)))
    ]


@pytest.mark.parametrize(
    ("zoo", "encoder"),
    [
        ("cnns", GRAPH),
        ("cnns", FAST),
        ("cnns", GENERATED),
        ("one_cnn", GRAPH),
        ("sirens", FAST),
        ("sirens", GENERATED),
    ],
    ids=lambda value: value if isinstance(value, str) else value.func.__name__,
)
def test_probes_are_read_and_learned(zoo, encoder, tmp_path, request):
    path = request.getfixturevalue(zoo)
    task, trainer = train(INRClassification(encoder, probes=3), data(path))
    start = INRClassification(encoder, probes=3)
    torch.manual_seed(0)
    start._build(task._record)
    moved = [
        name
        for (name, after), before in zip(
            probes_of(task).named_parameters(), probes_of(start).parameters(), strict=True
        )
        if not torch.equal(after, before)
    ]
    assert moved, "no step has moved the inputs"
    batch = next(iter(data(path).val_dataloader()))
    task.eval()
    before = task(batch.weights)
    with torch.no_grad():
        for parameter in probes_of(task).parameters():
            parameter.add_(torch.randn_like(parameter))
    assert not torch.equal(task(batch.weights), before), "what networks answer is not read"
    trainer.save_checkpoint(tmp_path / "c.ckpt")
    loaded = INRClassification.load_from_checkpoint(tmp_path / "c.ckpt", weights_only=True).eval()
    assert torch.equal(loaded(batch.weights), task(batch.weights))


def test_probes_of_images_start_as_noise_of_their_shape(one_cnn):
    task, _ = train(INRClassification(GRAPH, probes=5), data(one_cnn))
    (inputs,) = probes_of(task).learned_inputs()
    assert inputs.shape == (5, 1, 28, 28) and inputs.std() > 0.5


def test_probes_start_at_images_of_the_kind_that_networks_are_for(one_cnn, cnns, tmp_path):
    pixels = np.random.default_rng(0).random((9, 28, 28), dtype=np.float32)
    np.save(tmp_path / "images.npy", pixels)
    images = ArrayImages(tmp_path / "images.npy")
    for path in (one_cnn, cnns):
        task = INRClassification(FAST, probes=4)
        task.build(data(path, images=images))
        (inputs,) = probes_of(task).learned_inputs()
        gaps = (inputs.unsqueeze(1) - (2 * torch.from_numpy(pixels) - 1).unsqueeze(1)).abs().amax((2, 3, 4))
        assert (gaps.amin(1) < 0.05).all() and len(gaps.argmin(1).unique()) == 4
    np.save(tmp_path / "coloured.npy", np.repeat(pixels[..., None], 3, axis=3))
    coloured = data(one_cnn, images=ArrayImages(tmp_path / "coloured.npy"))
    with pytest.raises(TaskError, match=r"do not run on inputs of shape \(3, 28, 28\)"):
        INRClassification(FAST, probes=4).rehearse(coloured)


@pytest.mark.parametrize("zoo", ["cnns", "one_cnn"])
def test_checkpoints_of_probes_at_images_of_another_size_than_noise(zoo, tmp_path, request, monkeypatch):
    path, images = request.getfixturevalue(zoo), noise_images(tmp_path, 9, 20, 24)
    loads = []
    monkeypatch.setattr(
        ArrayImages, "load", lambda self, load=ArrayImages.load: loads.append(1) or load(self)
    )
    first, again = data(path, images=images), data(path)
    rehearsed = INRClassification(SAMPLES, probes=4)
    rehearsed.rehearse(first)
    task, trainer = train(rehearsed, first)
    assert loads == [1], "read once a run"
    assert not any(parameter.requires_grad for parameter in probes_of(task).parameters())
    trainer.save_checkpoint(tmp_path / "c.ckpt")
    batch, task = next(iter(again.val_dataloader())), task.eval()
    loaded = INRClassification.load_from_checkpoint(tmp_path / "c.ckpt", weights_only=True).eval()
    assert torch.equal(loaded(batch.weights), task(batch.weights))
    alone = (
        [(spec, {n: w[:1] for n, w in weights.items()}) for spec, weights in batch.weights[:1]]
        if (zoo == "cnns")
        else {n: w[:1] for n, w in batch.weights.items()}
    )
    assert torch.allclose(loaded(alone)[0], task(batch.weights)[0], atol=1e-6)
    untrained = INRClassification(SAMPLES, probes=4)
    metrics = [
        trainer.validate(
            untrained, datamodule=again, ckpt_path=tmp_path / "c.ckpt", verbose=False, weights_only=True
        ),
        trainer.validate(task, datamodule=first, verbose=False),
    ]
    assert metrics[0] == metrics[1]
    with pytest.raises(TaskError, match=r"probes is 10, but there are only 9 images.*\n.*data.images"):
        INRClassification(SAMPLES, probes=10).rehearse(first)


@pytest.mark.filterwarnings("ignore:Checkpoint directory")
def test_a_killed_run_with_probes_at_images_resumes(cnns, tmp_path):
    images = noise_images(tmp_path, 9, 20, 20)
    assert_resumes(
        lambda: INRClassification(SAMPLES, probes=3),
        lambda: data(cnns, images=images),
        tmp_path / "checkpoints",
        {"every_n_train_steps": 2},
        killed_at=3,
        epochs=2,
    )


def test_networks_with_other_numbers_of_classes_are_refused_early(tmp_path):
    forwards = [mixed_zoo.CNNS[0], replace(mixed_zoo.CNNS[1], arguments={"classes": 4})]
    path = str(mixed_zoo.build(tmp_path / "z.h5", forwards).path)
    INRClassification(GRAPH, probes=2).rehearse(data(path))
    with pytest.raises(TaskError, match="different answers: 3 numbers .*SmallCNN.*4 for one of .*SmallCNN"):
        INRClassification(SAMPLES, probes=2).rehearse(data(path))


def test_networks_without_finite_answers_are_read(cnns):
    """Finite weights may overflow in the network; the others of a batch learn all the same."""
    task = INRClassification(SAMPLES, probes=2)
    task.build(data(cnns))
    spec, weights = next(iter(data(cnns).val_dataloader())).weights[0]
    before = task([(spec, weights)])
    broken = {name: torch.cat([tensor[:1] * 1e30, tensor[1:]]) for name, tensor in weights.items()}
    found = task([(spec, broken)])
    assert found.isfinite().all() and torch.allclose(found[1:], before[1:], atol=1e-6)
    found.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in task.parameters())
    module = ForwardDefinition("wsl.models:SmallCNN", {"channels": [2], "classes": 3}).build()
    with torch.no_grad():
        module.dense.weight[0, 0] = float("nan")
    with pytest.raises(TaskError, match=r"not finite: dense.weight\. Nothing"):
        predict_network(task, module, torch.rand(1, 1, 28, 28))


def test_a_trained_model_probes_architectures_that_it_has_not_seen(sirens):
    task, trainer = train(INRClassification(GRAPH, probes=3), data(sirens[:2]))
    zoo = Zoo.open(sirens[2])
    unseen = [(zoo.spec, zoo.weights([0, 1]))]
    with pytest.raises(TaskError, match="nothing says how networks of this architecture run"):
        task(unseen)
    assert "test/accuracy" in trainer.test(task, datamodule=data(sirens[2:]), verbose=False)[0]
    assert task.eval()(unseen).shape == (2, 3)


def test_a_network_of_ones_own_is_probed(sirens):
    task, _ = train(INRClassification(GRAPH, probes=3), data(sirens[:2]))
    task.eval()
    module = Siren(2, (4, 4), 1)
    found = predict_network(task, module, coordinate_grid((3, 3)))
    assert found["probabilities"].shape == (3,)
    with torch.no_grad():
        for parameter in probes_of(task).parameters():
            parameter.add_(torch.randn_like(parameter))
    again = predict_network(task, module, coordinate_grid((3, 3)))
    assert not torch.equal(found["probabilities"], again["probabilities"])
    with pytest.raises(TaskError, match="nothing says"):
        task([(wsl.trace(module, coordinate_grid((3, 3))), {})])
    faster = Siren(2, (4, 4), 1, w0=60.0)
    faster.load_state_dict(module.state_dict())
    other = predict_network(task, faster, coordinate_grid((3, 3)))
    assert not torch.equal(other["probabilities"], again["probabilities"]), "run as the network before"
    with pytest.raises(SpecError, match="does not run on the inputs of these probes"):
        predict_network(task, Siren(3, (4, 4), 1), coordinate_grid((2, 2, 2)))


@pytest.mark.parametrize(
    ("forwards", "message"),
    [
        (
            [mixed_zoo.CNNS[0], replace(mixed_zoo.CNNS[1], arguments={"in_channels": 2, "classes": 3})],
            r"different inputs: those of wsl.models:SmallCNN with \{.*'in_channels': 2.*\(1, 28, 28\)",
        ),
        (
            [
                replace(tiny_zoo.FORWARD, arguments={**tiny_zoo.FORWARD.arguments, "w0": w0})
                for w0 in (30.0, 20.0)
            ],
            "equal specifications run differently",
        ),
        ([tiny_zoo.FORWARD, mixed_zoo.CNNS[0]], "different inputs"),
    ],
    ids=["channels", "frequency", "kind"],
)
def test_networks_that_cannot_be_probed_together_are_refused_early(tmp_path, forwards, message):
    path = mixed_zoo.build(tmp_path / "z.h5", forwards).path
    with pytest.raises(TaskError, match=message):
        INRClassification(GRAPH, probes=2).rehearse(data([str(path)]))


def test_networks_that_differ_in_training_only_are_probed_together(tmp_path):
    forwards = [
        ForwardDefinition("wsl.models:ModelZooCNN", {"dropout": dropout, "classes": 3})
        for dropout in (0.1, 0.3)
    ]
    path = mixed_zoo.build(tmp_path / "z.h5", forwards, each=12).path
    task, together = INRClassification(GRAPH, probes=2), data([str(path)])
    task.build(together)
    batch = next(iter(together.val_dataloader()))
    assert task(batch.weights).shape == (len(batch.labels), together.classes)


def test_zoos_that_do_not_say_how_networks_run(tmp_path, one_cnn, monkeypatch):
    with monkeypatch.context() as patch:
        patch.delattr("wsl.models.SmallCNN.example_inputs")
        with pytest.raises(TaskError, match="SmallCNN has no example_inputs"):
            INRClassification(GRAPH, probes=2).rehearse(data(one_cnn))
    monkeypatch.setattr(
        ZooDataModule,
        "forward_definitions",
        property(lambda self: [(self.spec, ForwardDefinition("unknown:unknown"))]),
    )
    with pytest.raises(TaskError, match="cannot be run: This zoo does not say how"):
        INRClassification(GRAPH, probes=2).rehearse(data(one_cnn))


def test_encoders_that_cannot_read_several_architectures_or_probes(sirens):
    with pytest.raises(TaskError, match=r"ProbeGen reads one architecture only.*\n.*Set model.probes, or"):
        INRClassification(GENERATED).rehearse(data(sirens))
    with pytest.raises(TaskError, match="StatNet has no probe features"):
        INRClassification(StatNet, probes=2).rehearse(data(sirens))
