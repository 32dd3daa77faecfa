"""All runs of a bench see the networks that it began with."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_zoo
from small_benches import request

from wsl.bench import BenchError, complete_run, plan_runs
from wsl.zoo import Zoo


def test_a_zoo_that_was_replaced_is_refused(zoo_path: str, tmp_path: Path) -> None:
    run = plan_runs(request(zoo_path, tmp_path), Zoo.open(zoo_path))[0]
    tiny_zoo.build(tmp_path / "other.h5", images=20, seed=1)
    replaced = replace(run, zoo=tmp_path / "other.h5")

    def work(_: Sequence[str]) -> tuple[float, int]:
        raise AssertionError("it has begun")

    with pytest.raises(BenchError, match="began with"):
        complete_run(replaced, work, work, 0.0)
