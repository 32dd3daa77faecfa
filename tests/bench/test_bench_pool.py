"""Processes of a bench: so many at once, none left behind, however the bench ends."""

import os
import sys
import time

import pytest
from small_benches import request

from wsl.bench import BenchError, plan_runs, run_processes
from wsl.bench._lock import only_bench
from wsl.zoo import Zoo

SLEEP = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"


@pytest.fixture
def runs(zoo_path, tmp_path):
    found = plan_runs(request(zoo_path, tmp_path, seeds=2), Zoo.open(zoo_path))
    for run in found:
        run.save()
    return found


def let(monkeypatch, code):
    """Processes run ``code(run)`` in the run's folder instead of training."""

    def command(run):
        return [sys.executable, "-c", f"import os; os.chdir({str(run.folder)!r})\n{code(run)}"]

    monkeypatch.setattr("wsl.bench._pool._command", command)


def pid_of(run):
    end = time.monotonic() + 20
    while not (path := run.folder / "pid").is_file() or not path.read_text():
        assert time.monotonic() < end
        time.sleep(0.01)
    return int(path.read_text())


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_every_run_ends_with_its_exit_code_and_log(runs, monkeypatch):
    let(monkeypatch, lambda run: f"print('seed', {run.seed}, flush=True); os._exit({run.seed})")
    ended = []
    run_processes(runs, 2, lambda run, code: ended.append((run.name, code)))
    assert sorted(ended) == sorted((run.name, run.seed) for run in runs)
    assert all((run.folder / "log.txt").read_text() == f"seed {run.seed}\n" for run in runs)


@pytest.mark.parametrize("workers", [1, 3])
def test_no_more_than_the_workers_at_once(runs, monkeypatch, workers):
    let(monkeypatch, lambda run: "pass")
    started, ended, most = [], [], 0

    def each():
        nonlocal most
        for run in runs:
            started.append(run)
            most = max(most, len(started) - len(ended))
            yield run

    run_processes(each(), workers, lambda run, code: ended.append(run))
    assert len(ended) == len(runs) and most == workers


@pytest.mark.parametrize("deaf", [False, True], ids=["stopped", "killed"])
def test_none_is_left_when_the_bench_is_interrupted(runs, monkeypatch, deaf):
    monkeypatch.setattr("wsl.bench._pool.PATIENCE", 0.2 if deaf else 20)
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if deaf else ""
    let(monkeypatch, lambda run: "pass" if run is runs[1] else ignore + SLEEP)
    pids = []

    def interrupt(run, code):
        pids.append(pid_of(runs[0]))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_processes(runs[:2], 2, interrupt)
    assert len(pids) == 1 and not alive(pids[0])


def test_one_thread_each_and_weights_and_biases_only_if_asked(runs, monkeypatch):
    for name in ("OMP_NUM_THREADS", "WANDB_MODE"):
        monkeypatch.delenv(name)
    let(monkeypatch, lambda run: "print(os.environ['OMP_NUM_THREADS'], os.environ['WANDB_MODE'])")
    run_processes(runs[:1], 1, lambda run, code: None)
    monkeypatch.setenv("WANDB_MODE", "offline")
    run_processes(runs[:1], 1, lambda run, code: None)
    assert (runs[0].folder / "log.txt").read_text() == "1 disabled\n1 offline\n"


def test_one_bench_at_a_time(tmp_path):
    out, refused = tmp_path / "out", pytest.raises(BenchError, match="another bench is at work")
    with only_bench(out), refused, only_bench(out, 0.2):
        pass
    with only_bench(out):
        pass
