import sys
from functools import partial
from itertools import pairwise

import pytest
import torch

from wsl.encoders import Encoder, FlatMLP, GraphMetanetwork
from wsl.tasks import Edit, Recipe, TaskError, WarmupCosine, describe
from wsl.tasks.factories import value_to_plain


def test_classes_and_partials_are_described_by_their_public_path():
    assert describe("encoder", GraphMetanetwork) == Recipe("wsl.encoders.GraphMetanetwork", {})
    optimizer = describe("optimizer", partial(torch.optim.AdamW, lr=0.1, betas=(0.8, 0.9)))
    assert optimizer.to_dict() == {
        "class_path": "torch.optim.AdamW",
        "init_args": {"lr": 0.1, "betas": [0.8, 0.9]},
    }
    assert optimizer.load(torch.optim.Optimizer) is torch.optim.AdamW
    assert Recipe.from_dict(optimizer.to_dict()) == optimizer
    assert describe("schedule", WarmupCosine).load(object) is WarmupCosine


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda spec: FlatMLP(spec), "encoder is <function"),
        (partial(FlatMLP, hidden=torch.ones(2)), "encoder.hidden is a Tensor"),
        (partial(lambda spec, hidden: None, hidden=3), "expected a class"),
    ],
)
def test_what_a_checkpoint_cannot_hold_is_refused(factory, message):
    with pytest.raises(TaskError, match=message):
        describe("encoder", factory)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("wsl.encoders.Nothing", "cannot be imported"),
        ("wsl.nowhere.Nothing", "cannot be imported"),
        ("antigravity.Thing", "does not choose what is imported"),
        ("Thing", "does not choose what is imported"),
        ("wsl.encoders", "is no Encoder"),
        ("torch.optim.AdamW", "is no Encoder"),
        ("subprocess.Popen", "is no Encoder"),
    ],
)
def test_a_checkpoint_names_encoders_only(path, message):
    with pytest.raises(TaskError, match=message):
        Recipe(path, {}).factory(Encoder)
    assert "antigravity" not in sys.modules


def test_no_recipe():
    with pytest.raises(TaskError, match="is no recipe"):
        Recipe.from_dict({"path": "wsl.encoders.FlatMLP"})


class NoDataclass(Edit):
    def __call__(self, images):
        return images


def test_values_that_a_checkpoint_could_not_hold():
    with pytest.raises(TaskError, match="NoDataclass is no dataclass"):
        value_to_plain(NoDataclass())


def test_warmup_cosine_rises_and_falls():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    schedule = WarmupCosine(optimizer, 100, warmup=0.1, floor=0.05)
    rates = []
    for _ in range(120):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert rates[0] == pytest.approx(2 / 11) and rates[10] == 2.0 == max(rates)
    assert all(a < b for a, b in pairwise(rates[:11]))
    assert all(a > b for a, b in pairwise(rates[10:100]))
    assert rates[100:] == pytest.approx([0.1] * 20), "it stays at the floor"


def test_the_schedules_shape_comes_from_its_arguments_also_after_loading():
    def make(steps):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        return WarmupCosine(optimizer, steps)

    first, second = make(10), make(20)
    first.optimizer.step()
    first.step()
    second.load_state_dict(first.state_dict())
    assert second.total_steps == 20 and second.last_epoch == 1


@pytest.mark.parametrize("arguments", [{"total_steps": 0}, {"total_steps": 5, "warmup": 2.0}])
def test_impossible_schedules(arguments):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    with pytest.raises(ValueError, match="expected at least one step"):
        WarmupCosine(optimizer, **arguments)
