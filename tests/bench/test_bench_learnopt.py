"""``bench learnopt``: trainings, tuning, tables, resumption."""

import csv
import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

import wsl
from wsl.bench import BenchError
from wsl.bench.learnopt import (
    TUNED,
    LearnedRival,
    Problem,
    Request,
    Scheduled,
    Settings,
    TunedRival,
    _bench,
    _complete,
    _plan,
    _table,
    bench_optimizers,
    measure,
    read_problems,
)
from wsl.bench.learnopt._figure import plot_problem
from wsl.cli import main
from wsl.learnopt import (
    SGD,
    Adam,
    Card,
    Muon,
    Quadratics,
    SmallFCOptimizer,
    UNFOptimizer,
    constant,
    cosine,
    evaluate,
    save,
    start,
    step_lanes,
)

QUADRATIC = {"class_path": "wsl.learnopt.Quadratics", "init_args": {"size": 3, "noise": 0.1}}
PROBLEM = Problem("small", QUADRATIC, 12)
SETTINGS = Settings(seeds=3, tuning_seeds=2, points=4)
RIVALS = (
    TunedRival("SGDM", lambda: SGD(0.1, 0.9), (0.03, 0.1, 0.3)),
    TunedRival("Adam", Adam, (0.03, 0.3)),
)
SEEDS = torch.arange(5)
PROBLEMS = sorted((Path(wsl.__file__).parents[1] / "configs" / "problems").glob("*.yaml"))


def task():
    return Quadratics(3, noise=0.1).to(dtype=torch.float64)


def unfit():
    spec = wsl.trace(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)), torch.zeros(2, 2))
    return LearnedRival("unfit", UNFOptimizer(spec, hidden=4, layers=1), "here", "1")


def fitting():
    torch.manual_seed(0)
    return LearnedRival("tiny", SmallFCOptimizer(task().spec), "here", "2")


@pytest.fixture(autouse=True)
def _settled(monkeypatch):
    monkeypatch.setattr(_bench, "code_version", lambda: "this")
    monkeypatch.setattr(_bench, "plot_problem", lambda *_: None)


def request(folder, **options):
    return Request(
        **{"out": folder, "problems": [PROBLEM], "rivals": RIVALS, "settings": SETTINGS, **options}
    )


def unrolled(optimizer, seeds, steps):
    here, losses = task(), [torch.zeros(len(seeds))]
    lanes = start(here, optimizer, seeds, steps)
    for _ in range(steps):
        lanes, loss, _ = step_lanes(here, optimizer, lanes)
        losses.append(loss)
    return lanes.params["weight"].detach(), torch.stack(losses[1:] or losses).detach()


def test_lanes_have_rates_and_schedules_of_their_own():
    settings = [(0.2, cosine(10)), (0.5, constant()), (0.1, cosine(10))]
    made = Scheduled(
        Muon(0.02), torch.tensor([rate for rate, _ in settings]), [schedule for _, schedule in settings]
    )
    weights, _ = unrolled(made, SEEDS[:3], 10)
    for lane, (rate, schedule) in enumerate(settings):
        alone = Muon(rate, schedule=schedule)
        with torch.no_grad():  # moves in proportion
            alone.others.log_rate += alone.log_rate - Muon(0.02).log_rate
        wanted, _ = unrolled(alone, SEEDS[lane : lane + 1], 10)
        assert (weights[lane] - wanted[0]).abs().max() < 1e-6  # rates were rounded to float32
    assert (weights[0] - unrolled(Muon(0.2), SEEDS[:1], 10)[0][0]).abs().max() > 1e-3


