"""Every task of ``configs/bench`` is benched: stopped in the middle it goes on, and redoes nothing."""

from math import isfinite

import pytest
import yaml
from small_benches import (
    BENCH_WARNINGS,
    CONFIGS,
    STATISTICS,
    files,
    in_process,
    request,
    table,
    write_encoder,
)

from wsl.bench import SMOKE_BUDGET, Budget, bench
from wsl.cli import embeddings, training
from wsl.tasks import BaseTask

pytestmark = BENCH_WARNINGS
SETS = {"class_path": "wsl.encoders.DeepSets", "init_args": {"channels": 8, "layers": 1, "frequencies": 2}}
ENCODERS, STEPS = {"stat": STATISTICS, "sets": SETS}, 6
TASKS = sorted(path.stem for path in (CONFIGS / "bench").glob("*.yaml"))
SHOWN = {
    "inr_classification": "accuracy",
    "generalization_prediction": "tau",
    "inr_editing": "loss",
    "autoencoding": "loss",
    "contrastive": "probe_accuracy",
}
COMPARED = {
    "inr_editing": "below copying the input",
    "autoencoding": "below the mean signal",
    "contrastive": "untrained",
}


def asked(task, zoo_path, folder, *encoders, **changes):
    """The bench of the task, on columns that the zoo of tests has; all of ``configs/encoder`` by default."""
    folder.mkdir(exist_ok=True)
    config = yaml.safe_load((CONFIGS / "bench" / f"{task}.yaml").read_text())
    if task == "generalization_prediction":
        config["data"]["init_args"] |= {"label": "score", "where": {"test": "score > 0"}}
    (folder / f"{task}.yaml").write_text(yaml.safe_dump(config))
    chosen = [write_encoder(folder, name, ENCODERS[name]) for name in encoders]
    chosen = chosen or sorted(map(str, (CONFIGS / "encoder").glob("*.yaml")))
    asked = {"task": str(folder / f"{task}.yaml"), "budget": Budget(STEPS, "steps"), **changes}
    return request(zoo_path, folder, encoders=chosen, **asked)


begin = BaseTask.on_train_batch_start


def stop(task, *args):
    """Ctrl-C in the fifth step of the second encoder, not while its steps are timed."""
    second = type(task.encoder).__name__ == "DeepSets" and task.trainer.max_steps == STEPS
    if second and task.global_step == 4:
        raise KeyboardInterrupt
    begin(task, *args)


def test_every_task_is_known_to_these_tests():
    assert set(SHOWN) == set(TASKS)


@pytest.mark.parametrize(
    "task", [pytest.param(t, marks=[] if t == "contrastive" else pytest.mark.slow) for t in TASKS]
)
def test_a_bench_that_is_stopped_goes_on_and_redoes_nothing(task, zoo_path, tmp_path, monkeypatch):
    text, failed = bench(asked(task, zoo_path, tmp_path / "whole", "sets"), in_process)
    metrics = [f"val/{SHOWN[task]}", f"test/{SHOWN[task]}"]
    assert failed == 0 and text.splitlines()[0].split(" | ")[4:6] == metrics
    assert COMPARED.get(task, "encoder") in text.splitlines()[0]

    both = asked(task, zoo_path, tmp_path / "broken", "stat", "sets")
    with monkeypatch.context() as patch:
        patch.setattr(BaseTask, "on_train_batch_start", stop)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            bench(both, in_process)
    first, second = (both.out / name / "seed0" for name in ("stat", "sets"))
    done = files(first)
    assert first / "result.json" in done and not (second / "training.json").exists()

    commands = []
    for module in (training, embeddings):

        def note(options, run=module.run):
            commands.append(options[0])
            return run(options)

        monkeypatch.setattr(module, "run", note)
    assert bench(both, in_process)[1] == 0
    assert commands == ["fit", "test", *(["probe"] * 2 if task == "contrastive" else [])], "of the second run"
    assert files(first) == done
    whole, broken = (table(tmp_path / name / "out/runs.csv")[-1] for name in ("whole", "broken"))
    assert [whole[name] for name in metrics] == [broken[name] for name in metrics]
    assert all(isfinite(float(whole[name])) for name in metrics)
    commands.clear()
    assert bench(both, in_process)[1] == 0 and commands == []


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_smoke_test_tries_every_encoder(task, zoo_path, tmp_path):
    smoke = asked(task, zoo_path, tmp_path, budget=SMOKE_BUDGET, smoke=True)
    _, failed = bench(smoke, in_process)
    runs = table(tmp_path / "out/runs.csv")
    assert failed == 0, [(run["encoder"], run["message"]) for run in runs if run["message"]]
    assert len(runs) == len(smoke.encoders) and {run["steps"] for run in runs} == {"4"}
