"""Every encoder on one zoo of two architectures: it trains, or is refused before anything runs."""

from functools import partial

import mixed_zoo
import pytest
import torch
from short_runs import train

from wsl import encoders
from wsl.data import ZooDataModule
from wsl.encoders import Encoder
from wsl.tasks import INRClassification, TaskError

KINDS = [
    kind
    for kind in map(encoders.__dict__.get, encoders.__all__)
    if isinstance(kind, type) and issubclass(kind, Encoder) and kind is not Encoder
]
SINGLE = {
    "DWSNet", "NFNNP", "NFNHNP", "NFT", "UniversalNeuralFunctional", "StatNet", "FlatMLP",
}  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return str(mixed_zoo.build(tmp_path_factory.mktemp("zoo") / "cnns.h5").path)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_on_several_architectures(kind, path):
    small = kind if kind is encoders.StatNet else partial(kind, channels=16, layers=1)
    task = INRClassification(small, probes=3 if issubclass(kind, encoders.ProbeGen) else 0)
    data = ZooDataModule(path, batch_size=12)
    if kind.__name__ in SINGLE:
        with pytest.raises(TaskError, match=f"{kind.__name__} reads one architecture only"):
            task.rehearse(data)
        return
    task.rehearse(data)
    start = INRClassification(**{name: task.hparams[name] for name in ("encoder", "probes")})
    torch.manual_seed(0)
    start._build(task._record_of(data))
    trained, _ = train(task, data)
    pairs = zip(trained.encoder.parameters(), start.encoder.parameters(), strict=True)
    moved = [not torch.equal(a, b) for a, b in pairs]
    assert sum(moved) > len(moved) / 2 and all(p.isfinite().all() for p in trained.parameters())
