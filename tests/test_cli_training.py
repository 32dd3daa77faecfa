"""Training by the command line: a run's files, faulty input, and runs that go on where they stopped."""

import json
import signal

import pytest
import torch
from small_runs import SMALL, assert_goes_on_from_last, equal, fit, python, weights

from wsl.cli import main
from wsl.cli.training import checkpoint_path, differences, run_config
from wsl.report import learning_curves, read_predictions
from wsl.zoo import Zoo

# What Lightning and jsonargparse say of themselves, and of a folder that a resumed run uses again.
pytestmark = [
    pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory"),
    pytest.mark.filterwarnings("ignore:Experiment logs directory"),
]


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


def test_training_goes_on_from_last(zoo_path, folder, monkeypatch):
    run = assert_goes_on_from_last(zoo_path, folder, monkeypatch)
    assert learning_curves(run)["train/loss"][0].tolist() == [1, 2, 3]


def test_nothing_is_done_for_a_run_that_is_done(zoo_path, folder, caplog):
    assert fit(zoo_path) == 0
    run = folder / "runs" / "a"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    again = ["fit", "--config", "runs/a/config.yaml", "--name", "a", "--ckpt_path", "last"]
    with caplog.at_level("INFO", logger="wsl"):
        assert main(again) == 0
    assert "2 of 2 epochs are done" in caplog.text
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert main([*again, "--trainer.max_epochs", "3"]) == 0
    assert learning_curves(run)["train/loss"][0].tolist() == [1, 2, 3]


@pytest.mark.filterwarnings(
    "ignore:Be aware that when using `ckpt_path`, callbacks"
)  # Lightning, of patience
def test_early_stopping_is_not_undone_by_going_on(zoo_path, folder, caplog):
    stop = ["--patience", "0", "--mode", "min", "--monitor", "val/accuracy"]
    with caplog.at_level("INFO", logger="wsl"):
        assert fit(zoo_path, *stop, epochs=9) == 0
    assert "stopped early: val/accuracy did not improve" in caplog.text
    trained = learning_curves(folder / "runs" / "a")["train/loss"][0].tolist()
    assert len(trained) < 9
    with caplog.at_level("INFO", logger="wsl"):
        assert fit(zoo_path, *stop, "--ckpt_path", "last", epochs=9) == 0
    assert "early stopping ended it" in caplog.text
    assert learning_curves(folder / "runs" / "a")["train/loss"][0].tolist() == trained
    more = str(len(trained) + 1)
    free = [*stop, "--patience", "null", "--trainer.max_epochs", more]
    assert fit(zoo_path, *free, "--ckpt_path", "last") == 0
    assert len(learning_curves(folder / "runs" / "a")["train/loss"][0]) == len(trained) + 1


def test_a_run_that_diverges_is_stopped(zoo_path, folder, capsys):
    boom = ["--model.optimizer", "SGD", "--model.optimizer.lr", "1e30"]
    assert fit(zoo_path, *boom) == 2
    assert "training has diverged: the mean loss of epoch 1 is nan" in capsys.readouterr().err
    assert not (folder / "runs" / "a" / "checkpoints" / "last.ckpt").exists()


def test_a_run_is_not_overwritten_nor_mixed_up(zoo_path, folder, capsys):
    assert fit(zoo_path, epochs=1) == 0
    before = weights("runs/a/checkpoints/last.ckpt")
    assert fit(zoo_path, epochs=1) == 2
    assert "runs/a has checkpoints already" in capsys.readouterr().err
    assert fit(zoo_path, "--ckpt_path", "last", "--model.encoder.channels", "16") == 2
    assert "model.encoder.channels is 16, the checkpoint has 8" in capsys.readouterr().err
    assert fit(zoo_path, "--ckpt_path", "last", "--data.batch_size", "8") == 2
    assert "batch_size was 16 and is 8" in capsys.readouterr().err
    assert fit(zoo_path, "--ckpt_path", "last", "--data.augmentations+=wsl.augment.FlipSigns") == 2
    assert "augmentations was [] and is ['FlipSigns({})']" in capsys.readouterr().err
    assert equal(weights("runs/a/checkpoints/last.ckpt"), before)


