"""Every configuration file parses against the code, composes with the others, and runs."""

import re
import shlex
from itertools import cycle, product
from pathlib import Path

import numpy as np
import pytest
import yaml

from wsl.cli import main
from wsl.zoo._where import where

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "configs"
KINDS = {
    "augmentation",
    "bench",
    "encoder",
    "experiment",
    "learnopt",
    "problems",
    "sweep",
    "task",
    "trainer",
    "zoo",
}
AUGMENTATIONS, TASKS, ENCODERS, TRAINERS, EXPERIMENTS, ZOOS, PROBLEMS = (
    sorted((CONFIGS / kind).glob("*.yaml"))
    for kind in ("augmentation", "task", "encoder", "trainer", "experiment", "zoo", "problems")
)
TASKS.remove(CONFIGS / "task" / "learned_optimization.yaml")  # without zoo and encoder, and with own tests
INR_CLASSIFICATION = CONFIGS / "task" / "inr_classification.yaml"
CPU = CONFIGS / "trainer" / "cpu.yaml"
# what tasks take from the tests' zoo, which has no such columns as theirs
OPTIONS = {"wsl.tasks.GeneralizationPrediction": ["--data.label", "score", "--data.where", "null"]}
pytestmark = pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")


def name(path):
    return path.stem


def options(*paths):
    return [word for path in paths for word in ("--config", str(path))]


