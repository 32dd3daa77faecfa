"""Meta-training: what a step does, learning, exact resumption, checkpoints, diverged lanes, families."""

import csv
import inspect
import math
from functools import partial

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from short_runs import QUIET, assert_resumes, train

from wsl.data import DataError, ProblemDataModule, ZooDataModule
from wsl.encoders import FlatMLP
from wsl.learnopt import (
    PES,
    SGD,
    Constant,
    FullBackprop,
    LogUniform,
    Objective,
    Optimizer,
    Quadratics,
    TaskFamily,
    TruncatedES,
    UNFOptimizer,
    evaluate,
)
from wsl.tasks import INRClassification, LearnedOptimization, TaskError, WarmupCosine
from wsl.tasks.inner_curves import InnerCurves

PERSISTENT = PES(LogUniform(4, 12), steps=3, pairs=4, sigma=0.1, objective=Objective(late=1.0))
MOMENTUM = partial(SGD, learning_rate=0.01, momentum=0.5)
ADAMW = partial(torch.optim.AdamW, lr=0.1)
pytestmark = pytest.mark.filterwarnings("ignore:Checkpoint directory .* is not empty")


def problems(size=3, steps=3, **options):
    task = Quadratics(size, condition=10.0, noise=0.1).to(dtype=torch.float64)
    return ProblemDataModule(task, steps=steps, held_out=4, horizon=10, **options)


