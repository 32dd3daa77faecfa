"""Benches of these tests: without Weights & Biases, of code that keeps its version while they run."""

import pytest


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    for module in ("_plan", "_complete"):
        monkeypatch.setattr(f"wsl.bench.{module}.code_version", lambda: "this")
