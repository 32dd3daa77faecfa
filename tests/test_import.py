"""``import wsl`` stays small, and every public name is there."""

import json
import subprocess
import sys

import pytest

import wsl

HEAVY = {"lightning", "pytorch_lightning", "torchmetrics", "wandb", "h5py", "torch_geometric", "matplotlib"}
HEAVY |= {"sklearn", "scipy", "pandas", "jsonargparse", "rich", "PIL", "yaml", "hypothesis", "pytest"}
CORE = [
    "wsl.spec",
    "wsl.symmetry",
    "wsl.align",
    "wsl.augment",
    "wsl.models",
    "wsl.graph",
    "wsl.nn",
    "wsl.encoders",
]

IMPORT_IN_TURN = """
import importlib, json, sys
for group in {groups}:
    old = set(sys.modules)
    for name in group:
        importlib.import_module(name)
    print(json.dumps(sorted(set(sys.modules) - old)))
"""


def import_in_turn(*groups: list[str]) -> list[set[str]]:
    """Top-level names that each group of modules adds to those before it, in one fresh interpreter."""
    code = IMPORT_IN_TURN.format(groups=list(groups))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [{name.partition(".")[0] for name in json.loads(line)} for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def loaded() -> list[set[str]]:
    return import_in_turn(["torch", "numpy"], ["wsl"], CORE)


def test_import_loads_only_torch_and_numpy(loaded):
    foreign = {n for n in loaded[1] if n not in sys.stdlib_module_names and not n.startswith("_")}
    assert foreign - {"wsl", "torch", "numpy"} == set()
    assert HEAVY.isdisjoint(loaded[0] | loaded[1])


def test_the_core_loads_nothing_heavy(loaded):
    assert HEAVY.isdisjoint(loaded[2])


def test_a_heavy_import_would_be_seen():
    assert import_in_turn(["json"], ["yaml"])[1] & HEAVY == {"yaml"}


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
