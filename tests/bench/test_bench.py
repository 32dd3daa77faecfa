"""A whole bench in small: equal steps for all, tables and figure, nothing done twice."""

import pytest
from small_benches import BENCH_WARNINGS, files, small_bench, table

from wsl.cli import training
from wsl.report import learning_curves

pytestmark = BENCH_WARNINGS


def test_tables_and_figure_and_nothing_is_done_twice(zoo_path, tmp_path, monkeypatch):
    text, failed = small_bench(zoo_path, tmp_path, seeds=2)
    out = tmp_path / "out"
    assert failed == 0 and (out / "table.md").read_text() == text
    assert text.splitlines()[0].split(" | ")[4:6] == ["val/accuracy", "test/accuracy"]
    assert " ± " in text and "12 steps of training" in text and "2 seeds" in text
    assert (out / "figure.png").stat().st_size > 5000
    runs = table(out / "runs.csv")
    assert [(run["encoder"], run["seed"]) for run in runs] == [
        ("flat", "0"), ("stat", "0"), ("flat", "1"), ("stat", "1"),
    ]  # fmt: skip
    assert {(run["state"], run["steps"], run["message"]) for run in runs} == {("done", "12", "")}
    rows = {row["encoder"]: row for row in table(out / "table.csv")}
    own = [float(run["test/accuracy"]) for run in runs if run["encoder"] == "flat"]
    assert float(rows["flat"]["test/accuracy mean"]) == pytest.approx(sum(own) / 2)
    assert float(rows["flat"]["test/accuracy deviation"]) == pytest.approx(abs(own[0] - own[1]) / 2**0.5)
    assert rows["flat"]["finished"] == "2" and float(rows["stat"]["networks_per_second"]) > 0
    assert len(learning_curves(out / "flat" / "seed0", by="step")["val/accuracy"][0]) == 12

    before = files(out)
    monkeypatch.setattr(training, "run", lambda options: pytest.fail(f"done again: {options}"))
    assert small_bench(zoo_path, tmp_path, seeds=2) == (text, 0)
    assert files(out).keys() == before.keys()
    assert {p for p, content in files(out).items() if content != before[p]} <= {out / "figure.png"}
