"""Meta-training of optimizers."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

import wsl
from wsl.data import BaseDataModule, HeldOut, MetaSteps, ProblemDataModule
from wsl.learnopt import Estimator, EstimatorState, Optimizer, evaluate
from wsl.learnopt.networks import UpdateNetwork
from wsl.spec import WeightSpec
from wsl.tasks.configured import ConfiguredTask, OptimizerFactory, ScheduleFactory
from wsl.tasks.factories import TaskError, value_from_plain, value_to_plain

LearnedFactory = Callable[[WeightSpec], Optimizer] | Callable[[], Optimizer]

_RECORD = "wsl"


class LearnedOptimization(ConfiguredTask):
    """Trains an optimizer on the problems of a task, or of several.

    A training step is a meta-step: the estimator advances its lanes and gives a gradient of the meta-loss by
    the parameters of the learned optimizer, which clipping, the outer optimizer and its schedule treat like
    any other. Checkpoints hold the lanes; what a meta-step draws depends on the run's seed and on its number.

    Logs ``train/loss``, the meta-loss, ``train/gradient_norm`` before clipping, ``train/update_norm`` of
    inner updates as a share of their parameters, and ``train/diverged``, ``train/ended`` and
    ``train/dropped``, the numbers of lanes in an epoch that began anew as they diverged or were done, and of
    those whose gradient was not finite. On held-out problems ``loss`` is the mean of the losses of all inner
    steps, ``final`` that after the horizon, on training batches, and ``diverged`` the number of trainings
    that did; these count as ten times their first loss. Curves are in :attr:`curves`.

    Args:
        learned: the optimizer to train: a class, or ``functools.partial`` of one, called with the
            specification if it takes a ``spec``, else with nothing.
        estimator: of the meta-gradient.
        optimizer: of the learned optimizer's parameters, called with them.
        schedule: called with that and the number of meta-steps, stepped in each.

    Raises:
        TaskError: data other than problems; several processes; a learned optimizer that cannot be built for
            all architectures.
    """

    metrics = ("train/loss", "val/loss", "val/final")
    bases: ClassVar[Mapping[str, type]] = {**ConfiguredTask.bases, "learned": Optimizer}

    def __init__(
        self,
        learned: LearnedFactory,
        estimator: Estimator,
        optimizer: OptimizerFactory,
        schedule: ScheduleFactory,
    ) -> None:
        super().__init__(learned=learned, optimizer=optimizer, schedule=schedule)
        if isinstance(estimator, Mapping):  # from a checkpoint
            estimator = value_from_plain(estimator, Estimator)
        self.estimator = estimator
        self.remember(
            learned=learned, estimator=value_to_plain(estimator), optimizer=optimizer, schedule=schedule
        )
        self.learned: Optimizer | None = None
        self.curves: dict[str, Tensor] = {}
        self._record: dict[str, Any] = {}
        self._state: EstimatorState | None = None
        self._position: dict[str, int] | None = None

    def configure_model(self) -> None:
        """Build the learned optimizer for the data's specification.

        Raises:
            TaskError: several processes, or data of another kind or architecture.
        """
        if self._trainer is None:
            return  # load_from_checkpoint, which goes on to build it from the checkpoint
        if self.trainer.world_size > 1:
            raise TaskError(
                f"LearnedOptimization runs in one process, and the trainer has {self.trainer.world_size}.\n"
                "  Set trainer.devices to 1; lanes advance together in one process already."
            )
        data = self._problems(getattr(self.trainer, "datamodule", None))
        if self.learned is None:
            self._build(str(data.spec))
        self._check_spec(str(data.spec), "the data")
        self._record |= {"problems": data.fingerprint, "version": wsl.__version__}

    def rehearse(self, data: BaseDataModule) -> None:
        problems = self._problems(data)
        try:
            with torch.random.fork_rng(devices=[]):
                self._build(str(problems.spec))
                assert self.learned is not None
                for task in problems.tasks:
                    self.learned.on(task.spec)
                self._factories["schedule"](self._factories["optimizer"](self.parameters()), 1)
        except (TypeError, ValueError, RuntimeError) as err:  # what constructors raise on faulty arguments
            raise TaskError(
                f"the learned optimizer, or optimizer or schedule of its parameters, cannot be built: {err}\n"
                "  Correct the arguments under model."
            ) from err
        finally:
            self.learned, self._record = None, {}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        lanes = None if self._state is None else self._state.to_dict()
        loader = self.trainer.train_dataloader
        position = loader.state_dict() if isinstance(loader, MetaSteps) else None
        checkpoint[_RECORD] = {**self._record, "seed": self._seed, "position": position, "lanes": lanes}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Build the learned optimizer for the checkpoint's specification, unless the data already did.

        Raises:
            TaskError: it is of another kind of run or architecture, or its lanes are of another estimator.
        """
        record = checkpoint.get(_RECORD)
        if not isinstance(record, dict) or "lanes" not in record:
            raise TaskError(
                "the checkpoint holds no lanes, so it was not written by a run of LearnedOptimization.\n"
                "  Give a checkpoint of `python -m wsl fit`, e.g. runs/NAME/checkpoints/best.ckpt."
            )
        if self._trainer is not None and self.trainer.state.fn == "fit":
            self._check_estimator(checkpoint["hyper_parameters"]["estimator"])
        if self.learned is None:
            self._build(record["spec"])
        self._check_spec(record["spec"], "the checkpoint")
        self._seed, self._position = record["seed"], record["position"]
        self._state = None if record["lanes"] is None else EstimatorState.from_dict(record["lanes"])

    def on_fit_start(self) -> None:
        super().on_fit_start()
        for log in self.loggers:
            log.log_hyperparams(self._record)

    def on_train_start(self) -> None:
        """Continue inside the epoch: Lightning itself restores no loader that a schedule asked for before.

        Raises:
            TaskError: the network and the weights of the problems are of different types.
        """
        self._check_types()
        loader = self.trainer.train_dataloader
        if self._position is not None and isinstance(loader, MetaSteps):
            loader.load_state_dict(self._position)
        self._position = None

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """A scalar whose gradient is the estimate, so that whatever acts on gradients acts on it."""
        data = self._problems(getattr(self.trainer, "datamodule", None))
        generator = torch.Generator().manual_seed(torch.initial_seed())  # which the step's position has set
        assert self.learned is not None
        if self._state is None:
            self._state = self.estimator.start(self.learned, data.task, generator)
        found = self.estimator.estimate(self.learned, data.task, self._state, generator)
        grads, self._state, figures = found
        norm = torch.stack([grad.norm() for grad in grads.values()]).norm()
        for name, value in {**figures, "gradient_norm": float(norm)}.items():
            reduce = "sum" if name in ("ended", "diverged", "dropped") else "mean"
            self.log(f"train/{name}", value, on_step=False, on_epoch=True, batch_size=1, reduce_fx=reduce)
        parts = [(p * grads[name]).sum() for name, p in self.learned.named_parameters() if name in grads]
        return torch.stack([part.to(torch.float64) for part in parts]).sum()

    def on_validation_epoch_start(self) -> None:
        self._check_types()
        self.curves = {}

    def on_test_epoch_start(self) -> None:
        self._check_types()
        self.curves = {}

    def validation_step(self, batch: HeldOut, batch_idx: int) -> None:
        self._evaluate(batch, "val")

    def test_step(self, batch: HeldOut, batch_idx: int) -> None:
        self._evaluate(batch, "test")

    def _evaluate(self, batch: HeldOut, stage: str) -> None:
        data = self._problems(getattr(self.trainer, "datamodule", None))
        task = data.tasks[batch.task]
        assert self.learned is not None
        with torch.inference_mode(False):  # inner steps need gradients
            found = evaluate(task, self.learned, batch.seeds.clone(), data.horizon)
        name = type(task).__name__ if len(data.tasks) == 1 else f"{batch.task} {type(task).__name__}"
        self.curves[name] = found.losses.mean(1)
        self.log(f"{stage}/loss", found.losses.mean(), batch_size=1)
        self.log(f"{stage}/final", found.final.mean(), batch_size=1)
        self.log(f"{stage}/diverged", found.diverged.sum().float(), batch_size=1, reduce_fx="sum")

    def _problems(self, data: Any) -> ProblemDataModule:
        if not isinstance(data, ProblemDataModule):
            raise TaskError(
                f"LearnedOptimization was given {type(data).__name__} as data; expected problems.\n"
                "  Pass datamodule=ProblemDataModule(task)."
            )
        return data

    def _build(self, spec: str) -> None:
        kind, factory = self._recipes["learned"].load(Optimizer), self._factories["learned"]
        # Of the class itself, Python 3.11.2 shows __new__ where __init__ is inherited.
        takes_spec = "spec" in inspect.signature(kind.__init__).parameters  # type: ignore[misc]
        self.learned = factory(WeightSpec.parse(spec)) if takes_spec else factory()
        self._record = {"spec": spec}

    def _check_estimator(self, before: dict[str, Any]) -> None:
        if (ours := value_to_plain(self.estimator)) != before:
            raise TaskError(
                "the checkpoint's lanes are those of another estimator.\n"
                f"  checkpoint: {before}\n  given: {ours}\n"
                "  Resume with the estimator that the run began with, or begin another run."
            )

    def _check_types(self) -> None:
        """Networks do not convert what they read, and precision may have changed their type."""
        assert self.learned is not None
        types = {next(m.parameters()).dtype for m in self.learned.modules() if isinstance(m, UpdateNetwork)}
        for task in self._problems(getattr(self.trainer, "datamodule", None)).tasks:
            if types - {task.dtype}:
                raise TaskError(
                    f"the learned optimizer's network is of {', '.join(map(str, types))}, and the weights of "
                    f"{type(task).__name__} of {task.dtype}.\n  Leave trainer.precision at 32-true, or give "
                    "a task of the other type."
                )

    def _check_spec(self, spec: str, source: str) -> None:
        if spec == self._record["spec"]:
            return
        ours, theirs = self._record["spec"].splitlines(), spec.splitlines()
        raise TaskError(
            f"the learned optimizer was built for another architecture than {source} has.\n"
            f"  learned: {'; '.join(line for line in ours if line not in theirs)}\n"
            f"  given: {'; '.join(line for line in theirs if line not in ours)}\n"
            "  Train one on this data, or give it data of its own architecture."
        )
