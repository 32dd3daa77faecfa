"""Faulty input of training by the command line: one paragraph, exit code 2, and nothing written."""

import numpy as np
import pytest
import tiny_zoo
import torch
from small_runs import fit

from wsl.cli import main
from wsl.zoo import Architecture, Shard, ShardedBuild, split_by_model

pytestmark = pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model.encoder", "wsl.encoders.Nope"], "model.encoder: there is no class wsl.encoders.Nope"),
        (["--model.encoder", "torch.nn.Linear"], "torch.nn.Linear is no Encoder"),
        (["--model", "Nope"], "model: there is no class Nope"),
        (["--model.encoder.channels", "many"], "model.encoder.channels: expected int, got many"),
        (["--model.encoder.width", "3"], "there is no option width"),
        (["--data.path", "none.h5"], "python -m wsl zoo build"),
        (["--data.label", "digit"], "no metadata column 'digit'"),
        (["--data.label", "score"], "does not number classes"),
        (["--trainer.speed", "9"], "unrecognized arguments: --trainer.speed"),
        (["--data.batch_size", "0"], "batch_size is 0; expected at least 1"),
        (["--data.predict_split", "other", "--data.seed", "-1"], "seed is -1; expected at least 0"),
        (["--data.augmentations+=wsl.augment.AddNoise", "--data.augmentations.scale", "-1"], "scale is -1.0"),
        (["--data.augmentations+=wsl.augment.Nope"], "augmentations: there is no class wsl.augment.Nope"),
        (["--model.encoder.channels", "0"], "an encoder needs at least one channel"),
        (["--model.encoder.layers", "-1"], "got layers=-1"),
        (["--model.probes", "-1"], "probes is -1"),
        (["--model.encoder", "wsl.encoders.FlatMLP", "--model.probes", "4"], "FlatMLP has no probe features"),
        (["--model.optimizer", "AdamW", "--model.optimizer.lr", "-1"], "Invalid learning rate: -1"),
        (["--model.schedule", "WarmupCosine", "--model.schedule.warmup", "2"], "warmup 2.0"),
        (["--trainer.max_epochs", "-1"], "the run has no end"),
        (["--trainer.accelerator", "abacus"], "abacus"),
        (["--monitor", "val/f1"], "monitor is val/f1; choose one of train/loss"),
        (["--threads", "0"], "threads is 0"),
        (["--name", "../a"], "name is '../a'"),
        (["--runs", __file__], "is no folder"),
        (["--config", "none.yaml"], "there is no file"),
        (["--ckpt_path", "last"], "there is no checkpoint runs/a/checkpoints/last.ckpt"),
        (["--trainer.max_epoch", "2"], "unrecognized arguments: --trainer.max_epoch"),
        (["--runs", "/proc/nowhere"], "/proc/nowhere"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_faulty_input_is_one_paragraph_and_writes_nothing(zoo_path, folder, capsys, arguments, message):
    assert fit(zoo_path, *arguments) == 2
    text = capsys.readouterr().err.strip()
    assert message in text and "\n\n" not in text and "Traceback" not in text and len(text) < 700
    assert not list(folder.iterdir())


def test_evaluation_of_nothing(folder, capsys):
    for command in ("validate", "test", "predict"):
        assert main([command]) == 2
        assert "give --name NAME" in capsys.readouterr().err


def test_wandb_that_does_not_start_leaves_nothing(zoo_path, folder, capsys, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "nonsense")
    assert fit(zoo_path) == 2
    assert "WANDB_MODE is 'nonsense'" in capsys.readouterr().err
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setattr("wandb.init", lambda **_: 1 / 0)
    assert fit(zoo_path) == 2
    assert "Log in with `wandb login`" in capsys.readouterr().err
    assert not (folder / "runs" / "a").exists()


def test_configuration_with_an_unknown_class(zoo_path, folder, capsys):
    text = "model:\n  class_path: wsl.tasks.Nope\ndata:\n  class_path: wsl.data.ZooDataModule\n"
    (folder / "c.yaml").write_text(text)
    assert main(["fit", "--config", "c.yaml"]) == 2
    assert "model: there is no class wsl.tasks.Nope" in capsys.readouterr().err


def test_configuration_that_is_no_text(folder, capsys):
    (folder / "c.yaml").write_bytes(b"\x00\xff")
    assert main(["fit", "--config", "c.yaml"]) == main(["zoo", "build", "--config", "c.yaml"]) == 2
    assert capsys.readouterr().err.count("no text in UTF-8") == 2
    assert [path.name for path in folder.iterdir()] == ["c.yaml"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": np.zeros(6, np.int64)}, "makes 1 of them"),
        ({"label": np.arange(6) * 10**15}, "expected 2 to 1000000"),
        ({"label": np.array(list("abcabc"))}, "holds text such as 'a'"),
        ({}, "has no split 'val'"),
    ],
    ids=["one class", "gaps", "text", "split"],
)
def test_zoos_without_what_training_needs(folder, capsys, change, message):
    weights = {name: torch.zeros(6, *tensor.shape) for name, tensor in tiny_zoo.SPEC.tensors.items()}
    columns = {"label": np.arange(6) % 2, "image": np.arange(6), **change}
    made = ShardedBuild(
        "z.h5",
        architectures=[Architecture("Siren", tiny_zoo.SPEC, tiny_zoo.FORWARD)],
        shards=[Shard(6)],
        provenance={},
    )
    parts = {"train": 0.5, "val" if change else "rest": 0.5}
    with made as build:
        build.write(0, weights, columns)
        build.pack(split_by_model(columns["image"], parts, 0))
    assert fit("z.h5") == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["z.h5"]
