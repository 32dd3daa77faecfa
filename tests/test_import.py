"""``import wsl`` stays small, and its public names are what the README says."""

import subprocess
import sys

import pytest

import wsl

HEAVY = ("lightning", "pytorch_lightning", "torchmetrics", "wandb", "h5py", "torch_geometric", "matplotlib")
HEAVY += ("sklearn", "scipy", "pandas", "jsonargparse", "rich", "PIL", "yaml", "hypothesis", "pytest")


def run_python(code: str) -> str:
    """Standard output of ``code`` in a fresh interpreter, which must end without error."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def new_modules(before: str, after: str) -> set[str]:
    """Top-level modules that ``after`` loads on top of ``before``."""
    code = f"import sys\n{before}\nold = set(sys.modules)\n{after}\nprint(*(set(sys.modules) - old))"
    return {name.partition(".")[0] for name in run_python(code).split()}


def test_import_loads_only_torch_and_numpy():
    loaded = new_modules("import torch, numpy", "import wsl")
    foreign = {name for name in loaded if name not in sys.stdlib_module_names and not name.startswith("_")}
    assert foreign - {"wsl", "torch", "numpy"} == set()


def test_the_check_above_sees_a_heavy_import():
    assert new_modules("import sys", "import yaml") & set(HEAVY) == {"yaml"}


def test_the_core_loads_nothing_heavy():
    core = "import wsl.spec, wsl.symmetry, wsl.models, wsl.graph, wsl.nn, wsl.encoders"
    assert new_modules("import torch, numpy", core).isdisjoint(HEAVY)


def test_import_costs_less_than_torch():
    timed = "start = time.process_time(); import {}; print(time.process_time() - start)"
    torch_cost, wsl_cost = run_python(
        "\n".join(["import time", timed.format("torch"), timed.format("wsl")])
    ).split()
    assert float(wsl_cost) < 0.25 * float(torch_cost)


def test_every_public_name_resolves():
    for name in wsl.__all__:
        assert getattr(wsl, name) is not None
    assert set(wsl.__all__) <= set(dir(wsl))


def test_functions_are_not_shadowed_by_modules():
    import wsl.trace

    assert callable(wsl.trace)
    assert callable(wsl.verify)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        wsl.nonsense  # noqa: B018