@pytest.mark.filterwarnings("ignore:.*could not find the monitored key")
def test_a_run_that_ends_before_its_first_validation(zoo_path, folder):
    assert fit(zoo_path, "--trainer.max_steps", "2", epochs=-1) == 0
    assert [path.name for path in (folder / "runs" / "a" / "checkpoints").iterdir()] == ["last.ckpt"]


@pytest.mark.parametrize(
    "content",
    [b"no checkpoint", {"state_dict": {}}, {"state_dict": {}, "hyper_parameters": {}}, [1]],
    ids=["text", "weights", "hyperparameters", "list"],
)
def test_a_broken_checkpoint(zoo_path, folder, capsys, content):
    if isinstance(content, bytes):
        (folder / "bad.ckpt").write_bytes(content)
    else:
        torch.save(content, "bad.ckpt")
    assert fit(zoo_path, "--ckpt_path", "bad.ckpt") == 2
    assert "bad.ckpt is no checkpoint" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["bad.ckpt"]


def test_an_untrained_model_is_not_evaluated(zoo_path, folder, capsys):
    assert fit(zoo_path, epochs=1) == 0
    tested = ["test", "--config", "runs/a/config.yaml"]
    assert main(tested) == 0
    first = (folder / "runs" / "a" / "test.json").read_text()
    assert main(["test", "--name", "a", "--ckpt_path", "best"]) == 0
    assert (folder / "runs" / "a" / "test.json").read_text() == first
    assert main([*tested, "--name", "b"]) == 2
    assert "there is no checkpoint runs/b/checkpoints/best.ckpt" in capsys.readouterr().err
    assert not (folder / "runs" / "b").exists()


def test_offline_logging_to_weights_and_biases(zoo_path, folder, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(folder))
    assert fit(zoo_path, epochs=1) == 0
    assert list((folder / "runs" / "a" / "wandb").glob("offline-run-*/*.wandb"))


def test_differences_ignore_what_one_side_leaves_out():
    stored = {"encoder": {"class_path": "A", "init_args": {"channels": 3, "layers": 2}}, "probes": 0}
    given = {"encoder": {"class_path": "A", "init_args": {"channels": 4}}, "probes": 0, "extra": 1}
    assert differences(stored, given) == ["model.encoder.channels is 4, the checkpoint has 3"]
    assert differences(stored, stored) == []


def test_run_config_is_read_only_when_nothing_else_says_the_model(folder):
    (folder / "runs" / "a").mkdir(parents=True)
    (folder / "runs" / "a" / "config.yaml").write_text("")
    found = ["--config", "runs/a/config.yaml"]
    assert run_config("test", ["--name", "a"]) == run_config("test", ["--name=a"]) == found
    assert run_config("fit", ["--name", "a"]) == run_config("test", ["--name", "a", "--config", "c"]) == []
    with pytest.raises(ValueError, match="there is no run 'b'"):
        run_config("test", ["--name", "b"])


def test_checkpoint_paths(tmp_path):
    saved = tmp_path / "checkpoints"
    saved.mkdir()
    assert checkpoint_path(None, tmp_path, "fit") is None
    (saved / "last.ckpt").touch()
    assert checkpoint_path("last", tmp_path, "fit") == str(saved / "last.ckpt")
    with pytest.raises(ValueError, match="has checkpoints already"):
        checkpoint_path(None, tmp_path, "fit")
    with pytest.raises(ValueError, match=r"checkpoints of the run .*last\.ckpt"):
        checkpoint_path("best", tmp_path, "test")
    with pytest.raises(ValueError, match="train it first"):
        checkpoint_path(None, tmp_path, "test")
    (saved / "best.ckpt").touch()
    assert checkpoint_path(None, tmp_path, "predict") == str(saved / "best.ckpt")


@pytest.mark.slow
def test_a_killed_process_goes_on_from_last(zoo_path, folder, capsys):
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
