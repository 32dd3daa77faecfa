"""A zoo inside loader workers, forked and spawned."""

from pathlib import Path

import pytest
import torch
from small_zoos import ZooRows, build_zoo, flat, row_weights
from torch.utils.data import DataLoader


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize(("context", "workers"), [("fork", 2), ("spawn", 1)])
def test_loader_workers(tmp_path: Path, context: str, workers: int) -> None:
    zoo = build_zoo(tmp_path / "small.h5", 16)
    zoo.matrix([0])  # the map is open in the parent already
    loader = DataLoader(ZooRows(zoo), batch_size=3, num_workers=workers, multiprocessing_context=context)
    assert torch.equal(torch.cat(list(loader)), flat(row_weights(range(16))))


def test_an_opened_zoo_keeps_no_file_open(tmp_path: Path) -> None:
    zoo = build_zoo(tmp_path / "small.h5")
    descriptors = [link.resolve() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not [path for path in descriptors if path.is_relative_to(tmp_path)]
    assert len(zoo) == 16