def printed(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--print_config"])
    assert stop.value.code == 0
    return yaml.safe_load(capsys.readouterr().out)


def test_every_file_is_known_to_these_tests():
    assert all((AUGMENTATIONS, TASKS, ENCODERS, TRAINERS, EXPERIMENTS, ZOOS, PROBLEMS))
    assert len(TASKS) >= len(TRAINERS), "else not every trainer is composed with each encoder"
    assert {path.parent.name for path in CONFIGS.rglob("*.yaml")} <= KINDS


@pytest.mark.parametrize("path", ENCODERS, ids=name)
def test_encoders_compose_with_every_task_and_trainer(path, capsys):
    stated = yaml.safe_load(path.read_text())["model"]["init_args"]
    for task, trainer in zip(TASKS, cycle(TRAINERS), strict=False):
        config = printed(capsys, "fit", *options(task, path, trainer))
        made = config["model"]["init_args"]
        assert made["encoder"]["class_path"] == stated["encoder"]["class_path"]
        assert made["encoder"]["init_args"].items() >= stated["encoder"].get("init_args", {}).items()
        assert made["probes"] == stated.get("probes", 0)
        assert made["optimizer"]["init_args"]["lr"] == 0.002, "what the encoder does not say stays the task's"
        wanted = yaml.safe_load(trainer.read_text())["trainer"]
        assert config["trainer"].items() >= wanted.items()


@pytest.mark.parametrize("path", PROBLEMS, ids=name)
def test_problems_are_data_of_learned_optimization(path, capsys):
    stated = yaml.safe_load(path.read_text())["data"]["init_args"]
    config = printed(capsys, "fit", *options(CONFIGS / "task" / "learned_optimization.yaml", path))
    made = config["data"]["init_args"]
    assert made["horizon"] == stated["horizon"]
    assert made["task"]["class_path"].rpartition(".")[2] == stated["task"]["class_path"].rpartition(".")[2]
    assert made["task"].get("init_args", {}).keys() >= stated["task"].get("init_args", {}).keys()


@pytest.mark.parametrize("path", AUGMENTATIONS, ids=name)
def test_augmentations_compose_with_every_task(path, capsys):
    stated = yaml.safe_load(path.read_text())["data"]["init_args"]["augmentations"]
    for task in TASKS:
        made = printed(capsys, "fit", *options(task, path))["data"]["init_args"]
        own = yaml.safe_load(task.read_text())["data"]["init_args"]["batch_size"]
        assert made["batch_size"] == own, "what it does not say stays the task's"
        assert [change["class_path"] for change in made["augmentations"]] == [c["class_path"] for c in stated]
        for found, given in zip(made["augmentations"], stated, strict=True):
            assert found.get("init_args", {}).items() >= given.get("init_args", {}).items()


@pytest.mark.parametrize("path", EXPERIMENTS, ids=name)
def test_experiments_are_complete(path, capsys):
    stated, config = yaml.safe_load(path.read_text()), printed(capsys, "fit", *options(path))
    assert config["trainer"].items() >= stated["trainer"].items()
    assert stated["monitor"].startswith("val/") and stated["mode"] in ("max", "min"), "as a bench asks"
    given = stated["model"]["init_args"]["encoder"]
    made = config["model"]["init_args"]["encoder"]
    assert made["class_path"] == given["class_path"]
    assert made["init_args"].items() >= given.get("init_args", {}).items()


@pytest.mark.parametrize("path", [path for path in EXPERIMENTS if "quickstart" not in path.stem], ids=name)
def test_experiments_say_how_they_are_made_and_what_is_published(path, capsys):
    text = path.read_text()
    said = [line[1:].strip() for line in text.splitlines() if line.startswith("#")]
    commands = re.findall(r"python -m (wsl .*?)(?=  |$)", "  ".join(said).replace("\\  ", ""))
    build, *_, bench = (shlex.split(command) for command in commands)
    assert build[1] == "zoo" and (ROOT / build[build.index("--config") + 1]).is_file()
    assert "ublished" in text and re.search(r"\d{4}\.\d{5}", text)
    made = printed(capsys, "fit", *options(path))
    zoo = made["data"]["init_args"]["path"]
    given = dict(re.findall(r"--(\w+) ([^-]\S*)", " ".join(bench)))
    wanted = {"task": str(path.relative_to(ROOT)), "zoo": zoo, "out": f"runs/{path.stem}"}
    assert bench[:3] == ["wsl", "bench", "encoders"] and given.items() >= wanted.items()
    encoders = bench[bench.index("--encoders") + 1 : bench.index("--minutes")]
    assert encoders and {CONFIGS / "encoder" / f"{encoder}.yaml" for encoder in encoders} <= set(ENCODERS)
    assert any(zoo in word for command in commands[:-1] for word in shlex.split(command))


@pytest.mark.parametrize("path", [path for path in EXPERIMENTS if "ood" in path.stem], ids=name)
def test_experiments_out_of_distribution_test_on_other_networks(path):
    """Rows of all kinds: those of training and validation are alike, those of the test are not."""
    where_of = yaml.safe_load(path.read_text())["data"]["init_args"]["where"]
    kinds = list(product((2, 3, 4, 5), (900, 9999, 10000, 90000), ("relu", "tanh")))
    depth, parameters, activation = (np.array(column) for column in zip(*kinds, strict=True))
    same = {
        "step": np.full(len(kinds), 6),
        "epochs": np.full(len(kinds), 6),
        "diverged": np.zeros(len(kinds)),
    }
    rows = {"depth": depth, "parameters": parameters, "activation": activation, **same}
    train, val, test = (
        set(where(where_of[split], rows, len(kinds)).tolist()) for split in ("train", "val", "test")
    )
    assert train == val and train and test and not train & test
    assert len(train | test) == len(kinds), "and none is left out"


@pytest.mark.parametrize("path", ZOOS, ids=name)
def test_zoos(path, capsys):
    builders = {"_cnn_": "build-classifiers", "language_": "build-language", "phases_": "build-phases"}
    command = next((command for word, command in builders.items() if word in path.stem), "build")
    stated, config = yaml.safe_load(path.read_text()), printed(capsys, "zoo", command, *options(path))
    assert config["source"]["class_path"] == stated["source"]["class_path"]


@pytest.mark.filterwarnings("ignore:Checkpoint directory")
@pytest.mark.parametrize(
    "paths",
    [
        *([INR_CLASSIFICATION, encoder, CPU] for encoder in ENCODERS),
        *([INR_CLASSIFICATION, small, path] for small in ENCODERS[:1] for path in AUGMENTATIONS),
        *([task, CONFIGS / "encoder" / "stat_net.yaml", CPU] for task in TASKS if task != INR_CLASSIFICATION),
        *([e] for e in EXPERIMENTS),
    ],
    ids=lambda paths: "+".join(map(name, paths)),
)
def test_training_runs(paths, zoo_path, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    one_step = [
        "--trainer.max_epochs",
        "1",
        "--trainer.limit_train_batches",
        "1",
        "--trainer.limit_val_batches",
        "1",
    ]
    config = yaml.safe_load(paths[0].read_text())
    run = ["--runs", str(tmp_path), "--name", "a", "--data.path", zoo_path]
    run += OPTIONS.get(config["model"]["class_path"], [])
    if "images" in config["data"]["init_args"]:  # are for classifiers, which the zoo does not hold
        run += ["--data.images", "null"]
    assert main(["fit", *options(*paths), *one_step, *run]) == 0
    assert (tmp_path / "a" / "checkpoints" / "best.ckpt").is_file()
