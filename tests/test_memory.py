"""Freed memory is kept where the C library can keep it."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

import wsl

FAULTS = """
import resource
import torch
from wsl._memory import keep_freed_memory
{setting}
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        (torch.ones(2**23 + 2**20) + 1).sum()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


def page_faults(setting):
    done = subprocess.run(
        [sys.executable, "-c", FAULTS.format(setting=setting)],
        capture_output=True,
        text=True,
        env={
            "PYTHONPATH": str(Path(wsl.__file__).parents[1]),
            "OMP_NUM_THREADS": "1",
            "PATH": "/usr/bin:/bin",
        },
        check=True,
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the setting")
def test_tensors_of_later_steps_reuse_the_memory_of_earlier_ones():
    assert page_faults("assert keep_freed_memory()") < page_faults("") / 5


def test_other_libraries_are_left_alone(monkeypatch):
    from wsl._memory import keep_freed_memory

    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert not keep_freed_memory()
