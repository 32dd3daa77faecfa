"""What runs show on Weights & Biases, from the files of offline runs."""

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import wandb
from small_runs import SMALL, fit
from wandb.proto.wandb_internal_pb2 import Record

from wsl.cli import loggers, main
from wsl.tasks.dashboard import outcome_plots
from wsl.zoo import Zoo

pytestmark = [
    pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory"),
]


@pytest.fixture
def offline(folder, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    return folder


def chunks(data: bytes) -> Iterator[bytes]:
    """The records of a ``.wandb`` file: parts in blocks of 32 KiB, each with checksum, length and kind."""
    place, whole = 7, b""
    while place + 7 <= len(data):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        length, kind = struct.unpack_from("<HB", data, place + 4)
        whole += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # complete, or the last part
            yield whole
            whole = b""


def records(run: Path, *jobs: str) -> list[list[Record]]:
    """The records of the offline runs in a run's folder, one for each of these jobs."""
    found = [whole(path) for path in run.glob("wandb/offline-run-*/*.wandb")]
    by_job = {of("run", read)[0].job_type: read for read in found}
    assert len(found) == len(by_job) == len(jobs)
    return [by_job[job] for job in jobs]


def whole(path: Path) -> list[Record]:
    """The records of a file; another process may still be writing the last of them."""
    for _ in range(300):
        read = [Record.FromString(chunk) for chunk in chunks(path.read_bytes())]
        if read and read[-1].WhichOneof("record_type") == "exit":
            return read
        time.sleep(0.1)
    raise AssertionError(f"{path} does not end")


def of(kind: str, read: list[Record]) -> list:
    return [getattr(record, kind) for record in read if record.WhichOneof("record_type") == kind]


def config_of(read: list[Record]) -> dict:
    updates = [u for run in of("run", read) for u in run.config.update]
    updates += [u for change in of("config", read) for u in change.update]
    return {u.key or u.nested_key[0]: json.loads(u.value_json) for u in updates}


def history(read: list[Record]) -> dict[str, list]:
    """Name -> the values that were logged, of media a dict for each."""
    found: dict[str, list] = {}
    for entry in of("history", read):
        row: dict = {}
        for item in entry.item:
            first, *rest = item.nested_key or [item.key]
            value = json.loads(item.value_json)
            if rest:
                row.setdefault(first, {})[rest[0]] = value
            else:
                row[first] = value
        for name, value in row.items():
            found.setdefault(name, []).append(value)
    return found


def test_a_classification(zoo_path, offline):
    assert fit(zoo_path, "--histograms", "2", name="mine-seed3") == 0
    assert main(["test", "--name", "mine-seed3"]) == main(["predict", "--name", "mine-seed3"]) == 0
    trained, tested, predicted = records(offline / "runs" / "mine-seed3", "fit", "test", "predict")
    for read, job in ((trained, "fit"), (tested, "test"), (predicted, "predict")):
        (run,) = of("run", read)
        assert (run.project, run.run_group, run.display_name, run.job_type) == (
            "wsl",
            "mine",
            "mine-seed3",
            job,
        )
    config = config_of(trained)
    assert config["zoo"] == Zoo.open(zoo_path).fingerprint and config["parameters"] > 100
    assert config["code"].startswith(config["version"]) and "batch_size: 16" in config["config"]
    rows = history(trained)
    assert len(rows["train/loss"]) == len(rows["val/accuracy"]) == 2, "a value an epoch"
    assert len(rows["norms/gradients"]) == 5 and min(rows["norms/gradients"]) > 0, "steps 0, 2, … 8"
    names = {name.partition("/")[2] for name in rows if name.startswith("gradients/")}
    assert names and {f"weights/{name}" for name in names} <= rows.keys()
    values = rows[f"weights/{min(names)}"][0]
    assert values["_type"] == "histogram" and sum(values["values"]) > 0
    definitions = {metric.name: metric for metric in of("metric", trained)}
    assert definitions["val/accuracy"].summary.max and definitions["val/accuracy"].step_metric
    for stage, read in (("test", tested), ("predict", predicted)):
        (table,) = {name for name in history(read) if name.startswith(f"{stage}/confusion")}
        assert history(read)[table][0]["nrows"] == 9, "three classes by three"
    assert "test/accuracy" in history(tested)


def test_what_a_run_starts_from_is_kept(zoo_path, offline):
    assert fit(zoo_path, epochs=1) == 0
    (read,) = records(offline / "runs" / "a", "fit")
    made = {artifact.type: artifact for artifact in of("artifact", read)}
    assert {"config", "zoo", "spec"} <= made.keys()
    zoo = Zoo.open(zoo_path)
    assert made["zoo"].name == f"zoo-{zoo.fingerprint[:12]}"
    about = json.loads(made["zoo"].metadata)
    assert about == {"fingerprint": zoo.fingerprint, "paths": [zoo_path]}
    (entry,) = made["zoo"].manifest.contents
    assert entry.ref == Path(zoo_path).as_uri() and not entry.local_path, "a reference, not the bytes"
    (entry,) = made["spec"].manifest.contents
    assert Path(entry.local_path).read_text() == f"{zoo.spec}\n"
    (entry,) = made["config"].manifest.contents
    assert Path(entry.local_path).read_text() == (offline / "runs/a/config.yaml").read_text()


@pytest.mark.parametrize(
    ("task", "label", "monitor", "shown"),
    [
        ("GeneralizationPrediction", "score", "val/tau", "scatter"),
        ("INREditing", "image", "val/loss", "pictures"),
    ],
)
def test_other_tasks(zoo_path, offline, task, label, monitor, shown):
    data = ["--data", "ZooDataModule", "--data.path", zoo_path, "--data.label", label]
    run = ["--name", "a", "--group", "ours", "--monitor", monitor, "--trainer.max_epochs", "1"]
    assert main(["fit", "--model", task, *SMALL, *data, *run]) == 0
    assert main(["predict", "--name", "a"]) == 0
    trained, predicted = records(offline / "runs" / "a", "fit", "predict")
    assert of("run", trained)[0].run_group == of("run", predicted)[0].run_group == "ours"
    assert any(name.startswith(f"predict/{shown}") for name in history(predicted))
    assert ("val/pictures" in history(trained)) == (shown == "pictures")


def test_environment_variables_hold(zoo_path, offline, monkeypatch):
    for name, value in (("PROJECT", "p"), ("RUN_GROUP", "g"), ("NAME", "n"), ("JOB_TYPE", "j")):
        monkeypatch.setenv(f"WANDB_{name}", value)
    (log,) = loggers.wandb_log(Path("runs/a"), "fit", "a", None, {})
    run = log.experiment
    assert (run.project, run.group, run.name, run.job_type) == ("p", "g", "n", "j")
    run.finish()


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("mine-seed3", "mine"),
        ("mine_3", "mine"),
        ("nfn-64-s0", "nfn-64"),
        ("study/a-1", "study"),
        ("mine", "mine"),
        ("20261130-210000", None),
    ],
)
def test_experiments(name, group):
    assert loggers.experiment(name) == group


