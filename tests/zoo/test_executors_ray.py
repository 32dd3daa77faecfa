"""Builds on two real Ray nodes, one of which is killed; clusters that are not there."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from small_zoos import build_zoo

from wsl.zoo import ZooError
from wsl.zoo.images import DigitsImages
from wsl.zoo.inr import FitRecipe, SirenConfig, build_inr_zoo

pytest.importorskip("ray")
pytestmark = pytest.mark.slow
LIMIT = 300


@dataclass
class Nodes:
    """A running cluster of two nodes, and the environment of processes that use it."""

    process: subprocess.Popen[str]
    environment: dict[str, str]
    address: str
    second: str

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *command], env=self.environment, stderr=subprocess.PIPE, text=True
        )

    def kill_second(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "killed\n"


@pytest.fixture
def nodes(repository: Path) -> Iterator[Nodes]:
    script = Path(__file__).with_name("two_ray_nodes.py")
    paths = os.pathsep.join([str(repository), str(script.parent)])
    environment = os.environ | {"PYTHONPATH": paths}
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    with process:
        yield Nodes(process, environment, *process.stdout.readline().split())
        process.stdin.close()
        process.wait(60)


def wait_for(condition, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert process.poll() is None and time.monotonic() < end, process.communicate()[1]
        time.sleep(0.02)


def test_the_shard_of_a_killed_node_is_made_by_the_other(nodes: Nodes, tmp_path: Path) -> None:
    out, begun = tmp_path / "z.h5", tmp_path / "begun"
    script = Path(__file__).with_name("lost_node_build.py")
    build = nodes.start(str(script), str(out), nodes.address, nodes.second, str(begun))
    wait_for(begun.exists, build)
    assert not out.exists()
    nodes.kill_second()
    assert build.communicate(timeout=LIMIT) and build.returncode == 0
    assert out.read_bytes() == build_zoo(tmp_path / "undisturbed.h5").path.read_bytes()


def test_interrupted_resumed_and_a_node_killed_in_mid_build(nodes: Nodes, tmp_path: Path) -> None:
    out = tmp_path / "z.h5"
    options = ["--source", "DigitsImages", "--limit", "60", "--shard_rows", "4", "--recipe.steps", "300"]
    options += ["--architecture", "SirenConfig", "--architecture.hidden", "[16, 16]"]
    command = ["-m", "wsl", "zoo", "build", *options, "--out", str(out), "--executor", "ray"]
    command += ["--address", nodes.address]

    def stored() -> int:
        return len(list(Path(f"{out}.build").glob("shard-*.npz")))

    build = nodes.start(*command)
    wait_for(lambda: stored() >= 3, build)
    build.send_signal(signal.SIGINT)
    said = build.communicate(timeout=60)[1]
    assert build.returncode == 1 and "interrupted" in said and "Traceback" not in said
    kept = stored()
    assert 3 <= kept < 15 and not out.exists()

    build = nodes.start(*command)
    wait_for(lambda: stored() >= kept + 2, build)
    nodes.kill_second()
    assert stored() < 15
    said = build.communicate(timeout=LIMIT)[1]
    assert build.returncode == 0, said
    recipe, architecture = FitRecipe(steps=300), SirenConfig((16, 16))
    local = build_inr_zoo(
        tmp_path / "local.h5", DigitsImages(), architecture, recipe, limit=60, shard_rows=4, progress=False
    )
    assert out.read_bytes() == local.path.read_bytes()


@pytest.mark.parametrize(
    ("listening", "reason"),
    [(True, "it did not answer as the head of a cluster within 20 s"), (False, ".*refused")],
)
def test_no_cluster_at_an_address(tmp_path: Path, listening: bool, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        if not listening:
            server.close()
        with pytest.raises(ZooError, match=f"used at {address}: {reason}"):
            build_inr_zoo(tmp_path / "z.h5", DigitsImages(), limit=9, executor="ray", address=address)
    assert not list(tmp_path.iterdir())
