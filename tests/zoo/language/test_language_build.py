"""Building zoos of language models: columns, populations, resuming, divergence, encoders, commands."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
import yaml
from jsonargparse import ArgumentParser
from language_zoos import RECIPE, build
from population_suite import DrawnPopulationSuite
from torch.nn import functional as F

import wsl
from wsl.cli import main
from wsl.data import ZooDataModule
from wsl.encoders import GraphMetanetwork, UniversalNeuralFunctional
from wsl.zoo import ZooError, verify_zoo
from wsl.zoo.language import (
    CharRecurrents,
    CharTransformers,
    LanguageRecipe,
    PydocText,
    Range,
    TextFile,
    build_language_zoo,
)

CONFIGS = sorted((Path(__file__).parents[3] / "configs" / "zoo").glob("language_*.yaml"))
TRANSFORMERS = CharTransformers(d_model=8, blocks=1, activation=["gelu", "relu"])


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    return build(tmp_path_factory.mktemp("zoo") / "z.h5")


@pytest.fixture(scope="module")
def transformers(tmp_path_factory):
    return build(tmp_path_factory.mktemp("zoo") / "t.h5", architecture=TRANSFORMERS)


class TestPopulation(DrawnPopulationSuite):
    builder, build, recipe = build_language_zoo, staticmethod(build), RECIPE
    drawn_last: ClassVar = {"batch_size": 4, "steps": 8}
    one_stack: ClassVar = {"networks": 1}
    drawn = ("learning_rate", "optimizer", "train_characters", "cell")
    diverging: ClassVar = {
        "recipe": LanguageRecipe(learning_rate=[1e-3, 1e30], optimizer="sgd", steps=3, checkpoints=[0]),
        "architecture": TRANSFORMERS,
    }


def test_rows_are_checkpoints_with_all_that_was_drawn(zoo):
    columns = zoo.metadata
    assert set(columns) == {
        "model", "step", "cell", "hidden", "layers", "embedding", "learning_rate", "weight_decay", "dropout",
        "optimizer", "initialisation", "initial_scale", "train_fraction", "batch_size", "steps",
        "train_characters", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "diverged",
    }  # fmt: skip
    assert set(columns["model"]) == set(range(12))
    for model in range(12):
        rows = columns["model"] == model
        assert columns["step"][rows].tolist() == [0, 3, columns["steps"][rows][0]]
        sequences = max(1, round(columns["train_fraction"][rows][0] * 719))
        assert columns["train_characters"][rows][0] == 10 * sequences
    for name, drawn in (("optimizer", 4), ("initialisation", 2), ("batch_size", 2), ("learning_rate", 12)):
        assert len(set(columns[name])) == drawn
    assert set(zoo.architectures) == {"lstm-6-1-4", "gru-6-1-4"}
    assert verify_zoo(zoo.path).ok


@pytest.mark.parametrize("which", ["zoo", "transformers"])
def test_stored_networks_run_and_have_the_stored_figures(which, request):
    found = request.getfixturevalue(which)
    vocabulary = found.provenance["vocabulary"]
    text = PydocText().load()[7200:8000]  # the last tenth of what the networks were built on
    codes = torch.tensor([vocabulary.index(character) for character in text])
    sequences = codes.unfold(0, 11, 10)
    for architecture in found.architectures.values():
        module = architecture.forward.build()
        for place in range(0, len(architecture), 4):
            weights = {name: tensor[0] for name, tensor in architecture.weights([place]).items()}
            with torch.no_grad():
                outputs = torch.func.functional_call(module, weights, sequences[:, :-1])
            loss = F.cross_entropy(outputs.flatten(0, 1), sequences[:, 1:].flatten())
            assert architecture.metadata["test_loss"][place] == pytest.approx(loss.item(), rel=1e-5)
            right = (outputs.argmax(-1) == sequences[:, 1:]).double().mean().item()
            assert architecture.metadata["test_accuracy"][place] == pytest.approx(right, abs=3 / 800)


@pytest.mark.parametrize("which", ["zoo", "transformers"])
def test_specifications_are_those_of_the_networks(which, request):
    for architecture in request.getfixturevalue(which).architectures.values():
        tokens = torch.arange(20).view(2, 10)
        report = wsl.verify(architecture.forward.build(), architecture.spec, tokens)
        hidden = {name for name, axis in architecture.spec.axes.items() if axis.kind == "hidden"}
        assert hidden and hidden == set(report.axes) and not report.unlisted
        assert report.worst_error < 1e-9


@pytest.mark.parametrize("which", ["zoo", "transformers"])
@pytest.mark.parametrize("encoder", [GraphMetanetwork, UniversalNeuralFunctional])
def test_encoders_read_the_networks(which, encoder, request):
    data = ZooDataModule(
        str(request.getfixturevalue(which).path), batch_size=8, label="test_loss", where="optimizer != 'sgd'"
    )
    data.setup("fit")
    ((spec, weights),) = next(iter(data.train_dataloader())).weights[:1]
    network = encoder(spec, 4, layers=1)
    features = network(weights)
    assert torch.cat([tensor.flatten() for tensor in torch_leaves(features)]).isfinite().all()


def torch_leaves(value):
    """All tensors in nested containers."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    elif not isinstance(value, list | tuple):
        value = list(vars(value).values())
    return [leaf for part in value if part is not None for leaf in torch_leaves(part)]