def made(estimator=PERSISTENT, learned=MOMENTUM, optimizer=ADAMW):
    return LearnedOptimization(learned, estimator, optimizer, WarmupCosine)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of 20 meta-steps, and its last checkpoint."""
    folder = tmp_path_factory.mktemp("trained")
    saved = ModelCheckpoint(folder, filename="c")
    return *train(made(), problems(steps=10), [saved, InnerCurves(str(folder))], epochs=2), folder


def test_a_step_follows_the_estimate_and_clipping_applies(monkeypatch):
    found = []
    estimate = FullBackprop.estimate

    def kept(self, *arguments):
        found.append(estimate(self, *arguments))
        return found[-1]

    monkeypatch.setattr(FullBackprop, "estimate", kept)
    plain = partial(torch.optim.SGD, lr=1e-3)
    schedule = partial(WarmupCosine, warmup=0.0, floor=1.0)
    for clip in (None, 0.01):
        task = LearnedOptimization(MOMENTUM, FullBackprop(Constant(5), 6), plain, schedule)
        before = {name: p.detach().clone() for name, p in MOMENTUM().named_parameters()}
        trainer = pl_trainer(max_steps=1, gradient_clip_val=clip)
        trainer.fit(task, datamodule=problems())
        grads, _, figures = found[-1]
        moved = {name: before[name] - p.detach() for name, p in task.learned.named_parameters()}
        norm = torch.stack(list(grads.values())).norm()
        scale = 1.0 if clip is None else clip / float(norm)
        assert float(norm) > 0.01
        for name, grad in grads.items():
            assert torch.allclose(moved[name], 1e-3 * grad * scale, rtol=1e-4)
        assert trainer.callback_metrics["train/gradient_norm"] == pytest.approx(float(norm))
        assert trainer.callback_metrics["train/loss"] == pytest.approx(figures["loss"])


def pl_trainer(**options):
    return pl.Trainer(enable_checkpointing=False, **QUIET, **options)


def test_it_learns_to_train_better():
    """From a rate that is far too low."""
    data = problems(steps=60)
    learner = made(PES(Constant(10), 5, 8, 0.1), optimizer=partial(torch.optim.Adam, lr=0.2))
    _, trainer = train(learner, data)
    seeds = next(iter(data.val_dataloader())).seeds
    low, high = (float(evaluate(data.task, SGD(rate, 0.5), seeds, 10).losses.mean()) for rate in (0.01, 0.1))
    assert float(trainer.callback_metrics["val/loss"]) < high < 0.6 * low


@pytest.mark.parametrize("killed_at", [1, 2, 3, 5])
def test_a_run_killed_at_a_step_goes_on_as_the_unbroken_one(killed_at, tmp_path):
    when = {"every_n_train_steps": 1}
    assert assert_resumes(made, problems, tmp_path, when, killed_at=killed_at, epochs=2) == 6


@pytest.mark.parametrize("estimator", [TruncatedES(Constant(7), 3, 4), FullBackprop(Constant(5), 4)])
def test_so_does_one_with_checkpoints_after_validations(estimator, tmp_path):
    assert assert_resumes(partial(made, estimator), problems, tmp_path, {}, killed_at=5, epochs=3) == 9


def test_checkpoints_hold_lanes_as_plain_tensors_and_build_the_optimizer(trained):
    task, _, folder = trained
    stored = torch.load(folder / "c.ckpt", weights_only=True)
    assert len(stored["wsl"]["lanes"]["groups"][0]["lanes"]["seeds"]) == 8
    loaded = LearnedOptimization.load_from_checkpoint(folder / "c.ckpt", weights_only=True)
    assert loaded.estimator == PERSISTENT
    for name, value in task.learned.state_dict().items():
        assert torch.equal(loaded.learned.state_dict()[name], value)


def test_held_out_losses_are_those_of_a_training_of_its_own(trained):
    task, trainer, _ = trained
    data = problems(steps=10)
    seeds = next(iter(data.val_dataloader())).seeds
    weights = data.task.init(seeds)["weight"]
    momentum, losses = torch.zeros_like(weights), []
    for step in range(11):
        batch = data.task.batch(seeds, torch.full_like(seeds, step))
        loss, grads = data.task.values_and_grads({"weight": weights}, batch)
        losses.append(loss)
        momentum = task.learned.logit_momentum.sigmoid() * momentum + grads["weight"]
        weights = weights - task.learned.log_rate.exp() * momentum
    wanted = torch.stack(losses[:10]).detach()
    gone = (wanted > 10 * wanted[0].abs()).int().cummax(0).values.bool()
    wanted = torch.where(gone, 10 * wanted[0].abs(), wanted)  # from the step on where it diverges
    assert float(trainer.callback_metrics["val/loss"]) == pytest.approx(float(wanted.mean()))
    assert torch.allclose(task.curves["Quadratics"], wanted.mean(1))


def test_other_seeds_are_held_out_for_the_test(trained):
    task, _, _ = trained
    data = problems(steps=10)
    val, test = (next(iter(loader())).seeds for loader in (data.val_dataloader, data.test_dataloader))
    assert not set(val.tolist()) & set(test.tolist())
    (found,) = pl_trainer().test(task, datamodule=data, verbose=False)
    assert found["test/loss"] == pytest.approx(
        float(evaluate(data.task, task.learned, test, 10).losses.mean())
    )
    assert found["test/diverged"] == 0


def test_curves_are_written_and_drawn(trained):
    _, trainer, folder = trained
    rows = list(csv.reader((folder / "inner_curves.csv").read_text().splitlines()))
    assert rows[0] == ["step", "Quadratics"] and len(rows) == 11
    mean = sum(float(loss) for _, loss in rows[1:]) / 10
    assert mean == pytest.approx(float(trainer.callback_metrics["val/loss"]), rel=1e-5)
    assert (folder / "inner_curves.png").stat().st_size > 5000


def test_a_run_survives_lanes_that_diverge():
    class Breaks(Quadratics):
        def values(self, params, batch):
            losses = super().values(params, batch)
            return torch.where(params["weight"][:, 0, 0] < -0.3, math.nan * losses, losses)

    data = ProblemDataModule(Breaks(3, noise=0.1), steps=6, held_out=8, horizon=10)
    task, trainer = train(made(), data)
    assert trainer.callback_metrics["train/diverged"] > 0 and trainer.callback_metrics["val/diverged"] > 0
    assert all(math.isfinite(value) for value in trainer.callback_metrics.values())
    assert all(p.isfinite().all() for p in task.learned.parameters())
    assert float(task.learned.log_rate.detach()) != math.log(0.01)


def test_several_architectures_are_trained_on_at_once(tmp_path):
    def both():
        tasks = [Quadratics(size, noise=0.1).to(dtype=torch.float64) for size in (2, 5)]
        return ProblemDataModule(TaskFamily(tasks), steps=3, held_out=4, horizon=10)

    task, trainer = train(made(), both())
    assert set(task.curves) == {"0 Quadratics", "1 Quadratics"}
    mean = torch.stack(list(task.curves.values())).mean()
    assert float(trainer.callback_metrics["val/loss"]) == pytest.approx(float(mean))
    assert_resumes(made, both, tmp_path, {"every_n_train_steps": 1}, killed_at=2, epochs=2)


def test_other_problems_are_refused(trained, zoo_path):
    task, _, folder = trained
    path = str(folder / "c.ckpt")
    with pytest.raises(DataError, match="fingerprint was '.*' and is '.*'"):
        train(made(), ProblemDataModule(Quadratics(3), 10, 4, 10), epochs=3, ckpt_path=path)
    with pytest.raises(DataError, match="steps was 10 and is 9"):
        train(made(), problems(steps=9), epochs=3, ckpt_path=path)
    with pytest.raises(TaskError, match="built for another architecture"):
        pl_trainer().test(task, datamodule=problems(size=4), verbose=False)
    with pytest.raises(TaskError, match="was given ZooDataModule as data; expected problems"):
        train(made(), ZooDataModule(zoo_path))
    small = partial(FlatMLP, channels=4)
    with pytest.raises(DataError, match="not trained networks with labels"):
        train(INRClassification(small, partial(torch.optim.AdamW, lr=0.1), WarmupCosine), problems())


@pytest.mark.parametrize("stage", ["fit", "validate", "test"])
def test_several_processes_are_refused(stage, trained, monkeypatch):
    """Each would train its own optimizer, and test on a part of the problems."""
    task, _, _ = trained
    monkeypatch.setattr(pl.Trainer, "world_size", property(lambda _: 2))
    with pytest.raises(
        TaskError, match=r"runs in one process, and the trainer has 2\.\n  Set trainer.devices"
    ):
        getattr(pl_trainer(max_epochs=1), stage)(task, datamodule=problems(steps=10))


@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks")
def test_lanes_of_another_estimator_are_refused(trained):
    _, _, folder = trained
    for estimator in (TruncatedES(Constant(7), 3, 4), PES(LogUniform(4, 12), steps=3, pairs=5, sigma=0.1)):
        with pytest.raises(
            TaskError, match=r"(?s)lanes are those of another .*'pairs': 4.*given: .*Resume with"
        ):
            train(made(estimator), problems(steps=10), epochs=3, ckpt_path=str(folder / "c.ckpt"))
    other = made(TruncatedES(Constant(7), 3, 4))
    pl_trainer().test(other, datamodule=problems(steps=10), ckpt_path=str(folder / "c.ckpt"), verbose=False)


@pytest.mark.parametrize("precision", ["32-true", "64-true"])
def test_networks_and_weights_of_different_types_are_refused(precision):
    """In float32, the type of a new network, and in float64."""
    wide = {"32-true": torch.float64, "64-true": torch.float32}[precision]
    learned = partial(UNFOptimizer, hidden=4, layers=1)
    trainer = pl_trainer(precision=precision, max_epochs=1)
    data = ProblemDataModule(Quadratics(3).to(dtype=wide), steps=2, held_out=2, horizon=3)
    with pytest.raises(TaskError, match=rf"weights of Quadratics of {wide}.\n  Leave trainer.precision at"):
        trainer.fit(made(FullBackprop(Constant(3), 2), learned), datamodule=data)
    right = {"32-true": torch.float32, "64-true": torch.float64}[precision]
    data = ProblemDataModule(Quadratics(3).to(dtype=right), steps=2, held_out=2, horizon=3)
    trainer = pl_trainer(precision=precision, max_epochs=1)
    trainer.fit(made(FullBackprop(Constant(3), 2), learned), datamodule=data)
    assert trainer.global_step == 2


def test_a_specification_is_given_where_python_shows_new_in_place_of_init(monkeypatch):
    monkeypatch.setattr(UNFOptimizer, "__new__", staticmethod(Optimizer.__new__))  # as in Python 3.11.2
    assert list(inspect.signature(UNFOptimizer).parameters) == ["args", "kwargs"]
    task = made(FullBackprop(Constant(3), 2), partial(UNFOptimizer, hidden=4, layers=1))
    pl_trainer(max_epochs=1).fit(
        task, datamodule=ProblemDataModule(Quadratics(3), steps=2, held_out=2, horizon=3)
    )
    assert isinstance(task.learned, UNFOptimizer)


def test_what_cannot_be_built_says_so_before_a_run():
    faulty = made(learned=partial(SGD, learning_rate=-1.0))
    with pytest.raises(TaskError, match="learning_rate is -1.0"):
        faulty.rehearse(problems())
    with pytest.raises(DataError, match="horizon is 0; expected at least 1"):
        ProblemDataModule(Quadratics(3), horizon=0)
    with pytest.raises(DataError, match="nothing to predict"):
        problems().check("predict")
