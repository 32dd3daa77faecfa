"""Zoos of networks that all differ, like those of the CNN Wild Park: architectures, training, build, use."""

import numpy as np
import pytest
import torch
import yaml
from test_classifier_build import build
from torch.nn import functional as F

import wsl
from wsl.cli import main
from wsl.data import MixedBatch, ZooDataModule
from wsl.zoo import ForwardDefinition, ShardedBuild, Zoo, ZooError, verify_zoo
from wsl.zoo.classifiers import ParkCnns, TrainingRecipe
from wsl.zoo.classifiers._architecture import Task
from wsl.zoo.training import StackedDropout

TASK = Task(2, (9, 8), 3)
SMALL = {
    "architecture": ParkCnns(channels=[4, 8], kernel_size=3, first_stride=4),
    "recipe": TrainingRecipe(batch_size=16, epochs=2, checkpoints=[0]),
    "networks": 10,
    "limit": 60,
}
WIRED = ForwardDefinition(
    "wsl.models:ParkCNN",
    {
        "channels": [2, 4, 6, 3, 5],
        "kernel_size": [3, 5, 3, 7],
        "activation": ["relu", "tanh", "leaky_relu", "sigmoid"],
        "stride": [2, 1, 1, 1],
        "padding": [1, 2, 1, 3],
        "residual": [-1, -1, 0, 0],
        "classes": 3,
    },
)


def draws(architecture, count=200, task=TASK):
    return [architecture.draw(task, np.random.default_rng([7, i])) for i in range(count)]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    return build(tmp_path_factory.mktemp("zoo") / "z.h5", **SMALL)