def test_losses_are_those_of_plain_trainings():
    optimizer = SGD(0.1, 0.9)
    found = measure(task(), lambda _: optimizer, SEEDS, 12, 4, lanes=64)
    assert found.steps == (0, 3, 6, 9, 12)
    known = evaluate(task(), optimizer, SEEDS, 12)
    assert torch.allclose(found.train[-1], known.final) and torch.allclose(found.mean, known.losses.mean(0))
    assert not found.diverged.any() and found.seconds > 0
    for mark, steps in enumerate(found.steps):
        weights, _ = unrolled(optimizer, SEEDS, steps)
        batches = [task().batch(SEEDS, torch.full_like(SEEDS, step), "test") for step in range(10)]
        wanted = torch.stack([task().values({"weight": weights}, batch) for batch in batches]).mean(0)
        assert torch.allclose(found.test[mark], wanted, rtol=1e-12)


def test_few_lanes_at_once_make_no_difference():
    def optimizer(rows):
        return RIVALS[0].at([(0.1 * (row + 1), "cosine") for row in rows], 12)

    one, many = (measure(task(), optimizer, SEEDS, 12, 4, lanes=lanes) for lanes in (2, 64))
    for name in ("train", "test", "mean"):
        assert torch.allclose(getattr(one, name), getattr(many, name), rtol=1e-12)


def test_what_diverges_counts_as_ten_times_its_first_loss():
    found = measure(task(), lambda _: SGD(1e20), SEEDS, 12, 4, lanes=64)
    first = found.train[0]
    assert found.diverged.all() and found.mean.isfinite().all()
    assert (found.train[1:] == found.train[1]).all() and (found.test[-1] == found.train[-1]).all()
    _, losses = unrolled(SGD(1e20), SEEDS, 1)
    assert torch.allclose(found.train[-1], 10 * losses[0])
    assert not torch.equal(found.train[-1], first)


def test_the_best_of_the_grid_is_chosen_on_other_problems(tmp_path):
    bench_optimizers(request(tmp_path))
    tuned = json.loads((tmp_path / "small" / "SGDM" / "tuning.json").read_text())
    assert len(tuned["grid"]) == 9
    for aim in ("final", "mean"):
        best = min(tuned["grid"], key=lambda row: row[aim])
        assert tuned["chosen"][aim] == [best["rate"], best["schedule"]]
        assert tuned["edge"][aim] == (best["rate"] in (0.03, 0.3))
    row = tuned["grid"][4]
    seeds = _complete._TUNING + torch.arange(2)
    known = evaluate(PROBLEM.build(), SGD(row["rate"], 0.9, schedule=cosine(12)), seeds, 12)
    assert (row["rate"], row["schedule"]) == (0.1, "cosine")
    assert row["final"] == pytest.approx(float(known.final.mean()), rel=1e-5)
    assert row["mean"] == pytest.approx(float(known.losses.mean()), rel=1e-5)


def test_results_are_of_the_chosen_settings(tmp_path):
    bench_optimizers(request(tmp_path, rivals=[*RIVALS, fitting()]))
    seeds = _complete._REPORTED + torch.arange(3)
    result = json.loads((tmp_path / "small" / "Adam" / "result.json").read_text())
    for aim, name in (("final", "final_train"), ("mean", "mean_train")):
        rate, schedule = result["chosen"][aim]
        made = {"constant": None, "cosine": cosine(12), "linear": wsl.learnopt.linear(12, 0)}[schedule]
        known = evaluate(PROBLEM.build(), Adam(rate, schedule=made), seeds, 12)
        wanted = known.final if aim == "final" else known.losses.mean(0)
        assert result[name] == pytest.approx(wanted.tolist(), rel=1e-4)
    learned = json.loads((tmp_path / "small" / "tiny" / "result.json").read_text())
    known = evaluate(PROBLEM.build(), fitting().optimizer, seeds, 12)
    assert learned["final_train"] == pytest.approx(known.final.tolist(), rel=1e-5)
    assert "chosen" not in learned and len(learned["train"]) == 3 and len(learned["train"][0]) == 5


def test_an_optimizer_of_another_type_is_compared(tmp_path):
    one = fitting()
    other = replace(one, name="wide", optimizer=fitting().optimizer.double())
    bench_optimizers(request(tmp_path, rivals=[one, other]))
    found = [json.loads((tmp_path / "small" / n / "result.json").read_text()) for n in ("tiny", "wide")]
    assert found[0]["final_train"] == pytest.approx(found[1]["final_train"], rel=1e-4)


