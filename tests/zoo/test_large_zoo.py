"""A million rows: memory stays that of the tables."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_million_rows(tmp_path: Path, repository: Path) -> None:
    file = tmp_path / "large.h5"
    command = [sys.executable, str(Path(__file__).with_name("large_zoo.py")), str(file)]
    environment = {"PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1", "PATH": ""}
    subprocess.run(command, env=environment, check=True)  # makes it
    assert file.stat().st_size > 4 << 30
    assert file.stat().st_blocks * 512 < 1 << 30, "this file system keeps no holes"
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    print(found)
    assert found["where_mb"] < 500, "opened, read from front to end and at random: peak memory"
