"""``predict --weights``: a trained task on networks of the user's own, whatever their tensors are named."""

import re
import sys

import pytest
import tiny_zoo
import torch
from small_runs import SMALL
from torch import nn

from wsl.cli import main
from wsl.models import Siren
from wsl.tasks.own_network import load_task
from wsl.zoo import Zoo

pytestmark = pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")

OWN = """
import torch
from torch import nn

class Own(nn.Module):
    def __init__(self, width=6, w0=30):
        super().__init__()
        self.w0 = w0
        self.first, self.second, self.last = nn.Linear(2, width), nn.Linear(width, 5), nn.Linear(5, 1)

    def forward(self, x):
        return self.last(torch.sin(self.w0 * self.second(torch.sin(self.w0 * self.first(x)))))
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_network.py").write_text(OWN)
    sys.path.insert(0, str(folder))
    yield "own_network:Own"
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def checkpoint(zoo_path, tmp_path_factory):
    return fit(zoo_path, tmp_path_factory.mktemp("runs"))


def fit(data, runs):
    task = ["--model", "GeneralizationPrediction", *SMALL, "--data", "ZooDataModule", "--data.label", "score"]
    limits = ["--trainer.max_epochs", "1", "--monitor", "val/tau", "--runs", str(runs), "--name", "a"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "disabled")
        assert main(["fit", *task, "--data.path", data, *limits]) == 0
    return str(runs / "a" / "checkpoints" / "best.ckpt")


def predict(capsys, *arguments):
    code = main(["predict", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def expected(checkpoint, zoo_path):
    task = load_task(checkpoint).requires_grad_(False)
    return float(task.read_out(task(Zoo.open(zoo_path).weights([3])))["predictions"])


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_it_predicts_for_a_file_of_weights(checkpoint, zoo_path, folder, own, capsys, suffix):
    weights = Zoo.open(zoo_path).weights([3])
    state = {name: tensor[0] for name, tensor in weights.items()}
    names = [f"{layer}.{kind}" for layer in ("first", "second", "last") for kind in ("weight", "bias")]
    state = dict(zip(names, state.values(), strict=True))
    if suffix == "pt":
        torch.save(state, "mine.pt")
    else:
        pytest.importorskip("safetensors.torch").save_file(state, "mine.safetensors")
    capsys.readouterr()
    given = ["--ckpt", checkpoint, "--weights", f"mine.{suffix}", "--module", own, "--input", "4,2"]
    code, out, _ = predict(capsys, *given)
    assert code == 0 and out == f"predictions of score  {expected(checkpoint, zoo_path):.4f}\n"


def test_a_task_for_any_architecture_takes_another_one(zoo_path, folder, own, capsys):
    other = str(tiny_zoo.build(folder / "other.h5", images=20, hidden=(7, 5)).path)
    checkpoint = fit(f"[{zoo_path}, {other}]", folder)
    network = Siren(2, [9], 1, generator=torch.Generator().manual_seed(0))
    torch.save(network.state_dict(), "mine.pt")
    capsys.readouterr()
    arguments = '{"in_features": 2, "hidden": [9], "out_features": 1}'
    given = ["--ckpt", checkpoint, "--weights", "mine.pt", "--input", "4,2"]
    code, out, _ = predict(capsys, *given, "--module", "wsl.models:Siren", "--arguments", arguments)
    assert code == 0 and out.startswith("predictions of score  ") and 0 < float(out.split()[-1]) < 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--arguments": '{"width": 7}'}, "another architecture than those that the model was trained on"),
        (
            {"--arguments": '{"w0": 20}'},
            r"something else of its weights than wsl.models:Siren with \{.*'hidden': \[6, 5\](.|\n)*\(w0\)",
        ),
        ({"--ckpt": "nowhere.ckpt"}, "there is no checkpoint nowhere.ckpt"),
        ({"--ckpt": "mine.pt"}, "mine.pt is no checkpoint"),
        ({"--weights": "nowhere.pt"}, "nowhere.pt"),
        ({"--weights": "broken.pt"}, "broken.pt is no file of torch.save"),
        ({"--weights": "other.pt"}, "other.pt does not hold the weights of Own"),
        ({"--module": "own_network:Missing"}, "own_network:Missing cannot be imported"),
        ({"--input": "4,3"}, "cannot run on the example inputs|does not run|shapes cannot be multiplied"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_said(checkpoint, folder, own, capsys, change, message):
    width = 7 if "width" in change.get("--arguments", "") else 6
    torch.save(nn.Sequential(nn.Linear(2, 3)).state_dict(), "other.pt")
    (folder / "broken.pt").write_bytes(b"PK broken")
    from own_network import Own

    torch.save(Own(width).state_dict(), "mine.pt")
    capsys.readouterr()
    given = {"--ckpt": checkpoint, "--weights": "mine.pt", "--module": own, "--input": "4,2", **change}
    code, out, err = predict(capsys, *(word for pair in given.items() for word in pair))
    assert code == 2 and out == ""
    assert re.search(message, err)
