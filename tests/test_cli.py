"""The command line in this process: exit codes, messages, files, and runs that go on where they stopped."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_zoo
import torch

import wsl
from wsl.cli import COMMANDS, main
from wsl.cli.training import checkpoint_path, differences, run_config
from wsl.report import learning_curves, read_predictions
from wsl.zoo import Zoo

# What Lightning and jsonargparse say of themselves, and of a folder that a resumed run uses again.
pytestmark = [
    pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory"),
    pytest.mark.filterwarnings("ignore:Experiment logs directory"),
]
SMALL = ["--model.encoder.channels", "8", "--model.encoder.layers", "1", "--trainer.accelerator", "cpu"]


@pytest.fixture(scope="module")
def zoo_path(tmp_path_factory):
    return str(tiny_zoo.build(tmp_path_factory.mktemp("zoo") / "tiny.h5").path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    return tmp_path


def fit(zoo_path, *options, name="a", epochs=2):
    data = ["--data", "ZooDataModule", "--data.path", zoo_path, "--data.batch_size", "16"]
    limit = ["--trainer.max_epochs", str(epochs)]
    return main(["fit", "--model", "INRClassification", *data, *SMALL, *limit, "--name", name, *options])


def python(*arguments):
    """A fresh process that finds the package in any folder."""
    environment = {**os.environ, "PYTHONPATH": str(Path(wsl.__file__).parents[1])}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)


def weights(path):
    return torch.load(path, weights_only=True)["state_dict"]


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_a_run_from_training_to_figures(zoo_path, folder, capsys):
    assert fit(zoo_path) == 0
    run = folder / "runs" / "a"
    assert {"best.ckpt", "last.ckpt"} == {path.name for path in (run / "checkpoints").iterdir()}
    assert (run / "config.yaml").is_file() and json.loads((run / "fit.json").read_text())["val/loss"] > 0
    assert learning_curves(run)["val/accuracy"][0].tolist() == [1, 2]
    hparams = (run / "metrics" / "version_0" / "hparams.yaml").read_text()
    assert Zoo.open(zoo_path).fingerprint in hparams and "layers.1.weight" in hparams
    assert main(["validate", "--name", "a"]) == main(["test", "--name", "a"]) == 0
    metrics = json.loads((run / "test.json").read_text())
    assert main(["predict", "--name", "a"]) == 0
    found = read_predictions(run)
    assert found.rows.tolist() == Zoo.open(zoo_path).split("test").tolist()
    assert found.accuracy == pytest.approx(metrics["test/accuracy"])
    assert main(["report", "runs/a"]) == 0
    shown = capsys.readouterr().out
    for name in ("training_curves.png", "confusion.png", "embeddings.png"):
        assert (run / "figures" / name).stat().st_size > 5000 and name in shown


def test_training_goes_on_from_last(zoo_path, folder, capsys):
    assert fit(zoo_path, name="whole", epochs=3) == 0
    whole = folder / "runs" / "whole" / "checkpoints"
    script = """
import os, signal, sys
from wsl.cli import main
from wsl.tasks import INRClassification
def stop(self, *_):
    if self.current_epoch == 2:
        os.kill(os.getpid(), signal.SIGKILL)
