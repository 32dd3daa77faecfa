"""Connects this process to a Ray cluster."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wsl.zoo._errors import ZooError
from wsl.zoo._optional import optional

_ANSWER, _JOIN = 5, 20  # seconds: until the head's port takes a connection, and until Ray has connected
_CONNECT = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')"


def check_address(address: str | None) -> None:
    """Raise ZooError unless it is ``HOST:PORT``, or None."""
    if address is not None and not re.fullmatch(r"[^/\s]+:\d{1,5}", address):
        raise ZooError(
            f"address is {address!r}, expected HOST:PORT of the cluster's head, as `ray start --head` prints "
            "it."
        )


@contextmanager
def ray_connection(address: str | None) -> Iterator[None]:
    """A session with a cluster; one that the process has already is used, and stays.

    Raises:
        ZooError: within 30 seconds, if the cluster cannot be reached, has another version of Ray or Python,
            or this machine is not one of its nodes.
    """
    ray: Any = optional("ray", "ray")

    if ray.is_initialized():
        if address is not None:
            raise ZooError(
                f"This process has a Ray session already, and address is {address}. Leave address out to "
                "build with that session, or call ray.shutdown() first."
            )
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or "auto"
    _try(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as err:
        raise _unreachable(address, str(err)) from err
    try:
        yield
    finally:
        ray.shutdown()


def _try(address: str) -> None:
    """Connect in a process of its own: Ray itself waits for minutes, and may end the process that waits."""
    if address != "auto":
        check_address(address)
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER).close()
        except OSError as err:
            raise _unreachable(address, str(err)) from err
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CONNECT, address], capture_output=True, text=True, timeout=_JOIN
        )
    except subprocess.TimeoutExpired as err:
        raise _unreachable(address, f"it did not answer as the head of a cluster within {_JOIN} s") from err
    if done.returncode != 0:
        raise _unreachable(address, _last_error(done.stderr))


def _last_error(output: str) -> str:
    """The message at the end of a traceback."""
    found = re.findall(r"^\w[\w.]*(?:Error|Exception): (.*(?:\n(?!Traceback).*)*)", output, re.MULTILINE)
    return " ".join((found[-1] if found else output[-500:]).split())


def _unreachable(address: str, reason: str) -> ZooError:
    where = "on this machine" if address == "auto" else f"at {address}"
    return ZooError(
        f"No Ray cluster can be used {where}: {reason}. Start one with `ray start --head`, join it on each "
        "other machine with `ray start --address=HOST:PORT`, and build on one of them, with that address."
    )
