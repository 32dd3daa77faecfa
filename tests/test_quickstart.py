"""The main job: in small, every step and its products, and a second call redoes nothing; whole, its bars."""

import json

import pytest

from wsl.cli import main
from wsl.zoo import Zoo

pytestmark = [
    pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory"),
]


def test_from_images_to_figures_and_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    out = tmp_path / "quickstart"
    command = ["quickstart", "--out", str(out), "--limit", "60", "--epochs", "1"]
    assert main(command) == 0
    summary = capsys.readouterr().out
    assert (out / "summary.txt").read_text() in summary
    assert "with probes" in summary and "weights only" in summary and "flat MLP" in summary
    record = json.loads((out / "summary.json").read_text())
    zoo = Zoo.open(out / "digits_inr.h5")
    assert record["images"] == 60 and record["networks"] == len(zoo) and record["psnr"] > 35
    assert len(record["encoders"]) == 3 and all(len(e["validation"]) == 1 for e in record["encoders"])
    figures = {path.name for path in (out / "figures").iterdir()}
    assert figures == {"training_curves.png", "confusion.png", "embeddings.png", "renderings.png"}

    products = [path for path in out.rglob("*") if path.suffix in (".h5", ".ckpt", ".csv", ".npy")]
    before = {path: path.stat().st_mtime_ns for path in products}
    (out / "weights" / "predictions.csv").unlink()
    assert main(command) == 0
    after = {path: path.stat().st_mtime_ns for path in products}
    changed = {path.relative_to(out).as_posix() for path in products if before[path] != after[path]}
    assert changed == {"weights/predictions.csv", "weights/embeddings.npy"}

    assert (
        main(command[:3]) == main([*command, "--epochs", "2"]) == 2
    )  # a trial is not taken for the whole job
    assert "Choose another folder with --out" in capsys.readouterr().err


@pytest.mark.slow
def test_learns_to_read_digits_from_weights(tmp_path, monkeypatch):
    """The whole job. An MLP on raw weights stays at chance on the same zoo: symmetry is what is learned."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert main(["quickstart", "--out", str(tmp_path / "whole")]) == 0
    record = json.loads((tmp_path / "whole" / "summary.json").read_text())
    assert record["psnr"] >= 35 and record["psnr_offgrid"] >= 35
    probes, weights, flat = (encoder["accuracy"] for encoder in record["encoders"])
    assert probes >= 0.95 and weights >= 0.95 and flat <= 0.2, (probes, weights, flat)


def test_without_its_configurations(tmp_path, capsys):
    assert main(["quickstart", "--out", str(tmp_path / "q"), "--configs", str(tmp_path)]) == 2
    assert "quick start's configurations" in capsys.readouterr().err
    assert not (tmp_path / "q").exists()


@pytest.mark.parametrize("option", [["--limit", "3"], ["--limit", "-1"], ["--epochs", "0"]])
def test_arguments_that_cannot_be_followed(tmp_path, capsys, option):
    assert main(["quickstart", "--out", str(tmp_path / "q"), *option]) == 2
    assert capsys.readouterr().err.startswith("wsl quickstart: ")
    assert not (tmp_path / "q").exists()
