"""Comparisons of encoders under equal budgets: plans, budgets, processes, tables. Knows no Lightning."""

from wsl.bench._bench import bench
from wsl.bench._budget import Budget, Length
from wsl.bench._code import code_version
from wsl.bench._complete import complete_run
from wsl.bench._config import overlay
from wsl.bench._errors import BenchError
from wsl.bench._lock import only_bench
from wsl.bench._plan import SMOKE_BUDGET, Request, plan_runs
from wsl.bench._pool import run_processes
from wsl.bench._run import Run
from wsl.bench._table import read_tables

__all__ = [
    "SMOKE_BUDGET",
    "BenchError",
    "Budget",
    "Length",
    "Request",
    "Run",
    "bench",
    "code_version",
    "complete_run",
    "only_bench",
    "overlay",
    "plan_runs",
    "read_tables",
    "run_processes",
]
