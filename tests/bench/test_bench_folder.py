"""What else a bench may find in its folder: other settings, other files, failed runs; code that changes."""

import pytest
from small_benches import (
    BENCH_WARNINGS,
    FLAT,
    files,
    in_process,
    request,
    small_bench,
    table,
    write_encoder,
)

from wsl.bench import BenchError, Budget, bench

pytestmark = BENCH_WARNINGS


def test_other_settings_are_refused_or_made_anew(zoo_path, tmp_path, monkeypatch):
    asked = request(zoo_path, tmp_path, encoders=[write_encoder(tmp_path, "flat", FLAT)])
    bench(asked, in_process)
    before = files(tmp_path / "out")
    for changes, said in (
        ({"budget": Budget(13, "steps")}, "budget was 12 steps, is 13 steps"),
        ({"smoke": True}, "configuration was"),
    ):
        with pytest.raises(BenchError, match=said) as refused:
            small_bench(zoo_path, tmp_path, **{"encoders": asked.encoders, **changes})
        assert "out/flat/seed0" in str(refused.value) and "--redo" in str(refused.value)
    with monkeypatch.context() as patch:
        patch.setattr("wsl.bench._plan.code_version", lambda: "other")
        with pytest.raises(BenchError, match="code was this, is other"):
            bench(asked, in_process)
    assert files(tmp_path / "out") == before
    changed = small_bench(zoo_path, tmp_path, encoders=asked.encoders, budget=Budget(4, "steps"), redo=True)
    assert "4 steps of training" in changed[0]
    assert [run["steps"] for run in table(tmp_path / "out/runs.csv")] == ["4"]


def test_code_that_changes_under_a_bench_is_noticed(zoo_path, tmp_path, monkeypatch):
    monkeypatch.setattr("wsl.bench._complete.code_version", lambda: "newer")
    assert small_bench(zoo_path, tmp_path, encoders=[write_encoder(tmp_path, "flat", FLAT)])[1] == 1
    assert "the code is newer, but the bench began with" in (tmp_path / "out/runs.csv").read_text()


def test_what_is_no_bench_is_left_alone(zoo_path, tmp_path):
    mine = tmp_path / "out" / "flat" / "seed0"
    mine.mkdir(parents=True)
    (mine / "notes.txt").write_text("mine")
    for redo in (False, True):
        with pytest.raises(BenchError, match="was not made by a bench"):
            small_bench(zoo_path, tmp_path, redo=redo)
    assert files(mine) == {mine / "notes.txt": b"mine"}


def test_a_failed_run_is_reported_and_tried_again(zoo_path, tmp_path, caplog):
    encoders = [
        write_encoder(tmp_path, "flat", FLAT),
        write_encoder(tmp_path, "probing", FLAT, probes=4),
    ]
    with caplog.at_level("INFO", logger="wsl"):
        text, failed = small_bench(zoo_path, tmp_path, encoders=encoders)
    assert failed == 1 and "probing/seed0: failed: probes is 4, but FlatMLP has no" in caplog.text
    assert "| probing | - | - | - | - | - (0 of 1 runs; 1 failed, see runs.csv) |" in text
    (run,) = (run for run in table(tmp_path / "out/runs.csv") if run["encoder"] == "probing")
    assert run["state"] == "failed" and run["message"].startswith("probes is 4, but FlatMLP")
    assert "earlier" not in run["message"]
    write_encoder(tmp_path, "probing", FLAT)
    with pytest.raises(BenchError, match="configuration was"):
        small_bench(zoo_path, tmp_path, encoders=encoders)
    assert small_bench(zoo_path, tmp_path, encoders=encoders, redo=True)[1] == 0
