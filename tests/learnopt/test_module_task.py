"""Any module with a loss and data is a task, and starts as it would by itself."""

import math

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from wsl.learnopt import Adam, advance, start
from wsl.learnopt.tasks import ModuleTask

SEEDS = torch.tensor([3, 8, 3, -5])


def data(count=50):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 4, generator=generator), torch.randint(3, (count,), generator=generator)


def network():
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.LayerNorm(5), nn.Linear(5, 3))


def test_three_lines_make_a_task_that_trains():
    loader = DataLoader(TensorDataset(*data()), batch_size=8)
    task = ModuleTask(network(), F.cross_entropy, loader)
    done = advance(task, Adam(0.1), start(task, Adam(0.1), SEEDS, 100), 60)
    assert (done.losses[-5:].mean(0) < done.losses[:5].mean(0)).all()
    assert "0.weight" in str(task.spec)
    assert torch.equal(task.data["train_inputs"], data()[0])
    assert torch.equal(done.losses[:, 0], done.losses[:, 2])


def test_gradients_are_those_of_each_lane_alone():
    task = ModuleTask(network(), F.cross_entropy, data()).to(dtype=torch.float64)
    params, (inputs, targets) = task.init(SEEDS), task.batch(SEEDS, torch.tensor([0, 1, 2, 3]))
    values, grads = task.values_and_grads(params, (inputs, targets))
    for lane in range(len(SEEDS)):
        own = {name: value[lane].clone().requires_grad_() for name, value in params.items()}
        loss = F.cross_entropy(functional_call(task.module, own, (inputs[lane],)), targets[lane])
        torch.testing.assert_close(values[lane], loss.detach())
        for grad, wanted in zip(grads.values(), torch.autograd.grad(loss, list(own.values())), strict=True):
            torch.testing.assert_close(grad[lane], wanted)


def test_values_and_gradients_can_be_differentiated_again():
    task = ModuleTask(network(), F.cross_entropy, data()).to(dtype=torch.float64)
    batch, start_at = task.batch(SEEDS, torch.zeros_like(SEEDS)), task.init(SEEDS)

    def gradient(weight):
        return task.values_and_grads({**start_at, "0.weight": weight}, batch)[1]["0.weight"]

    torch.autograd.gradcheck(gradient, start_at["0.weight"].clone().requires_grad_())


@pytest.mark.parametrize("given", ["module", "function"])
def test_initial_parameters_depend_on_the_seed_of_a_lane_alone(given):
    task = ModuleTask(network() if given == "module" else network, F.cross_entropy, data())
    before = torch.get_rng_state()
    drawn = task.init(SEEDS)
    assert torch.equal(before, torch.get_rng_state())
    for lane, seed in enumerate(SEEDS):
        alone = task.init(seed[None])
        assert all(torch.equal(value[lane], alone[name][0]) for name, value in drawn.items())
    assert not torch.equal(drawn["0.weight"][0], drawn["0.weight"][1])
    assert torch.equal(drawn["2.weight"], torch.ones(4, 5))


def test_initial_parameters_are_drawn_as_the_modules_do():
    task = ModuleTask(network(), F.cross_entropy, data())
    drawn = task.init(torch.arange(400))
    for name in ("0.weight", "0.bias"):
        values = drawn[name] * math.sqrt(4)
        assert values.abs().max() <= 1
        assert values.var() == pytest.approx(1 / 3, rel=0.08)
        assert values.mean().abs() < 0.04


def test_a_module_may_overrule_what_its_parts_draw():
    class Zeros(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 3)
            self.reset_parameters()

        def reset_parameters(self):
            nn.init.zeros_(self.inner.weight)

        def forward(self, x):
            return self.inner(x)

    drawn = ModuleTask(Zeros(), F.cross_entropy, data()).init(SEEDS)
    assert not drawn["inner.weight"].any()
    assert drawn["inner.bias"].any()


def test_batches_are_functions_of_seed_step_and_split():
    task = ModuleTask(network(), F.cross_entropy, data(), test=data(9), batch_size=16)
    steps = torch.tensor([0, 4, 1, 7])
    inputs, targets = task.batch(SEEDS, steps)
    assert inputs.shape == (4, 16, 4)
    for lane in range(4):
        alone = task.batch(SEEDS[lane : lane + 1], steps[lane : lane + 1])
        assert torch.equal(inputs[lane], alone[0][0])
        assert torch.equal(targets[lane], alone[1][0])
    assert not torch.equal(inputs[0], inputs[2])
    tested, _ = task.batch(SEEDS, steps, "test")
    known = {tuple(row) for row in task.data["test_inputs"].tolist()}
    assert {tuple(row) for row in tested.flatten(0, 1).tolist()} <= known
    labels = {tuple(row.tolist()): int(label) for row, label in zip(*data(), strict=True)}
    assert [labels[tuple(row)] for row in inputs[1].tolist()] == targets[1].tolist()
    with pytest.raises(ValueError, match="no split 'val'; choose one of train, test"):
        task.batch(SEEDS, steps, "val")


def test_every_row_is_drawn_equally_often():
    rows = torch.arange(10.0)[:, None]
    task = ModuleTask(nn.Linear(1, 1), F.mse_loss, (rows, rows), batch_size=50)
    inputs, _ = task.batch(torch.full((200,), 7), torch.arange(200))
    counts = inputs.flatten().long().bincount(minlength=10)
    assert ((counts - 1000) ** 2 / 1000).sum() < 30  # chi squared with 9 degrees of freedom


def test_a_task_moves_to_another_type():
    task = ModuleTask(network(), F.cross_entropy, data())
    single = task.init(SEEDS)
    double = task.to(dtype=torch.float64).init(SEEDS)
    assert task.dtype == torch.float64
    assert all(torch.equal(single[name].double(), value) for name, value in double.items())
    assert task.data["train_targets"].dtype == torch.int64
    assert "0.weight" in str(task.spec)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (nn.Dropout(0.5), r"1 \(Dropout\) draws random numbers.*p=0"),
        (nn.BatchNorm1d(4), r"1 \(BatchNorm1d\) keeps running statistics.*track_running_stats=False"),
    ],
)
def test_refused_modules(part, message):
    with pytest.raises(ValueError, match=message):
        ModuleTask(nn.Sequential(nn.Linear(4, 4), part), F.cross_entropy, data())
    ModuleTask(nn.Sequential(nn.Linear(4, 4), part).eval(), F.cross_entropy, data())


def test_a_module_that_cannot_draw_its_parameters_is_refused_unless_a_function_builds_it():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 3))

        def forward(self, x):
            return x @ self.w

    with pytest.raises(ValueError, match=r"the module \(Own\) has parameters.*Give a function that builds"):
        ModuleTask(Own(), F.cross_entropy, data())
    drawn = ModuleTask(Own, F.cross_entropy, data()).init(SEEDS)["w"]
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], drawn[1])


def test_tied_parameters_are_one():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(self.first(x).tanh())

    task = ModuleTask(Tied, F.cross_entropy, data()).to(dtype=torch.float64)
    params = task.init(SEEDS)
    assert set(params) == {"first.weight", "first.bias", "second.bias"}
    assert all(grad.any() for grad in task.values_and_grads(params, task.batch(SEEDS, SEEDS))[1].values())


def test_other_numbers_of_targets_are_refused():
    with pytest.raises(ValueError, match="there are 50 inputs and 3 targets"):
        ModuleTask(network(), F.cross_entropy, (data()[0], data()[1][:3]))
