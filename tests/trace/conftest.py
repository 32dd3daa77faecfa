"""The seed of the random programs: anew for every run, printed, and given back by an environment variable."""

import os
import secrets

import pytest

VARIABLE = "WSL_PROGRAM_SEED"
_SEED = int(os.environ.get(VARIABLE) or secrets.randbelow(2**31))
_used: set[int] = set()


@pytest.fixture
def program_seed() -> int:
    """The seed of this run; the summary at its end says how to repeat it."""
    _used.add(_SEED)
    return _SEED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _used:
        terminalreporter.write_line(f"random programs were drawn from seed {_SEED}: {VARIABLE}={_SEED}")
