"""``python -m wsl learnopt``: files of optimizers by the command line."""

import io
from functools import partial
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch

from wsl.bench import code_version
from wsl.cli import bench_learnopt, main
from wsl.data import ProblemDataModule
from wsl.learnopt import SGD, Card, Constant, Quadratics, TruncatedES, UNFOptimizer, read_optimizer, save
from wsl.tasks import LearnedOptimization, TaskError, WarmupCosine
from wsl.tasks.optimizer_files import export_optimizer, learned_optimizer

SAID = ["--about", "a test", "--fails", "on everything else"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's folder with a checkpoint, as ``fit`` leaves it, and the trained task."""
    folder = tmp_path_factory.mktemp("run")
    data = ProblemDataModule(Quadratics(3), steps=2, held_out=2, horizon=5)
    adamw = partial(torch.optim.AdamW, lr=0.1)
    learned = partial(UNFOptimizer, hidden=4, layers=1)
    task = LearnedOptimization(learned, TruncatedES(Constant(4), 2, 2), adamw, WarmupCosine)
    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(task, datamodule=data)
    trainer.save_checkpoint(folder / "checkpoints" / "best.ckpt")
    (folder / "config.yaml").write_text("seed: 0\ndata:\n  task: Quadratics\n  horizon: 5\nmonitor: x\n")
    return folder, task


def test_a_checkpoint_becomes_a_file_with_a_card(run, tmp_path, capsys):
    folder, task = run
    out = tmp_path / "o.safetensors"
    ckpt = str(folder / "checkpoints" / "best.ckpt")
    assert main(["learnopt", "export", "--ckpt", ckpt, "--out", str(out), *SAID]) == 0
    assert "bytes" in capsys.readouterr().out
    found = read_optimizer(out)
    assert found.card.fails == "on everything else" and "horizon: 5" in found.card.tasks
    assert "monitor" not in found.card.tasks
    assert found.card.code == f"exported by {code_version()}, trained by another one or this"
    assert found.card.trained.startswith("2 meta-steps\nestimator TruncatedES(truncation=Constant(steps=4)")
    assert "optimizer AdamW(lr=0.1)" in found.card.trained
    built = found.build()
    assert isinstance(built, UNFOptimizer) and found.arguments["hidden"] == 4
    for name, value in task.learned.state_dict().items():
        assert torch.equal(built.state_dict()[name], value)
        assert torch.equal(learned_optimizer(folder / "checkpoints" / "best.ckpt").state_dict()[name], value)
    assert main(["learnopt", "info", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "UNFOptimizer(hidden=4, layers=1" in shown and "fails    on everything else" in shown


def test_the_card_names_the_code_of_the_run_and_not_of_the_export(run, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "c.ckpt").write_bytes((run[0] / "checkpoints" / "best.ckpt").read_bytes())
    for number, code in enumerate(("0.1.0+first", "0.1.0+second", "0.1.0+first")):
        log = tmp_path / "metrics" / f"version_{number}" / "hparams.yaml"
        log.parent.mkdir(parents=True)
        log.write_text(f"run: a\ncode: {code}\nconfig: |\n  code: none\n")
    out = tmp_path / "o.safetensors"
    card = export_optimizer(tmp_path / "checkpoints" / "c.ckpt", out, "a", "b", "other", tasks="c")
    assert card.code == "0.1.0+first, 0.1.0+second" and read_optimizer(out).card == card


def test_the_bench_takes_checkpoints_by_the_name_of_their_run(run, tmp_path):
    folder, task = run
    rival = bench_learnopt.learned_rival(str(folder / "checkpoints" / "best.ckpt"))
    assert rival.name == folder.name
    save(task.learned, tmp_path / "mine.safetensors", Card("a", "b", "c", "d", "e"))
    other = bench_learnopt.learned_rival(str(tmp_path / "mine.safetensors"))
    assert other.name == "mine"
    for name, value in rival.optimizer.state_dict().items():
        assert torch.equal(other.optimizer.state_dict()[name], value)
    with pytest.raises(TaskError, match=r"there is no checkpoint none\.ckpt"):
        bench_learnopt.learned_rival("none.ckpt")


def test_info_of_other_files_is_one_paragraph(tmp_path, capsys):
    (tmp_path / "bad.safetensors").write_bytes(b"none")
    assert main(["learnopt", "info", str(tmp_path / "bad.safetensors")]) == 2
    assert "is no safetensors file" in capsys.readouterr().err
    assert main(["learnopt", "info", "nothing"]) == 2
    assert "there is no file nothing" in capsys.readouterr().err


def test_what_cannot_be_exported_is_refused(run, tmp_path, capsys):
    folder, _ = run
    ckpt, out = str(folder / "checkpoints" / "best.ckpt"), str(tmp_path / "o.safetensors")
    cases = [
        (["--ckpt", ckpt, "--out", str(tmp_path / "o.ckpt")], "no file that ends in .safetensors"),
        (["--ckpt", str(tmp_path / "none.ckpt"), "--out", out], "there is no checkpoint"),
        (["--ckpt", str(folder / "config.yaml"), "--out", out], "no checkpoint of `python -m wsl fit`"),
    ]
    for options, said in cases:
        assert main(["learnopt", "export", *options, *SAID]) == 2
        assert said in capsys.readouterr().err
    alone = tmp_path / "alone.ckpt"
    alone.write_bytes((folder / "checkpoints" / "best.ckpt").read_bytes())
    assert main(["learnopt", "export", "--ckpt", str(alone), "--out", out, *SAID]) == 2
    assert "Say so with --tasks" in capsys.readouterr().err
    assert main(["learnopt", "export", "--ckpt", ckpt, "--out", out, "--about", "a", "--fails", " "]) == 2
    assert "fails is no text" in capsys.readouterr().err
    torch.save({"hyper_parameters": {"class_path": "wsl.tasks.INREditing"}}, alone)
    with pytest.raises(TaskError, match="INREditing, which holds no optimizer"):
        learned_optimizer(alone)
    assert not (tmp_path / "o.safetensors").exists()


def without(stored, *names):
    return {name: value for name, value in stored.items() if name not in names}


JUNK = {
    "a folder": (None, "it cannot be read: Is a directory"),
    "a text": (lambda _: b"hello", "torch.save did not make it, or it is cut off"),
    "half": (lambda stored: half_of(stored), "torch.save did not make it, or it is cut off"),
    "code": (lambda stored: {"task": Path}, "it holds code, which is not read, or it is damaged"),
    "a list": (lambda _: [1], "it holds a list"),
    "a state_dict": (
        lambda stored: stored["state_dict"],
        "its hyper_parameters name no class_path of a task; it holds 'learned.log_rate', ",
    ),
    "of another project": (
        lambda stored: without(stored, "hyper_parameters"),
        "name no class_path of a task",
    ),
    "without weights": (lambda stored: without(stored, "state_dict"), "it lacks state_dict"),
    "without a step": (lambda stored: without(stored, "global_step"), "it lacks global_step"),
    "without lanes": (lambda stored: without(stored, "wsl"), "the checkpoint holds no lanes"),
    "other weights": (
        lambda stored: {**stored, "state_dict": without(stored["state_dict"], "learned.log_gain")},
        'Missing key(s) in state_dict: "learned.log_gain".).\n  It is damaged, or of another version',
    ),
    "a broken spec": (
        lambda stored: {**stored, "wsl": {**stored["wsl"], "spec": "w ("}},
        "does not make an optimizer (SpecError: the text declares no axes",
    ),
}


def half_of(stored):
    buffer = io.BytesIO()
    torch.save(stored, buffer)
    return buffer.getvalue()[: buffer.tell() // 2]


@pytest.mark.parametrize("name", JUNK)
def test_what_is_wrong_with_a_checkpoint_is_named(name, run, tmp_path, capsys):
    change, said = JUNK[name]
    path = tmp_path / "junk.ckpt"
    if change is None:
        path.mkdir()
    else:
        made = change(torch.load(run[0] / "checkpoints" / "best.ckpt", weights_only=True))
        if isinstance(made, bytes):
            path.write_bytes(made)
        else:
            torch.save(made, path)
    out = ["--out", str(tmp_path / "o.safetensors"), "--tasks", "none"]
    assert main(["learnopt", "export", "--ckpt", str(path), *out, *SAID]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error
    assert not (tmp_path / "o.safetensors").exists()


def test_hand_designed_ones_can_be_files_too(tmp_path, capsys):
    card = Card("momentum", "not at all", "none", "often", "1")
    save(SGD(0.1, 0.9), tmp_path / "sgd.safetensors", card)
    assert main(["learnopt", "info", str(tmp_path / "sgd.safetensors")]) == 0
    assert "SGD(learning_rate=0.1, momentum=0.9" in capsys.readouterr().out
