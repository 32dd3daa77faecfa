"""The README stays true: its Python runs, its commands and files exist, its specification is the tracer's."""

import doctest
import io
import re
import shlex
from pathlib import Path

import pytest
import torch
from torch import nn

import wsl
from wsl import encoders
from wsl.cli import COMMANDS, main
from wsl.cli.loggers import experiment

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


class Checker(doctest.OutputChecker):
    """Takes public names of exceptions for those of the modules that define them."""

    def check_output(self, want: str, got: str, flags: int) -> bool:
        return super().check_output(want, re.sub(r"^wsl\._\w+\.", "wsl.", got), flags)


def test_sessions_run() -> None:
    session = "\n".join(blocks("pycon"))
    examples = doctest.DocTestParser().get_doctest(session, {}, "README", "README.md", 0)
    report = io.StringIO()
    found = doctest.DocTestRunner(Checker(), optionflags=doctest.ELLIPSIS).run(examples, out=report.write)
    assert found.attempted > 10 and found.failed == 0, report.getvalue()


def test_modules_are_traced_by_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    source = "from torch import nn\ndef build():\n    return nn.Conv2d(3, 5, 3)\n"
    (tmp_path / "my_module.py").write_text(source)
    commands = re.findall(r"`python -m wsl (trace .*?)`", README)
    assert len(commands) == 2
    for command in commands:
        assert main(shlex.split(command)) == 0, capsys.readouterr().err
    made = {path.name for path in tmp_path.iterdir()} - {"my_module.py", "__pycache__"}
    assert made == {"linear.json", "linear.png", "net.svg"}
    assert "function unchanged" in capsys.readouterr().out


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


def test_the_table_of_encoders_is_complete_and_true() -> None:
    row = r"^\| (`\w+`(?:, `\w+`)*) \| ([\w. -]+) \| [^|]+ \| ([^|]+) \| [^|]+ \|$"
    rows = re.findall(row, README, re.MULTILINE)
    told = {name: said for names, *said in rows for name in re.findall(r"\w+", names)}
    kinds = {name: getattr(encoders, name) for name in encoders.__all__ if name != "Encoder"}
    kinds = {n: k for n, k in kinds.items() if isinstance(k, type) and issubclass(k, encoders.Encoder)}
    assert told.keys() == kinds.keys()
    for name, (papers, depends) in told.items():
        assert (depends == "no") == encoders.reads_any_spec(kinds[name]), name
        documented = "".join(str(k.__doc__) for k in kinds[name].__mro__ if k.__name__ in kinds)
        documented += str(encoders.NFNHNP.__doc__) if name == "NFNNP" else ""
        assert all(paper in documented for paper in re.findall(r"\d{4}\.\d{5}", papers)), name


def test_dashboards_are_as_told() -> None:
    (told,) = re.findall(r"## Dashboards\n(.*?)\n## ", README, re.DOTALL)
    sections = re.findall(r'"([A-Z][a-z ]+)": _', (ROOT / "wsl" / "report" / "page.py").read_text("utf-8"))
    said = " ".join(told.split())
    assert len(sections) == 6 and all(f"*{section}*" in said for section in sections)
    for group, *names in (("nfn", "nfn-seed0", "nfn-seed1"), ("study", "study/a", "study/b")):
        assert f"`{group}`" in told and all(f"`{name}`" in told for name in names)
        assert {experiment(name) for name in names} == {group}
    files = re.findall(r"configs/\S+\.yaml", told)
    assert files and all((ROOT / path).is_file() for path in files)
    logged = (ROOT / "wsl" / "tasks" / "dashboard.py").read_text("utf-8")
    for name in ("/confusion", "/scatter", "/pictures", "norms/", "config-", "spec-", "zoo-"):
        assert name in logged and name in told, name
