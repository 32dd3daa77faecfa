"""``python -m wsl bench``: arguments, help, and a whole bench that is killed and goes on."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_benches import FLAT, STATISTICS, write_encoder

import wsl
from wsl.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "either --minutes of processor time, or --epochs"),
        (["--minutes", "1", "--epochs", "2"], "either --minutes of processor time, or --epochs"),
        (["--smoke", "--epochs", "2"], "a smoke test has its own budget"),
        (["--minutes", "-1"], "minutes is -1.0"),
        (["--epochs", "0"], "epochs is 0"),
        (["--epochs", "1", "--seeds", "0"], "seeds is 0"),
        (["--epochs", "1", "--workers", "0"], "workers is 0"),
        (["--epochs", "1", "--encoders", "nope"], "there is no encoder 'nope'"),
        (["--epochs", "1", "--configs", "nowhere"], "there is no folder nowhere"),
        (["--epochs", "1", "--zoo", "nowhere.h5"], "nowhere.h5. Check the path"),
        (["--epochs", "one"], "epochs: expected int, got one"),
        (["--pace", "1"], "--pace"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, list) else "",
)
def test_faulty_arguments_are_one_paragraph_and_leave_nothing(zoo_path, folder, capsys, options, said):
    assert main(["bench", "encoders", "--zoo", zoo_path, *options]) == 2
    error = capsys.readouterr().err
    assert (
        error.startswith("wsl bench: ") and said in error and "\n\n" not in error and "Traceback" not in error
    )
    assert not list(folder.iterdir())


def test_the_zoo_and_the_subcommand_are_needed(folder, capsys):
    assert main(["bench", "encoders", "--epochs", "1"]) == main(["bench"]) == 2
    assert main(["bench", "run", "nowhere"]) == 2
    assert "nowhere is no run of a bench" in capsys.readouterr().err


def test_help_says_what_the_budget_is(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["bench", "encoders", "--help"])
    assert stop.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for option in (
        "--zoo",
        "--configs",
        "--encoders",
        "--seeds",
        "--minutes",
        "--epochs",
        "--workers",
        "--out",
    ):
        assert option in shown
    assert "processor time of training in a run" in shown and "--smoke" in shown and "--redo" in shown
    assert "start-up, validation and test are not counted" in shown


@pytest.fixture
def code(folder):
    """A copy of the package: a bench stops where its code changes, as that of a checkout may."""
    for part in (Path(wsl.__file__).parent, Path(wsl.__file__).parents[1] / "configs"):
        shutil.copytree(part, folder / "code" / part.name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "code"


def start(code, *options):
    """A bench that heeds Ctrl-C also where these tests do not, as in the background of a shell."""
    environment = {**os.environ, "PYTHONPATH": str(code)}
    command = [sys.executable, "-m", "wsl", "bench", "encoders", *options]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def finish(code, *options):
    """What a bench says that nothing stops."""
    bench = start(code, *options)
    said, _ = bench.communicate()
    assert bench.returncode == 0, said
    return said


def wait_for_another(bench, path, seen):
    """The time of a file that was written after ``seen``, while the bench runs."""
    while not path.is_file() or path.stat().st_mtime_ns == seen:
        assert bench.poll() is None, bench.stdout.read()
        time.sleep(0.02)
    return path.stat().st_mtime_ns


@pytest.mark.slow
def test_a_bench_that_is_stopped_goes_on(zoo_path, folder, code):
    """Stopped twice in the middle of its second run, it leaves no process, and does what is missing only."""
    encoders = [write_encoder(folder, "flat", FLAT), write_encoder(folder, "stat", STATISTICS)]
    options = ["--zoo", zoo_path, "--encoders", *encoders, "--seeds", "1", "--epochs", "60"]
    finish(code, *options, "--out", "whole")
    first, second = (folder / "broken" / name / "seed0" for name in ("flat", "stat"))
    seen = None
    for how, left_with in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 1)):
        broken = start(code, *options, "--out", "broken")
        seen = wait_for_another(broken, second / "checkpoints/last.ckpt", seen)
        broken.send_signal(how)
        assert broken.wait() == left_with, broken.stdout.read()
        broken.stdout.close()
        assert not (second / "training.json").exists()
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    again = finish(code, *options, "--out", "broken")
    assert "1 of 2 runs are to be done" in again, again
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*")} == before
    tables = [(folder / name / "table.md").read_text() for name in ("whole", "broken")]
    accuracies = [[line.split(" | ")[4:6] for line in text.splitlines()[:4]] for text in tables]
    assert accuracies[0] == accuracies[1]
