"""``fit``, ``validate``, ``test``, ``predict``: Lightning's command line; a run has a name and a folder."""

import json
import logging
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint, RichProgressBar
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from wsl._files import write_text
from wsl.bench import code_version
from wsl.cli.failures import CommandError, condense, describe_failure
from wsl.cli.loggers import default_name, metrics_log, wandb_log
from wsl.data import BaseDataModule
from wsl.tasks import ConfiguredTask
from wsl.tasks.callbacks import EpochLog, PictureLog, PredictionTable
from wsl.tasks.dashboard import Histograms, OutcomePlots, log_start
from wsl.tasks.inner_curves import InnerCurves

logger = logging.getLogger(__name__)

ABOUT = {
    "fit": "Train a task on a zoo.",
    "validate": "Evaluate a trained task on the validation split.",
    "test": "Evaluate a trained task on the held-out test split.",
    "predict": "Write a trained task's predictions. Of a network of your own: predict --weights FILE --help.",
}
COMMANDS = tuple(ABOUT)
CHECKPOINTS = ("best", "last")
CHECKPOINT_KEYS = ("hyper_parameters", "wsl", "loops", "pytorch-lightning_version")
DEFAULTS = {
    "max_epochs": 60,
    "deterministic": True,
    "log_every_n_steps": 1,
    "enable_model_summary": False,
}


class AlreadyTrainedError(Exception):
    """There is nothing left to do for the run that was to be continued."""


