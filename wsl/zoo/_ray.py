"""Makes shards as tasks of a Ray cluster."""

import platform
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
import torch

import wsl
from wsl.zoo._columns import as_array
from wsl.zoo._errors import ZooError
from wsl.zoo._optional import optional
from wsl.zoo._ray_connection import check_address, ray_connection
from wsl.zoo._workers import Made, Report, ShardMaker

_RETRIES = 9
_LOOK = 5.0  # seconds between looks at nodes that joined or left

Result = tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class RayExecutor:
    """Tasks of one processor core each, on all nodes of a Ray cluster; this package must be on each node.

    A shard whose worker or node is lost is made again elsewhere, up to nine times. Nodes may join and leave.

    Args:
        address: ``HOST:PORT`` of the cluster's head. By default the session that this process has already,
            else ``RAY_ADDRESS``, else the cluster that runs on this machine.
        workers: tasks at once; by default as many as the cluster has cores for.

    Raises:
        ZooError: Ray is not installed, or the address has another form.
    """

    address: str | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        optional("ray", "ray", "Without it, a build runs with the executor local.")
        check_address(self.address)

    def made(
        self, maker: ShardMaker, shards: Sequence[int], report: Report
    ) -> Generator[tuple[int, Made], None, None]:
        """Shards in the order in which they come; news arrives with them. Closing cancels the other tasks.

        Raises:
            ZooError: the cluster cannot be reached or has other versions, or a shard is lost for good.
        """
        ray = optional("ray", "ray")
        with ray_connection(self.address):
            task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_make_on_node)
            # In a list, so that the task compares versions before it reads the maker.
            shared = [ray.put(ray.cloudpickle.dumps(maker))]
            queue, running = iter(shards), dict[Any, int]()
            try:
                while True:
                    for shard in islice(queue, max(0, self._limit(ray) - len(running))):
                        running[task.remote(_versions(), shared, shard)] = shard
                    if not running:
                        return
                    done, _ = ray.wait(list(running), timeout=_LOOK)
                    for reference in done:
                        shard = running.pop(reference)
                        weights, columns, news = _result(ray, reference, shard)
                        for words in news:
                            report(*words)
                        yield shard, (weights, columns)
            finally:
                for reference in running:
                    ray.cancel(reference, force=True)

    def _limit(self, ray: Any) -> int:
        """Tasks to submit: twice as many as can run, so that no node waits for this process."""
        return self.workers or max(1, 2 * int(ray.cluster_resources().get("CPU", 0)))


def _make_on_node(versions: dict[str, str], shared: list[Any], shard: int) -> Result:
    """Runs in a process of a node: one shard, and all news of it."""
    if versions != _versions():
        raise ZooError(
            f"The node {platform.node()} has other versions than the machine that builds: {_versions()} "
            f"there, {versions} here. Bytes could differ: install the same versions on both."
        )
    torch.set_num_threads(1)
    news: list[tuple[Any, ...]] = []
    weights, columns = _maker(shared[0])(shard, lambda *words: news.append(words))
    # Not tensors: a tensor that is a part of another is pickled with the whole.
    arrays = {name: np.ascontiguousarray(as_array(values)) for name, values in weights.items()}
    return arrays, {name: as_array(values) for name, values in columns.items()}, news


@lru_cache(maxsize=1)
def _maker(reference: Any) -> ShardMaker:
    """The maker of the build that this process works for, read once."""
    ray = optional("ray", "ray")
    maker: ShardMaker = ray.cloudpickle.loads(ray.get(reference))
    return maker


def _versions() -> dict[str, str]:
    return {"wsl": wsl.__version__, "torch": torch.__version__, "numpy": np.__version__}


def _result(ray: Any, reference: Any, shard: int) -> Result:
    try:
        result: Result = ray.get(reference)
        return result
    except ray.exceptions.RayTaskError as err:
        if isinstance(err.cause, ZooError):
            raise ZooError(str(err.cause)) from err
        if isinstance(err.cause, ImportError):
            raise ZooError(
                f"A node of the Ray cluster cannot import what the build needs: {err.cause}. "
                "Install weightspace, and the modules of classes of your own, on each node."
            ) from err
        raise
    except ray.exceptions.RayError as err:
        raise ZooError(
            f"Shard {shard} cannot be made on this Ray cluster: {err} What is stored stays: run the same "
            "build again when the cluster is well."
        ) from err