def test_a_sweep_names_runs_and_goes_online(folder, monkeypatch):
    assert loggers.default_name().replace("-", "").isdigit()
    monkeypatch.setenv("WANDB_SWEEP_ID", "sweep")
    monkeypatch.setenv("WANDB_RUN_ID", "run")
    assert loggers.default_name() == "sweep-run"
    monkeypatch.delenv("WANDB_MODE")
    asked = {}

    def refuse(**options):
        asked.update(options)
        raise wandb.errors.CommError("no network")

    monkeypatch.setattr(wandb, "init", refuse)
    with pytest.raises(loggers.CommandError, match="WANDB_MODE=online"):
        loggers.wandb_log(Path("runs/a"), "fit", "a", None, {})
    assert asked["name"] == "a" and not Path("runs/a").exists()


def test_plots_stay_small():
    count = 20_000
    numbers = {"labels": torch.rand(count).numpy(), "predictions": torch.rand(count).numpy()}
    (plot,) = outcome_plots(numbers, "test").values()
    assert len(plot.table.data) == 5000
    classes = {"labels": torch.zeros(2).numpy(), "probabilities": torch.rand(2, 101).numpy()}
    assert outcome_plots(classes, "test") == {} == outcome_plots({"rows": numbers["labels"]}, "test")
