"""The README stays true: its Python runs, its commands and files exist, its specification is the tracer's."""

import re
import shlex
from pathlib import Path

import pytest
import torch
from torch import nn

import wsl
from wsl.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in blocks("python"):
        exec(compile(code, "README.md", "exec"), names)
    assert names["logits"].shape == (32, 10)  # type: ignore[attr-defined]
    assert {name: t.shape for name, t in names["update"].items()} == {  # type: ignore[attr-defined]
        name: t.shape
        for name, t in names["weights"].items()  # type: ignore[attr-defined]
    }
    assert names["images"].shape == (3, 8, 8)  # type: ignore[attr-defined]
    assert names["batch"].num_graphs == 32  # type: ignore[attr-defined]


def test_commands_and_their_files_exist() -> None:
    lines = re.findall(r"^\| `python -m wsl (.*?)` \|", README, re.MULTILINE)
    assert {line.split()[0] for line in lines} <= set(COMMANDS)
    assert len(lines) >= len(COMMANDS) - 2
    for line in lines:
        for word in shlex.split(line):
            if word.startswith("configs/"):
                assert (ROOT / word).is_file(), word


def test_specification_is_the_tracers() -> None:
    class Cnn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 6, 5, padding=2)
            self.fc1, self.fc2 = nn.Linear(6 * 4 * 4, 32), nn.Linear(32, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = nn.functional.max_pool2d(self.conv(x).relu(), 2)
            return self.fc2(self.fc1(x.flatten(1)).tanh())

    (shown,) = re.findall(r">>> print\(wsl.trace\(cnn, images\)\)\n(.*?)```", README, re.DOTALL)
    assert str(wsl.trace(Cnn(), torch.randn(2, 1, 8, 8))) == shown.strip()