def test_layers_differ_in_all_that_they_can():
    drawn = [forward.arguments for forward in draws(ParkCnns())]
    for name, choices in (
        ("channels", {4, 8, 16, 32}),
        ("kernel_size", {3, 5, 7}),
        ("activation", {"relu", "gelu", "tanh", "sigmoid", "leaky_relu"}),
        ("stride", {1}),
        ("residual", {-1, 0, 1, 2}),
    ):
        start = int(name == "channels")
        found = [len(set(arguments[name][start:])) for arguments in drawn]
        assert {value for arguments in drawn for value in arguments[name][start:]} == choices
        assert max(found) > 1 or len(choices) == 1
    depths = [len(arguments["kernel_size"]) for arguments in drawn]
    assert np.bincount(depths)[2:] == pytest.approx([50] * 4, abs=25)
    assert all(arguments["padding"] == [k // 2 for k in arguments["kernel_size"]] for arguments in drawn)
    third = [arguments["residual"][2] for arguments in drawn if len(arguments["kernel_size"]) > 2]
    assert np.mean([source >= 0 for source in third]) == pytest.approx(0.5, abs=0.12)


@pytest.mark.parametrize("architecture", [ParkCnns(), ParkCnns(first_stride=[2, 4], stride=[1, 2])])
def test_all_that_is_drawn_runs_and_has_a_name_of_its_own(architecture):
    drawn = draws(architecture, 40)
    names = {architecture.name(forward) for forward in drawn}
    assert len(names) == len({str(forward.to_dict()) for forward in drawn}) > 35
    for forward in drawn:
        module, columns = forward.build(), architecture.columns(forward)
        assert module(torch.zeros(2, 2, 9, 8)).shape == (2, 3)
        assert columns["parameters"] == sum(p.numel() for p in module.parameters())
        assert columns["depth"] == len(module.layers)
        assert columns["skips"] == sum(source >= 0 for source in module.residual)
        assert columns["channels"].split("-")[-1] == str(module.fc.in_features)


def test_depths_can_be_kept_apart_and_skips_left_out():
    assert {len(f.arguments["stride"]) for f in draws(ParkCnns(depth=[4, 5]))} == {4, 5}
    plain = [forward.arguments for forward in draws(ParkCnns(skips=False))]
    assert {source for arguments in plain for source in arguments["residual"]} == {-1}
    others = [forward.arguments for forward in draws(ParkCnns())]
    assert [arguments["channels"] for arguments in plain] == [arguments["channels"] for arguments in others]


def test_shared_architectures_depend_on_their_own_seed():
    first, again, other = (
        {str(f.to_dict()) for f in draws(ParkCnns(distinct=5, seed=seed), 60)} for seed in (0, 0, 1)
    )
    assert len(first) == 5
    assert first == again
    assert not first & other


@pytest.mark.parametrize(
    "arguments",
    [
        {"depth": []},
        {"depth": [0]},
        {"channels": [4, -1]},
        {"kernel_size": [3, 4]},
        {"stride": 0},
        {"first_stride": [0]},
        {"activation": "sine"},
        {"distinct": 0},
        {"seed": -1},
    ],
)
def test_unusable_arguments_are_refused(arguments):
    with pytest.raises(ZooError, match=next(iter(arguments))):
        ParkCnns(**arguments)


@pytest.mark.parametrize("activation", ["gelu", "none", "relu", "silu", "tanh"])
def test_gradients_equal_those_of_the_module(activation):
    forward = ForwardDefinition(WIRED.factory, {**WIRED.arguments, "activation": [activation] * 4})
    stack, module = ParkCnns().stack(forward), forward.build().double()
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(3, stack.parameters, generator=generator, dtype=torch.float64) * 0.3
    pixels = torch.rand(15, 9, 8, 2, generator=generator, dtype=torch.float64)
    labels = torch.randint(3, (3, 5), generator=generator)
    taken = np.random.default_rng(0).integers(0, 15, (3, 5))
    dropout = StackedDropout([0.0] * 3, [[seed] for seed in range(3)])
    found = stack.gradient(rows, stack.batch(pixels, taken), labels, dropout)
    logits = stack.logits(stack.tensors(rows), stack.batch(pixels, taken))
    for network in range(3):
        torch.nn.utils.vector_to_parameters(rows[network], module.parameters())
        outputs = module(pixels[taken[network]].permute(0, 3, 1, 2))
        assert (outputs - logits[network]).abs().max() <= 1e-12
        loss = F.cross_entropy(outputs, labels[network])
        wanted = torch.cat([part.flatten() for part in torch.autograd.grad(loss, module.parameters())])
        assert (found[network] - wanted).abs().max() <= 1e-12
        assert wanted.abs().max() > 1e-3


def test_dropout_reaches_every_hidden_layer():
    stack = ParkCnns().stack(WIRED)
    rows = torch.randn(2, stack.parameters, generator=torch.Generator().manual_seed(0)) * 0.3
    images = stack.batch(
        torch.rand(5, 9, 8, 2, generator=torch.Generator().manual_seed(1)), np.ones((2, 5), int)
    )
    labels = torch.zeros(2, 5, dtype=torch.int64)
    some, others = (
        stack.gradient(rows, images, labels, StackedDropout(rates, [[0], [1]]))
        for rates in ([0.5, 0.0], [0.0, 0.0])
    )
    assert all(
        (part[0] != stack.tensors(others)[name][0]).any() for name, part in stack.tensors(some).items()
    )
    assert torch.equal(some[1], others[1])


def test_rows_have_the_specification_of_their_architecture(zoo):
    columns = zoo.metadata
    assert {"depth", "parameters", "skips", "channels", "kernel_size", "stride", "activation"} <= set(columns)
    assert len(zoo.architectures) > 7
    assert verify_zoo(zoo.path).ok
    assert len(zoo.where("depth <= 3")) == (columns["depth"] <= 3).sum() > 0
    for architecture in list(zoo.architectures.values())[::2]:
        module, own = architecture.forward.build(), architecture.metadata
        inputs = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        assert architecture.spec == wsl.trace(module, inputs)
        wsl.verify(module, architecture.spec, inputs)
        assert set(own["depth"]) == {len(module.layers)}
        assert set(own["activation"]) == {"-".join(architecture.forward.arguments["activation"])}
        assert own["parameters"][0] == architecture.matrix([0]).shape[1]


def test_workers_and_interruptions_do_not_change_the_file(zoo, tmp_path, monkeypatch):
    assert build(tmp_path / "w.h5", workers=3, **SMALL).path.read_bytes() == zoo.path.read_bytes()
    write, stored = ShardedBuild.write, []

    def interrupted(self, shard, weights, metadata):
        if len(stored) == 5:
            raise KeyboardInterrupt
        write(self, shard, weights, metadata)
        stored.append(shard)

    monkeypatch.setattr(ShardedBuild, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "z.h5", **SMALL)

    def counted(self, shard, weights, metadata):
        assert shard not in stored, "trained twice"
        write(self, shard, weights, metadata)

    monkeypatch.setattr(ShardedBuild, "write", counted)
    assert build(tmp_path / "z.h5", **SMALL).path.read_bytes() == zoo.path.read_bytes()


def test_networks_of_one_architecture_train_together(tmp_path, monkeypatch):
    sizes = []
    write = ShardedBuild.write

    def counted(self, shard, weights, metadata):
        sizes.append(len(set(metadata["model"])))
        write(self, shard, weights, metadata)

    monkeypatch.setattr(ShardedBuild, "write", counted)
    nets = ParkCnns(distinct=2, channels=[4, 8], kernel_size=3, first_stride=4)
    zoo = build(tmp_path / "z.h5", **{**SMALL, "architecture": nets})
    assert len(zoo.architectures) == len(sizes) == 2
    assert sum(sizes) == 10


def test_the_command_takes_the_class_s_own_defaults(tmp_path):
    config = {
        "source": {"class_path": "wsl.zoo.images.DigitsImages"},
        "networks": 10,
        "limit": 50,
        "architecture": {"class_path": "wsl.zoo.classifiers.ParkCnns", "init_args": {"first_stride": 4}},
        "recipe": {"epochs": 0},
        "progress": False,
    }
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    out = str(tmp_path / "z.h5")
    assert main(["zoo", "build-classifiers", "--config", str(tmp_path / "c.yaml"), "--out", out]) == 0
    provenance = Zoo.open(out).provenance["architecture"]
    assert provenance == {"class": "ParkCnns", **vars(ParkCnns(first_stride=4))}


def test_the_zoo_gives_mixed_batches(zoo):
    data = ZooDataModule(str(zoo.path), batch_size=8, label="depth")
    data.setup("fit")
    assert data.mixed and data.classes == 6
    batches = list(data.train_dataloader())
    assert all(isinstance(batch, MixedBatch) for batch in batches)
    rows = torch.cat([batch.rows for batch in batches]).numpy()
    assert sorted(rows) == zoo.split("train").tolist()
    labels = torch.cat([batch.labels for batch in batches]).numpy()
    assert (labels == zoo.metadata["depth"][rows]).all()
