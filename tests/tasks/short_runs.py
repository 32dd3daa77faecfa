"""Short runs by a trainer in Python, some of them killed, for the tests of tasks."""

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "deterministic": True,
}


class KilledError(Exception):
    pass


class Kill(pl.Callback):
    def __init__(self, step):
        self.step = step

    def on_train_batch_start(self, trainer, *_):
        if trainer.global_step >= self.step:
            raise KilledError


def train(task, data, callbacks=(), epochs=1, ckpt_path=None, seed=0):
    """The trained task and its trainer."""
    checkpoints = any(isinstance(callback, ModelCheckpoint) for callback in callbacks)
    trainer = pl.Trainer(
        max_epochs=epochs, callbacks=list(callbacks), enable_checkpointing=checkpoints, **QUIET
    )
    torch.manual_seed(seed)
    trainer.fit(task, datamodule=data, ckpt_path=ckpt_path, weights_only=True if ckpt_path else None)
    return task, trainer


def assert_resumes(task, data, folder, when, killed_at, epochs):
    """A run that is killed at a step and resumed ends as the unbroken one; returns its number of steps.

    ``task`` and ``data`` make those of each run; ``when`` says when a ``ModelCheckpoint`` saves.
    """
    whole, trainer = train(task(), data(), epochs=epochs)
    saved = ModelCheckpoint(folder, filename="c", enable_version_counter=False, **when)
    with pytest.raises(KilledError):
        train(task(), data(), [saved, Kill(killed_at)], epochs)
    saved = ModelCheckpoint(folder, filename="c", enable_version_counter=False, **when)
    resumed, again = train(task(), data(), [saved], epochs, str(folder / "c.ckpt"), seed=99)
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name
    assert again.callback_metrics["val/loss"] == trainer.callback_metrics["val/loss"]
    assert again.global_step == trainer.global_step
    return again.global_step
