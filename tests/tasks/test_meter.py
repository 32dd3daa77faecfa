"""The meter counts training and nothing else; the timer ends a run without a trace."""

import json
import time
from functools import partial

import pytest
from lightning.pytorch import Trainer

from wsl.data import ZooDataModule
from wsl.encoders import DeepSets, StatNet
from wsl.tasks import INRClassification
from wsl.tasks.meter import Measured, Meter, StepTimer, peak_memory

QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class Busy(INRClassification):
    """Spends processor time in validation, and a little in each training step."""

    def validation_step(self, batch, batch_idx):
        burn(0.5)

    def on_train_batch_start(self, batch, batch_idx):
        super().on_train_batch_start(batch, batch_idx)
        burn(0.02)


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_validation_is_not_counted(zoo_path, tmp_path):
    meter = Meter(str(tmp_path / "a" / "training.json"))
    trainer = Trainer(max_epochs=3, callbacks=[meter], **QUIET)
    began = time.process_time()
    task = Busy(StatNet)
    trainer.fit(task, datamodule=ZooDataModule(zoo_path, batch_size=32))
    whole = time.process_time() - began
    found = json.loads((tmp_path / "a" / "training.json").read_text())
    assert (found["steps"], found["networks"], found["epochs"]) == (9, 3 * 72, 3.0)
    assert 9 * 0.02 <= found["seconds"] <= whole - 3 * 0.5
    assert found["parameters"] == sum(p.numel() for p in task.parameters())
    assert 10 < found["peak_mb"] <= peak_memory()


def test_networks_of_mixed_batches_are_counted(zoo_path, tmp_path):
    trainer = Trainer(max_epochs=1, callbacks=[Meter(str(tmp_path / "training.json"))], **QUIET)
    task = INRClassification(partial(DeepSets, channels=4, layers=1, frequencies=2))
    trainer.fit(task, datamodule=ZooDataModule([zoo_path], batch_size=32))
    found = json.loads((tmp_path / "training.json").read_text())
    assert (found["steps"], found["networks"]) == (3, 72)


def test_sums_go_on_from_a_checkpoint(tmp_path):
    before, after = Meter(str(tmp_path / "a")), Meter(str(tmp_path / "a"))
    before.load_state_dict({"seconds": 1.5, "steps": 3, "networks": 90})
    after.load_state_dict(before.state_dict())
    assert after.state_dict() == {"seconds": 1.5, "steps": 3, "networks": 90}
    before.load_state_dict({"seconds": 2.0, "steps": 4, "networks": 120})
    assert after.state_dict()["steps"] == 3


@pytest.mark.parametrize(("most", "seconds"), [(5, 1e9), (10**9, 0.1)])
def test_timing_ends_with_what_a_step_takes(zoo_path, most, seconds):
    timer = StepTimer(seconds=seconds, most=most)
    trainer = Trainer(max_epochs=100, limit_val_batches=0, callbacks=[timer], **QUIET)
    with pytest.raises(Measured, match="3 steps an epoch") as measured:
        trainer.fit(Busy(StatNet), datamodule=ZooDataModule(zoo_path, batch_size=32))
    assert measured.value.seconds >= 0.02 and measured.value.batches == 3
    timed = trainer.global_step - 2
    assert timed == 5 if most == 5 else timed * measured.value.seconds >= 0.1
