"""The executor that a builder's arguments name."""

from typing import Literal

from wsl.zoo._errors import ZooError
from wsl.zoo._local import LocalExecutor
from wsl.zoo._ray import RayExecutor
from wsl.zoo._workers import Executor

ExecutorName = Literal["local", "ray"]


def executor_of(name: ExecutorName, address: str | None, workers: int | None) -> Executor:
    """``local`` or ``ray``; connects to nothing yet.

    Raises:
        ZooError: an unknown name, an address without ``ray``, fewer than one worker, or Ray is missing.
    """
    if workers is not None and workers < 1:
        raise ZooError(f"workers is {workers}, expected at least 1.")
    if name == "ray":
        return RayExecutor(address, workers)
    if name != "local":
        raise ZooError(f"executor is {name!r}, expected local or ray.")
    if address is not None:
        raise ZooError(
            f"address is {address!r}, but executor is local. Set executor to ray, or leave address out."
        )
    return LocalExecutor(workers)