INRClassification.on_train_epoch_start = stop
main(sys.argv[1:])
"""
    arguments = ["fit", "--model", "INRClassification", "--data", "ZooDataModule", "--data.path", zoo_path]
    arguments += ["--data.batch_size", "16", *SMALL, "--trainer.max_epochs", "3", "--name", "killed"]
    killed = python("-c", script, *arguments)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    kept = folder / "runs" / "killed" / "checkpoints"
    assert not equal(weights(kept / "last.ckpt"), weights(whole / "last.ckpt"))
    assert fit(zoo_path, "--ckpt_path", "last", name="killed", epochs=3) == 0
    assert equal(weights(kept / "last.ckpt"), weights(whole / "last.ckpt"))
    assert equal(weights(kept / "best.ckpt"), weights(whole / "best.ckpt"))
    assert learning_curves(kept.parent)["train/loss"][0].tolist() == [1, 2, 3]


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
        (["--config", "none.yaml"], "there is no file"),
        (["--ckpt_path", "last"], "there is no checkpoint runs/a/checkpoints/last.ckpt"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_faulty_input_is_one_paragraph_and_writes_nothing(zoo_path, folder, capsys, arguments, message):
    assert fit(zoo_path, *arguments) == 2
    text = capsys.readouterr().err.strip()
    assert message in text and "\n\n" not in text and "Traceback" not in text and len(text) < 700
    assert not list(folder.iterdir())


def test_configuration_with_an_unknown_class(zoo_path, folder, capsys):
    text = "model:\n  class_path: wsl.tasks.Nope\ndata:\n  class_path: wsl.data.ZooDataModule\n"
    (folder / "c.yaml").write_text(text)
    assert main(["fit", "--config", "c.yaml"]) == 2
    assert "model: there is no class wsl.tasks.Nope" in capsys.readouterr().err


def test_a_run_is_not_overwritten_nor_mixed_up(zoo_path, folder, capsys):
    assert fit(zoo_path, epochs=1) == 0
    before = weights("runs/a/checkpoints/last.ckpt")
    assert fit(zoo_path, epochs=1) == 2
    assert "runs/a has checkpoints already" in capsys.readouterr().err
    assert fit(zoo_path, "--ckpt_path", "last", "--model.encoder.channels", "16") == 2
    assert "model.encoder.channels is 16, the checkpoint has 8" in capsys.readouterr().err
    assert fit(zoo_path, "--ckpt_path", "last", "--data.batch_size", "8") == 2
    assert "batch_size was 16 and is 8" in capsys.readouterr().err
    assert equal(weights("runs/a/checkpoints/last.ckpt"), before)


def test_a_broken_checkpoint(zoo_path, folder, capsys):
    (folder / "bad.ckpt").write_bytes(b"no checkpoint")
    assert fit(zoo_path, "--ckpt_path", "bad.ckpt") == 2
    assert "bad.ckpt is no checkpoint" in capsys.readouterr().err


def test_offline_logging_to_weights_and_biases(zoo_path, folder, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(folder))
    assert fit(zoo_path, epochs=1) == 0
    assert list((folder / "runs" / "a" / "wandb").glob("offline-run-*/*.wandb"))


def test_zoo_info_and_verify(zoo_path, folder, capsys):
    assert main(["zoo", "info", zoo_path]) == main(["zoo", "verify", zoo_path]) == 0
    shown = capsys.readouterr().out
    assert "networks     120" in shown and "all 120 rows match" in shown
    damaged = bytearray(Path(zoo_path).read_bytes())
    value = Zoo.open(zoo_path).matrix([7]).tobytes()
    place = bytes(damaged).index(value)
    damaged[place] ^= 1
    (folder / "damaged.h5").write_bytes(damaged)
    assert main(["zoo", "verify", "damaged.h5"]) == 2
    assert "1 of 120 rows do not match their hash: 7." in capsys.readouterr().err
    for content in (b"", b"text", bytes(damaged)[: len(damaged) // 2]):
        (folder / "bad.h5").write_bytes(content)
        assert main(["zoo", "info", "bad.h5"]) == 2
        assert "bad.h5" in capsys.readouterr().err


def test_zoo_build(folder, capsys):
    np.savez("images.npz", images=np.random.default_rng(0).random((12, 6, 6)), labels=np.arange(12) % 2)
    build = ["zoo", "build", "--source", "wsl.zoo.inr.ArrayImages", "--recipe.steps", "3"]
    build += ["--progress", "false"]
    assert main([*build, "--source.path", "images.npz", "--out", "zoo.h5"]) == 0
    assert len(Zoo.open("zoo.h5")) == 12
    capsys.readouterr()
    assert main([*build, "--source.path", "none.npz", "--out", "other.h5"]) == 2
    assert main([*build, "--out", "other.h5"]) == 2
    assert main([*build, "--source.path", "images.npz", "--recipe.step", "3", "--out", "other.h5"]) == 2
    errors = capsys.readouterr().err
    assert "none.npz" in errors and "Traceback" not in errors
    assert not (folder / "other.h5").exists() and not (folder / "other.h5.build").exists()


def test_trace(folder, capsys):
    siren = ["trace", "wsl.models:Siren", "--arguments", '{"hidden": [6, 5]}', "--shape", "[[16, 2]]"]
    assert main([*siren, "--verify", "true"]) == 0
    assert capsys.readouterr().out.startswith(str(tiny_zoo.SPEC))
    for wrong in ("wsl.models:Nope", "wsl.models", "nowhere:Thing", "wsl.models:coordinate_grid"):
        assert main(["trace", wrong, "--arguments", '{"shape": [2, 2]}', "--shape", "[[16, 2]]"]) == 2
        assert wrong in capsys.readouterr().err


def test_report_of_nothing(folder, capsys):
    (folder / "empty").mkdir()
    assert main(["report", "none"]) == main(["report", "empty"]) == 2
    assert "python -m wsl fit" in capsys.readouterr().err


def test_usage(capsys):
    assert main([]) == 2 and main(["--help"]) == main(["--version"]) == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in COMMANDS)
    assert main(["conjure"]) == 2
    assert "there is no command 'conjure'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [*([name] for name in COMMANDS), *(["zoo", name] for name in ("build", "info", "verify"))]
)
def test_every_command_has_help(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage:") and len(shown) < 40_000
    assert "torch.nn.Linear" not in shown, "encoders are typed by their own base class"


def test_commands_that_need_no_training_do_not_load_lightning(zoo_path):
    script = "import sys; from wsl.cli import main; main(sys.argv[1:]); print('lightning' in sys.modules)"
    for arguments in (["zoo", "info", zoo_path], ["trace", "wsl.models:Siren", "--shape", "[[4, 2]]"]):
        done = python("-c", script, *arguments)
        assert done.stdout.strip().endswith("False"), done.stderr


def test_a_bug_is_not_called_a_faulty_input(monkeypatch):
    monkeypatch.setattr("wsl.cli.trace.run", lambda arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["trace"])


def test_exit_code_of_the_process():
    done = python("-m", "wsl", "conjure")
    assert done.returncode == 2 and done.stderr.startswith("wsl: there is no command")


def test_differences_ignore_what_one_side_leaves_out():
    stored = {"encoder": {"class_path": "A", "init_args": {"channels": 3, "layers": 2}}, "probes": 0}
    given = {"encoder": {"class_path": "A", "init_args": {"channels": 4}}, "probes": 0, "extra": 1}
    assert differences(stored, given) == ["model.encoder.channels is 4, the checkpoint has 3"]
    assert differences(stored, stored) == []


def test_run_config_is_read_only_when_nothing_else_says_the_model(folder):
    (folder / "runs" / "a").mkdir(parents=True)
    (folder / "runs" / "a" / "config.yaml").write_text("")
    best = ["--config", "runs/a/config.yaml", "--ckpt_path", "best"]
    assert run_config("test", ["--name", "a"]) == run_config("test", ["--name=a"]) == best
    assert run_config("test", ["--name", "a", "--ckpt_path", "last"]) == best[:2]
    assert run_config("fit", ["--name", "a"]) == run_config("test", ["--name", "a", "--config", "c"]) == []
    with pytest.raises(ValueError, match="there is no run 'b'"):
        run_config("test", ["--name", "b"])


def test_checkpoint_paths(tmp_path):
    saved = tmp_path / "checkpoints"
    saved.mkdir()
    assert checkpoint_path(None, tmp_path, "fit") is None
    (saved / "last.ckpt").touch()
    assert checkpoint_path("last", tmp_path, "fit") == str(saved / "last.ckpt")
    assert checkpoint_path(None, tmp_path, "test") is None
    with pytest.raises(ValueError, match="has checkpoints already"):
        checkpoint_path(None, tmp_path, "fit")
    with pytest.raises(ValueError, match=r"checkpoints of the run .*last\.ckpt"):
        checkpoint_path("best", tmp_path, "test")