def test_networks_learn(tmp_path):
    recipe = LanguageRecipe(learning_rate=0.01, steps=150, checkpoints=[0], batch_size=8)
    found = build(
        tmp_path / "z.h5",
        networks=10,
        recipe=recipe,
        limit=50_000,
        length=16,
        evaluated=100,
        architecture=CharRecurrents(["rnn", "gru"], hidden=24, embedding=8),
    )
    loss, step = found.metadata["test_loss"], found.metadata["step"]
    uniform = np.log(len(found.provenance["vocabulary"]))
    assert np.abs(loss[step == 0] - uniform).max() < 0.4
    assert (loss[step == 150] < 3.1).all()
    assert (found.metadata["test_accuracy"][step == 150] > 0.2).all()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"length": 0}, "length is 0"),
        ({"test_fraction": 1.0}, "test_fraction is 1.0"),
        ({"limit": 100}, "few for sequences of 10"),
        ({"source": TextFile("nowhere.txt")}, "nowhere.txt cannot be read"),
    ],
)
def test_unusable_arguments_write_nothing(tmp_path, changes, said):
    with pytest.raises(ZooError, match=said):
        build(tmp_path / "z.h5", **changes)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (LanguageRecipe, {"steps": -1}),
        (CharRecurrents, {"cell": "gate"}),
        (CharRecurrents, {"hidden": [8, 0]}),
        (CharTransformers, {"heads": 3}),
        (CharTransformers, {"activation": "tanh"}),
    ],
)
def test_unusable_recipes_and_architectures_are_refused(kind, arguments):
    with pytest.raises(ZooError, match=next(iter(arguments))):
        kind(**arguments)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configuration_files_hold_the_builder_s_arguments(path):
    parser = ArgumentParser()
    parser.add_function_arguments(build_language_zoo, skip={"out"})
    arguments = parser.instantiate(parser.parse_object(yaml.safe_load(path.read_text())))
    assert isinstance(arguments.source, PydocText)
    assert arguments.recipe.learning_rate == Range(1e-4, 3e-2, log=True)
    assert arguments.networks >= 150
    assert len(arguments.recipe.stored(1000)) == 5


def test_the_command_builds_from_a_text_of_one_s_own(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("so sähe ein Text aus. " * 200, encoding="latin-1")
    source = ["--source", "wsl.zoo.language.TextFile", "--source.init_args.path", str(tmp_path / "text.txt")]
    source += ["--source.init_args.encoding", "latin-1"]
    options = [*source, "--networks", "10", "--recipe.steps", "3", "--length", "20", "--limit", "2000"]
    options += ["--architecture.init_args.heads", "2", "--architecture.init_args.blocks", "1"]
    out = str(tmp_path / "z.h5")
    config = str(next(path for path in CONFIGS if "transformer" in path.name))
    assert main(["zoo", "build-language", "--config", config, *options, "--out", out]) == 0
    captured = capsys.readouterr()
    assert "20 networks" in captured.out
    assert "10/10 networks" in captured.err and "nats" in captured.err