def test_tables_curves_and_figures_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(_bench, "plot_problem", plot_problem)
    text, failed = bench_optimizers(request(tmp_path, rivals=[*RIVALS, unfit()]))
    assert failed == 0 and text == (tmp_path / "table.md").read_text()
    assert "## small: 12 steps" in text and "| unfit | - | - |" in text
    assert "unfit: does not fit: the parameters of UNF depend on the architecture" in text
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert {row["optimizer"] for row in rows} == {"SGDM", "Adam", "unfit"}
    finished = [row for row in rows if row["optimizer"] != "unfit"]
    losses = [float(row["final_train mean"]) for row in finished]
    assert losses == sorted(losses) and rows[-1]["optimizer"] == "unfit"
    assert next(row for row in rows if row["optimizer"] == "Adam")["reached"] == "3"
    curves = list(csv.DictReader((tmp_path / "curves.csv").read_text().splitlines()))
    assert len(curves) == 2 * 3 * 5
    assert {row["step"] for row in curves} == {"0", "3", "6", "9", "12"}
    assert (tmp_path / "figures" / "small.png").stat().st_size > 10_000


def test_steps_to_the_reference():
    reference = {"steps": [0, 5, 10], "train": [[3.0, 2.0, 1.0], [3.0, 1.0, 2.0], [3.0, 2.0, 1.0]]}
    other = {"steps": [0, 5, 10], "train": [[3.0, 1.0, 0.5], [3.0, 2.0, 1.5], [3.0, 2.0, 1.0]]}
    assert _table._reached(reference, reference) == [10, 5, 10]
    assert _table._reached(other, reference) == [5, None, 10]
    assert _table._reached(other, None) is None
    assert _table._steps(_table.Row(None, other, [5, None, 10])) == "10 (2 of 3)"
    assert _table._steps(_table.Row(None, other, [5, None, None])) == "never (1 of 3)"


def test_what_is_complete_is_not_done_again(tmp_path, monkeypatch):
    bench_optimizers(request(tmp_path))
    tables = {name: (tmp_path / name).read_bytes() for name in ("table.md", "curves.csv")}
    with monkeypatch.context() as patch:
        patch.setattr(_bench, "complete_trial", None)
        bench_optimizers(request(tmp_path))
    (tmp_path / "small" / "Adam" / "result.json").unlink()
    done, tune = [], _complete._tune
    monkeypatch.setattr(_complete, "_tune", lambda *given: done.append(given) or tune(*given))
    bench_optimizers(request(tmp_path))
    assert not done, "tuning was done again"
    assert tables == {name: (tmp_path / name).read_bytes() for name in tables}