class SaveRunConfig(SaveConfigCallback):
    """Keeps a training run's whole configuration as ``config.yaml`` in its folder, and with its loggers."""

    def save_config(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        config = self.config.clone()
        config.ckpt_path = None
        text = self.parser.dump(config, skip_none=False)
        write_text(Path(self.config.runs) / self.config.name / self.config_filename, text)
        for log in trainer.loggers:
            log.log_hyperparams({"run": self.config.name, "config": text, "code": code_version()})
        self._text = text

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            log_start(trainer, pl_module, self.config.name, self._text)


class TaskCLI(LightningCLI):
    """A task, its data and a trainer from configuration files and arguments; each run has its own folder."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument(
            "--name", type=str | None, default=None, help="Name of the run; by default the time of its start."
        )
        parser.add_argument("--runs", type=str, default="runs", help="Folder that holds the runs' folders.")
        parser.add_argument(
            "--monitor",
            type=str,
            default="val/accuracy",
            help="Metric that chooses best.ckpt and stops early.",
        )
        parser.add_argument(
            "--mode", type=Literal["max", "min"], default="max", help="Which way it improves."
        )
        parser.add_argument(
            "--patience",
            type=int | None,
            default=20,
            help="Epochs without improvement that stop; null for none.",
        )

        parser.add_argument(
            "--threads",
            type=int | None,
            default=None,
            help="Processor threads of torch. For small networks, 1 is the fastest and best-mannered.",
        )
        parser.add_argument(
            "--group",
            type=str | None,
            default=None,
            help="Experiment under which Weights & Biases groups the run; by default WANDB_RUN_GROUP, or the "
            "run's name without a last number, as of a seed.",
        )
        parser.add_argument(
            "--histograms",
            type=int | None,
            default=None,
            help="Steps between histograms of weights and gradients on Weights & Biases; null for none.",
        )

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        self.config = parser.parse_args(args)

    def _parse_ckpt_path(self) -> None:
        """Resolve the run's folder and checkpoint. The model always comes from the configuration."""
        config = self.config[self.config.subcommand]
        check_options(config)
        if config.name is None:
            # processes that Lightning starts for the same run inherit its name
            inherited = os.environ.get("WSL_RUN_NAME") if "LOCAL_RANK" in os.environ else None
            config.name = inherited or default_name()
            os.environ["WSL_RUN_NAME"] = config.name
        self.folder = Path(config.runs) / config.name
        config.ckpt_path = checkpoint_path(config.get("ckpt_path"), self.folder, self.config.subcommand)
        config.weights_only = True
        if "verbose" in config:
            config.verbose = False  # the metrics are written to a file and logged in one line

    def before_instantiate_classes(self) -> None:
        threads = self.config[self.subcommand].threads
        if threads is not None:
            torch.set_num_threads(threads)

    def instantiate_classes(self) -> None:
        try:
            super().instantiate_classes()
        except (ValueError, MisconfigurationException) as err:
            if describe_failure(err) is not None:
                raise
            raise CommandError(condense(str(err))) from err

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Whatever is at fault must fail before anything is written."""
        self._check_hyperparameters()
        self.datamodule.check(self.subcommand)
        self.model.rehearse(self.datamodule)
        monitor = self.config[self.subcommand].monitor
        if self.model.metrics and monitor not in self.model.metrics:
            raise CommandError(f"monitor is {monitor}; choose one of {', '.join(self.model.metrics)}.")
        unsaid = self._get(self.config_init, "trainer").get("logger") is None
        trainer = super().instantiate_trainer(**kwargs, **({"logger": False} if unsaid else {}))
        if self.subcommand == "fit":
            if trainer.max_epochs == trainer.max_steps == -1:
                raise CommandError(
                    "the run has no end, and its learning-rate schedule needs one. "
                    "Set trainer.max_epochs or trainer.max_steps."
                )
            if self._stored and (reason := finished(self._stored, trainer)):
                raise AlreadyTrainedError(f"{self.folder} is trained already: {reason}.")
        if unsaid:
            options = self.config[self.subcommand]
            best = {options.monitor: options.mode}
            found = wandb_log(self.folder, str(self.subcommand), options.name, options.group, best)
            metrics = [metrics_log(self.folder)] if self.subcommand == "fit" else []
            trainer.loggers = [*metrics, *found]
        return trainer

    def _instantiate_trainer(self, config: dict[str, Any], callbacks: list[Callback]) -> Trainer:
        options = self.config[self.subcommand]
        bar = RichProgressBar() if sys.stderr.isatty() else EpochLog()
        if isinstance(bar, EpochLog):
            config["enable_progress_bar"] = False
        extra = [
            *checkpoints(self.folder, options.monitor, options.mode),
            bar,
            PredictionTable(str(self.folder)),
            PictureLog(str(self.folder)),
            OutcomePlots(),
            InnerCurves(str(self.folder)),
        ]
        if options.histograms is not None:
            extra.append(Histograms(options.histograms))
        if options.patience is not None:
            # Checked where validation ends: the last epoch may end, by max_steps, before there was any.
            rule = {"mode": options.mode, "patience": options.patience, "check_on_train_epoch_end": False}
            extra.append(EarlyStopping(options.monitor, **rule))
        return super()._instantiate_trainer(config, [*callbacks, *extra])

    def _check_hyperparameters(self) -> None:
        path = self._get(self.config_init, "ckpt_path")
        self._stored: dict[str, Any] = {}
        if path is None:
            return
        try:
            self._stored = torch.load(path, weights_only=True, map_location="cpu")
            stored, *_ = (self._stored[key] for key in CHECKPOINT_KEYS)
        except Exception as err:  # whatever reading an arbitrary file raises
            raise CommandError(
                f"{path} is no checkpoint of `python -m wsl fit`, or it is damaged ({type(err).__name__})."
            ) from err
        if changed := differences(stored, dict(self.model.hparams)):
            raise CommandError(
                f"the configuration contradicts the checkpoint {path}: {'; '.join(changed)}. "
                "Leave these settings as they were (the run's own config.yaml has them), or start a run "
                "under another name."
            )

    def after_fit(self) -> None:
        early = self.trainer.early_stopping_callback
        if isinstance(early, EarlyStopping) and early.stopped_epoch:
            logger.info("stopped early: %s did not improve for %d epochs", early.monitor, early.patience)
        self._write_metrics("fit")

    def after_validate(self) -> None:
        self._write_metrics("validate")

    def after_test(self) -> None:
        self._write_metrics("test")

    def after_predict(self) -> None:
        self._finish()

    def _finish(self) -> None:
        for log in self.trainer.loggers:
            if isinstance(log, WandbLogger):
                log.experiment.finish()

    def _write_metrics(self, command: str) -> None:
        self._finish()
        if self.trainer.is_global_zero:
            metrics = {name: float(value) for name, value in self.trainer.callback_metrics.items()}
            write_text(self.folder / f"{command}.json", json.dumps(metrics, indent=1) + "\n")
            logger.info("%s", "  ".join(f"{name} {value:.4f}" for name, value in sorted(metrics.items())))


def run(arguments: Sequence[str]) -> int:
    """Run one of :data:`COMMANDS`, the first of ``arguments``."""
    command, *options = arguments
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # what Lightning's own code raises under torch 2.13, and says of a folder that a resumed run uses again
    warnings.filterwarnings("ignore", message=".*isinstance.treespec, LeafSpec.*")
    warnings.filterwarnings("ignore", message=".*Checkpoint directory .* exists and is not empty")
    settings = {"exit_on_error": False, "allow_abbrev": False}
    try:
        TaskCLI(
            ConfiguredTask,
            BaseDataModule,
            save_config_callback=SaveRunConfig,
            save_config_kwargs={"save_to_log_dir": False},
            trainer_defaults=dict(DEFAULTS),
            seed_everything_default=0,
            parser_kwargs={
                "prog": "python -m wsl",
                **settings,
                **{name: {**settings, "description": ABOUT[name]} for name in COMMANDS},
            },
            subclass_mode_model=True,
            subclass_mode_data=True,
            auto_configure_optimizers=False,
            args=[command, *run_config(command, options), *options],
        )
    except AlreadyTrainedError as done:
        logger.info("%s", done)
    return 0


def run_config(command: str, options: Sequence[str]) -> list[str]:
    """The options that read a trained run's own configuration, if ``options`` name a run and no model.

    So ``test --name NAME`` is enough after ``fit --name NAME``.
    """
    named = {option.split("=")[0] for option in options}
    if command == "fit" or named & {"-c", "--config", "--model", "-h", "--help"}:
        return []
    if "--name" not in named:
        raise CommandError(
            f"{command} needs to know what was trained: give --name NAME for a run of `python -m wsl fit`, "
            "or --config and --ckpt_path."
        )
    values = _values(options)
    path = Path(values.get("--runs", "runs")) / values["--name"] / "config.yaml"
    if not path.is_file():
        raise CommandError(
            f"there is no run {values['--name']!r}: {path} does not exist. Train it with "
            f"`python -m wsl fit --config CONFIG --name {values['--name']}`, "
            "or give --config and --ckpt_path."
        )
    return ["--config", str(path)]


def check_options(options: Any) -> None:
    """Raise CommandError for options of a run that cannot be followed."""
    name, runs = options.name, Path(options.runs)
    if name is not None and (not name.strip() or ".." in Path(name).parts or Path(name).is_absolute()):
        raise CommandError(f"name is {name!r}; it names the run's folder in {runs}, e.g. --name mine.")
    existing = next(path for path in (runs, *runs.parents) if path.exists())
    if not existing.is_dir():
        raise CommandError(f"runs is {runs}, but {existing} is no folder. Choose another one with --runs.")
    for option, least in (("threads", 1), ("patience", 0), ("histograms", 1)):
        value = options[option]
        if value is not None and value < least:
            raise CommandError(f"{option} is {value}; expected at least {least}, or null.")


def checkpoint_path(given: str | None, folder: Path, command: str) -> str | None:
    """The file that ``best``, ``last`` or a path means for a run; ``best``, if a trained model is to be used.

    Raises:
        CommandError: it does not exist, or training would start over in the folder of a run.
    """
    saved = folder / "checkpoints"
    if given is None and command != "fit":
        given = "best"
    if given is None:
        if any(saved.glob("*.ckpt")):
            raise CommandError(
                f"the run {folder} has checkpoints already. "
                "Continue it with --ckpt_path last, or train another one under another --name."
            )
        return None
    path = saved / f"{given}.ckpt" if given in CHECKPOINTS else Path(given)
    if not path.is_file():
        found = ", ".join(sorted(str(p) for p in saved.glob("*.ckpt"))) or "none"
        way_out = "leave --ckpt_path out to start from new weights" if command == "fit" else "train it first"
        raise CommandError(
            f"there is no checkpoint {path}; checkpoints of the run {folder}: {found}. "
            f"Check --name and --runs, or {way_out}."
        )
    return str(path)


def finished(stored: Mapping[str, Any], trainer: Trainer) -> str | None:
    """Why a checkpoint's run has nothing left to train under ``trainer``, or ``None`` if it has."""
    stopped = [
        state["stopped_epoch"]
        for name, state in stored.get("callbacks", {}).items()
        if name.startswith("EarlyStopping") and state["stopped_epoch"]
    ]
    if stopped and trainer.early_stopping_callback is not None:
        return f"early stopping ended it in epoch {stopped[0] + 1}; --patience null trains on"
    epochs = stored["loops"]["fit_loop"]["epoch_progress"]["current"]["processed"]
    for limit, done, unit in (
        (trainer.max_epochs, epochs, "epochs"),
        (trainer.max_steps, stored["global_step"], "steps"),
    ):
        if limit is not None and 0 <= limit <= done:
            return f"{done} of {limit} {unit} are done; --trainer.max_{unit} with a larger number trains on"
    return None


def differences(stored: dict[str, Any], given: dict[str, Any], prefix: str = "model") -> list[str]:
    """Where both say something else, e.g. ``model.encoder.channels is 64, the checkpoint has 32``."""
    found = []
    for key in stored.keys() & given.keys():
        name = f"{prefix}.{key}".replace("init_args.", "")
        if isinstance(stored[key], dict) and isinstance(given[key], dict):
            found += differences(stored[key], given[key], name)
        elif stored[key] != given[key]:
            found.append(f"{name} is {given[key]}, the checkpoint has {stored[key]}")
    return sorted(found)


def checkpoints(folder: Path, monitor: str, mode: str) -> list[Callback]:
    """``best.ckpt`` by the monitored metric, and ``last.ckpt``, after every validation."""
    shared: dict[str, Any] = {"dirpath": str(folder / "checkpoints"), "enable_version_counter": False}
    return [
        ModelCheckpoint(filename="best", monitor=monitor, mode=mode, **shared),
        ModelCheckpoint(filename="last", **shared),
    ]


def _values(options: Sequence[str]) -> dict[str, str]:
    """``--key value`` and ``--key=value`` pairs."""
    pairs = {}
    for option, following in zip(options, [*options[1:], ""], strict=True):
        key, equals, value = option.partition("=")
        pairs[key] = value if equals else following
    return pairs
