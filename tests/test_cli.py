"""The command line but training: usage, zoos, specifications, exit codes and messages."""

from pathlib import Path

import numpy as np
import pytest
import tiny_zoo
from small_runs import python

from wsl.cli import COMMANDS, main
from wsl.spec import WeightSpec
from wsl.zoo import Zoo

pytestmark = pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")


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
    build = ["zoo", "build", "--source", "wsl.zoo.images.ArrayImages", "--recipe.steps", "3"]
    build += ["--progress", "false"]
    assert main([*build, "--source.path", "images.npz", "--out", "zoo.h5"]) == 0
    assert len(Zoo.open("zoo.h5")) == 12
    capsys.readouterr()
    assert main([*build, "--source.path", "none.npz", "--out", "other.h5"]) == 2
    assert main([*build, "--out", "other.h5"]) == 2
    assert main([*build, "--source.path", "images.npz", "--recipe.pace", "3", "--out", "other.h5"]) == 2
    errors = capsys.readouterr().err
    assert "none.npz" in errors and "Traceback" not in errors
    assert not (folder / "other.h5").exists() and not (folder / "other.h5.build").exists()


def test_trace(folder, capsys, monkeypatch):
    (folder / "a.svg").mkdir()
    (folder / "broken.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(folder)
    siren = ["trace", "wsl.models:Siren", "--arguments", '{"hidden": [6, 5]}', "--input", "16,2"]
    assert main([*siren, "--verify"]) == 0
    assert capsys.readouterr().out.startswith(str(tiny_zoo.SPEC))
    for wrong in ("wsl.models:Nope", "wsl.models", "nowhere:Thing", "wsl.models:coordinate_grid"):
        assert main(["trace", wrong, "--arguments", '{"shape": [2, 2]}', "--input", "16,2"]) == 2
        assert wrong in capsys.readouterr().err
    for option, said in (
        (["wsl.models:Siren", "--input", "2,0"], "a size below 1"),
        (["wsl.models:Siren", "--input", "16,3"], "fails to run on inputs of shapes (16, 3)"),
        (["wsl.models:Siren", "--input", "2,-3"], "--input 2,-3 is no input; give its sizes"),
        (["wsl.models:Siren", "--input", "2,3:int"], "fails to run"),
        (["wsl.models:Siren", "--input", "2,3:nope"], "the name of a torch type"),
        (["wsl.models:Siren", "--input", "2,3:nn"], "the name of a torch type"),
        (["wsl.models:Siren"], "are required: input"),
        (["wsl.models:Siren", "--input", "16,2", "--draw", "a.pdf"], "--draw a.pdf is no .svg or .png file"),
        (["wsl.models:Siren", "--input", "16,2", "--json", "."], ". is a folder; name a file in it"),
        (["wsl.models:Siren", "--input", "16,2", "--draw", "a.svg/"], "a.svg/ is a folder"),
        (["math:pi", "--input", "16,2"], "math:pi is a float, and takes no --arguments; name its class"),
        (["broken:make", "--input", "2"], "broken:make cannot be imported (ZeroDivisionError: division by"),
        ([":Siren", "--input", "16,2"], "no import path"),
        (["wsl.models:Siren", "--arguments", '{"hidden": [0]}', "--input", "16,2"], "does not accept"),
    ):
        assert main(["trace", *option]) == 2
        assert said in capsys.readouterr().err


def test_trace_writes_files(folder, capsys):
    command = ["trace", "wsl.models:Siren", "--arguments", '{"hidden": [6, 5]}', "--input", "1,2"]
    assert main([*command, "--json", "spec.json", "--draw", "pictures/graph.svg"]) == 0
    assert capsys.readouterr().out == f"{tiny_zoo.SPEC}\n"
    assert WeightSpec.from_json((folder / "spec.json").read_text()) == tiny_zoo.SPEC
    assert "layers.0.weight" in (folder / "pictures" / "graph.svg").read_text()
    assert main([*command, "--draw", "graph.png"]) == 0
    assert (folder / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert main([*command, "--draw", "spec.json/graph.svg"]) == 2
    assert "spec.json cannot be used" in capsys.readouterr().err
    assert main([*command, "--json", "spec.json/graph.json"]) == 2
    assert "spec.json cannot be used" in capsys.readouterr().err


def test_trace_writes_no_files_that_are_not_proven(folder, capsys, monkeypatch):
    code = """
import torch
class Counting(torch.nn.Linear):
    calls = 0
    def forward(self, x):
        Counting.calls += 1
        return super().forward(x) * Counting.calls
module = Counting(2, 3)
"""
    (folder / "counting.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    assert main(["trace", "counting:module", "--input", "4,2", "--verify", "--json", "spec.json"]) == 2
    assert "differs by" in capsys.readouterr().err
    assert not (folder / "spec.json").exists()
    assert main(["trace", "counting:module", "--input", "input=4,2"]) == 2
    assert "unexpected keyword argument 'input'" in capsys.readouterr().err
    assert main(["trace", "counting:module", "--input", "x=4,2", "--json", "new/spec.json"]) == 0
    assert WeightSpec.from_json((folder / "new" / "spec.json").read_text()).axes["x"].size == 2


def test_trace_takes_several_inputs_and_integers(folder, capsys, monkeypatch):
    code = """
import torch
class Lookup(torch.nn.Module):
    def __init__(self, rows=7):
        super().__init__()
        self.table, self.mix = torch.nn.Embedding(rows, 5), torch.nn.Linear(5, 4)
        self.head = torch.nn.Linear(4, 3)
    def forward(self, tokens, keep, shift):
        assert tokens.dtype == torch.int32 and keep.dtype == torch.bool and shift.dtype == torch.float64
        tokens = self.mix(self.table(tokens)).relu()
        return self.head(tokens * keep[..., None]) + shift.float()
"""
    (folder / "lookup_module.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    inputs = ["2,6:int32", "2,6:bool", "2,1,1:float64"]
    options = [word for text in inputs for word in ("--input", text)]
    assert main(["trace", "lookup_module:Lookup", *options, "--verify"]) == 0
    shown = capsys.readouterr().out
    assert "h1: 5 hidden" in shown and "h2: 4 hidden relu" in shown and "function unchanged" in shown


def test_report_of_nothing(folder, capsys):
    (folder / "empty").mkdir()
    assert main(["report", "none"]) == main(["report", "empty"]) == 2
    assert "python -m wsl fit" in capsys.readouterr().err
    metrics = folder / "empty" / "metrics" / "version_0"
    metrics.mkdir(parents=True)
    (metrics / "metrics.csv").write_text("epoch,val/accuracy\n0,0.5\n")
    for content in ("{", "[1]", '{"test/loss": "low"}'):
        (folder / "empty" / "test.json").write_text(content)
        assert main(["report", "empty"]) == 2
        assert "does not read as metrics" in capsys.readouterr().err


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
    for arguments in (["zoo", "info", zoo_path], ["trace", "wsl.models:Siren", "--input", "4,2"]):
        done = python("-c", script, *arguments)
        assert done.stdout.strip().endswith("False"), done.stderr


def test_a_bug_is_not_called_a_faulty_input(monkeypatch):
    monkeypatch.setattr("wsl.cli.trace.run", lambda arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["trace"])


def test_interruption_is_one_line(monkeypatch, capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("wsl.cli.report.run", interrupted)
    assert main(["report", "runs/a"]) == 1
    assert capsys.readouterr().err == "wsl report: interrupted; what was finished by then is kept.\n"


def test_exit_code_of_the_process():
    done = python("-m", "wsl", "conjure")
    assert done.returncode == 2 and done.stderr.startswith("wsl: there is no command")