def test_an_interrupted_bench_goes_on_and_ends_alike(tmp_path, monkeypatch):
    bench_optimizers(request(tmp_path / "whole"))
    calls = []

    def stop(*given):
        calls.append(given)
        if len(calls) == 4:  # Adam is tuned, and not trained
            raise KeyboardInterrupt
        return measure(*given)

    with monkeypatch.context() as patch:
        patch.setattr(_complete, "measure", stop)
        with pytest.raises(KeyboardInterrupt):
            bench_optimizers(request(tmp_path / "broken"))
    assert (tmp_path / "broken" / "small" / "Adam" / "tuning.json").is_file()
    bench_optimizers(request(tmp_path / "broken"))
    for name in ("table.md", "curves.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "broken" / name).read_bytes()


def test_other_settings_are_not_mixed(tmp_path, monkeypatch):
    bench_optimizers(request(tmp_path))
    other = [
        ({"problems": [replace(PROBLEM, horizon=13)]}, "horizon was 12, is 13"),
        ({"settings": replace(SETTINGS, seeds=4)}, "settings was"),
        ({"rivals": [replace(RIVALS[0], rates=(0.1,))]}, "SGDM: optimizer was"),
        ({"problems": [replace(PROBLEM, task={**QUADRATIC, "init_args": {"size": 4}})]}, "task was"),
    ]
    for options, said in other:
        with pytest.raises(BenchError, match=said):
            bench_optimizers(request(tmp_path, **options))
    monkeypatch.setattr(_bench, "code_version", lambda: "that")
    with pytest.raises(BenchError, match="code was this, is that"):
        bench_optimizers(request(tmp_path))
    assert "Code that" in bench_optimizers(request(tmp_path, redo=True))[0]


def test_a_trial_that_fails_does_not_stop_the_rest(tmp_path):
    class Broken(SGD):
        def update(self, *_):
            raise RuntimeError("out of order")

    broken = LearnedRival("broken", Broken(), "here", "3")
    text, failed = bench_optimizers(request(tmp_path, rivals=[broken, RIVALS[1]]))
    assert failed == 1 and "broken: failed: RuntimeError: out of order" in text and "| Adam |" in text
    with pytest.raises(BenchError, match="several optimizers are called broken"):
        bench_optimizers(request(tmp_path, rivals=[broken, broken]))
    (tmp_path / "small" / "SGDM").mkdir()
    (tmp_path / "small" / "SGDM" / "mine.txt").write_text("of somebody")
    with pytest.raises(BenchError, match="SGDM was not made by a bench"):
        bench_optimizers(request(tmp_path))


@pytest.mark.parametrize("name", ["", ".", "..", "a|b", "a/b", "a\nb"])
def test_names_that_are_none_of_folders_are_refused(tmp_path, name):
    with pytest.raises(BenchError, match="is no name for a folder and a line of a table"):
        bench_optimizers(request(tmp_path, rivals=[replace(RIVALS[0], name=name)]))


def test_a_task_that_cannot_be_built_does_not_stop_the_rest(tmp_path):
    wrong = Problem("ahead", {"class_path": "wsl.learnopt.Quadratics", "init_args": {"sizes": 2}}, 3)
    text, failed = bench_optimizers(request(tmp_path, problems=[wrong, PROBLEM]))
    assert failed == 2 and "SGDM: failed: the task of ahead cannot be built" in text
    assert (tmp_path / "small" / "SGDM" / "result.json").is_file()
    right = replace(wrong, task={**wrong.task, "init_args": {"size": 2}})
    with pytest.raises(BenchError, match="ahead/SGDM: task was"):
        bench_optimizers(request(tmp_path, problems=[right, PROBLEM]))
    assert bench_optimizers(request(tmp_path, problems=[right, PROBLEM], redo=True))[1] == 0


def test_a_bench_killed_at_any_file_goes_on(tmp_path, monkeypatch):
    """Before a folder says whose it is, while it is written, while a redone trial is deleted."""
    bench_optimizers(request(tmp_path / "whole"))
    out = tmp_path / "killed"
    (out / "small" / "SGDM").mkdir(parents=True)
    (out / "small" / "Adam").mkdir()
    (out / "small" / "Adam" / "trial.json.partial").write_text("{")
    bench_optimizers(request(out))
    for name in ("table.md", "curves.csv"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    other = {"settings": replace(SETTINGS, seeds=4), "redo": True}
    with monkeypatch.context() as patch:
        patch.setattr(_plan.shutil, "rmtree", stopped)
        with pytest.raises(KeyboardInterrupt):
            bench_optimizers(request(out, **other))
    assert bench_optimizers(request(out, **other))[1] == 0


def stopped(*_):
    raise KeyboardInterrupt


def test_files_that_are_none_of_a_bench_are_named(tmp_path):
    bench_optimizers(request(tmp_path))
    (tmp_path / "small" / "Adam" / "result.json").write_text("[]")
    with pytest.raises(
        BenchError, match=r"Adam/result.json does not read as a part of a bench. Delete .*Adam"
    ):
        bench_optimizers(request(tmp_path))


def test_problems_are_read_by_name_and_path(tmp_path):
    data = {"data": {"init_args": {"task": QUADRATIC, "horizon": 7}}}
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(data))
    (tmp_path / "none.yaml").write_text("data: {init_args: {horizon: 3}}\n")
    wrong = {"class_path": "wsl.learnopt.Quadratics", "init_args": {"sizes": 2}}
    (tmp_path / "wrong.yaml").write_text(
        yaml.safe_dump({"data": {"init_args": {"task": wrong, "horizon": 7}}})
    )
    (found,) = read_problems(tmp_path, ["one"])
    assert found == Problem("one", QUADRATIC, 7) and found.build().size == 3
    assert read_problems(tmp_path, [str(tmp_path / "one.yaml")]) == [found]
    with pytest.raises(BenchError, match="no task 'two' in .*; choose of none, one, wrong"):
        read_problems(tmp_path, ["two"])
    with pytest.raises(BenchError, match="none.yaml names no task"):
        read_problems(tmp_path)
    (faulty,) = read_problems(tmp_path, ["wrong"])
    with pytest.raises(BenchError, match="the task of wrong cannot be built: .*sizes"):
        faulty.build()
    images = {"class_path": "wsl.zoo.images.IdxImages", "init_args": {"folder": "nowhere", "part": "train"}}
    task = {"class_path": "wsl.learnopt.MlpImages", "init_args": {"train": images}}
    with pytest.raises(
        BenchError, match=r"the task of images cannot be built: nowhere does not exist;[^<]*$"
    ):
        Problem("images", task, 3).build()
    with pytest.raises(BenchError, match=r"no task 'none\.yml' in .*, or give a file"):
        read_problems(tmp_path, ["none.yml"])
    with pytest.raises(BenchError, match="holds no tasks"):
        read_problems(tmp_path / "nowhere")


@pytest.mark.parametrize("path", PROBLEMS, ids=lambda path: path.stem)
def test_given_problems_can_be_built_and_are_trained(path):
    (problem,) = read_problems(path.parent, [path.stem])
    given = problem.task.setdefault("init_args", {})
    if "train" in given:
        if not Path(given["train"]["init_args"]["folder"]).is_dir():
            pytest.skip("needs Fashion-MNIST")
        given["limit"] = 40
    made = problem.build()
    found = measure(made, lambda _: SGD(1e-3), SEEDS[:1], 2, 1, lanes=1)
    assert found.test.isfinite().all() and made.spec.parameter_count > 1


def test_the_command_compares_files_and_resumes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        logging.getLogger("wsl"), "handlers", []
    )  # of earlier tests, whose streams are closed
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs" / "problems").mkdir(parents=True)
    data = {"data": {"init_args": {"task": QUADRATIC, "horizon": 500}}}
    (tmp_path / "configs" / "problems" / "easy.yaml").write_text(yaml.safe_dump(data))
    save(fitting().optimizer, tmp_path / "tiny.safetensors", Card("a", "b", "c", "d", "e"))
    command = ["bench", "learnopt", "--configs", "configs", "--learned", "tiny.safetensors", "--smoke"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "## easy: 20 steps" in shown and "Smoke test" in shown
    assert all(f"| {name} |" in shown for name in ("tiny", *TUNED))
    monkeypatch.setattr(_bench, "complete_trial", None)
    assert main(command) == 0
    for options, said in (
        (["--optimizers", "Newton"], "no optimizer 'Newton' to tune; choose of SGDM, Adam, AdamW, Muon"),
        (["--tasks", "hard"], "no task 'hard'"),
        (["--seeds", "0"], "seeds is 0"),
        (["--threads", "0"], "threads is 0"),
        (["--lanes", "0"], "on 0 lanes"),
        (["--learned", "nothing"], "there is no file nothing"),
        (["--configs", "nowhere"], "there is no folder nowhere"),
    ):
        assert main(["bench", "learnopt", "--configs", "configs", "--out", "new", *options]) == 2
        error = capsys.readouterr().err
        assert said in error and "Traceback" not in error
    assert not (tmp_path / "new").exists()
