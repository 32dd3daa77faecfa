"""The notebooks run from their first cell to the last, and are stored without outputs."""

import json
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SLOW = ("predict_generalization", "write_your_own_encoder")
LEAST = {  # how printed lines begin, and what the number at their end has to exceed
    "quickstart": {"held-out accuracy": 0.4},
    "build_your_own_zoo": {"row ": 0.85},
    "predict_generalization": {"StatNet: R2": 0.4, "FastGraphMetanetwork: R2": 0.4},
    "trace_your_own_network": {"accuracy on images not trained on": 0.6},
    "write_your_own_encoder": {"test networks": 0.35},
}


def test_each_notebook_has_a_bar():
    assert {path.stem for path in NOTEBOOKS} == set(LEAST)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_without_outputs(path):
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and not any(cell["outputs"] or cell["execution_count"] for cell in code)


def slow(path):
    return pytest.param(path, marks=[pytest.mark.slow] if path.stem in SLOW else [], id=path.stem)


@pytest.mark.filterwarnings("default")  # of the notebook client and the kernel's sockets
@pytest.mark.parametrize("path", [slow(path) for path in NOTEBOOKS])
def test_runs(path, tmp_path, monkeypatch):
    if "to_pandas" in path.read_text():
        pytest.importorskip("pandas")
    found = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", found)
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    lines = [
        line
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream"
        for line in output.text.splitlines()
    ]
    for start, least in LEAST[path.stem].items():
        numbers = [float(line.split()[-1]) for line in lines if line.startswith(start)]
        assert numbers and min(numbers) > least, (start, lines)
