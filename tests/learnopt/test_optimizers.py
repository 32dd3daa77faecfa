"""Functional optimizers are torch's, for every lane."""

import math

import pytest
import torch

from wsl.learnopt.optimizers import SGD, Adam, AdamW, Optimizer, PerLane, constant, cosine, linear

SHAPES = {"a": (4, 3), "b": (4,), "c": (2, 4, 3)}
LANES, STEPS = 3, 20
PAIRS = {
    "sgd": (lambda **s: SGD(0.05, **s), lambda p: torch.optim.SGD(p, 0.05)),
    "sgd, decay": (
        lambda **s: SGD(0.05, weight_decay=0.1, **s),
        lambda p: torch.optim.SGD(p, 0.05, weight_decay=0.1),
    ),
    "momentum": (lambda **s: SGD(0.05, 0.9, **s), lambda p: torch.optim.SGD(p, 0.05, 0.9)),
    "nesterov": (
        lambda **s: SGD(0.05, 0.9, nesterov=True, weight_decay=0.1, **s),
        lambda p: torch.optim.SGD(p, 0.05, 0.9, nesterov=True, weight_decay=0.1),
    ),
    "adam": (lambda **s: Adam(0.05, **s), lambda p: torch.optim.Adam(p, 0.05)),
    "adam, decay": (
        lambda **s: Adam(0.05, (0.8, 0.99), 1e-3, 0.1, **s),
        lambda p: torch.optim.Adam(p, 0.05, (0.8, 0.99), 1e-3, 0.1),
    ),
    "adamw": (
        lambda **s: AdamW(0.05, weight_decay=0.1, **s),
        lambda p: torch.optim.AdamW(p, 0.05, weight_decay=0.1),
    ),
}


def draw(generator, lanes=LANES):
    return {
        name: torch.randn(lanes, *shape, generator=generator, dtype=torch.float64)
        for name, shape in SHAPES.items()
    }


def run(optimizer, generator, steps=STEPS, grads=None):
    params, history = draw(generator), []
    state = optimizer.init(params)
    for number in range(steps):
        step = torch.full((LANES,), number)
        params, state = optimizer.update(draw(generator), state, params, step, torch.zeros(LANES))
        history.append(params)
    return history


def run_torch(make, generator, lane, schedule=None, steps=STEPS):
    params = {name: value[lane].clone().requires_grad_() for name, value in draw(generator).items()}
    optimizer, history = make(list(params.values())), []
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule or (lambda step: 1.0))
    for _ in range(steps):
        for name, grad in draw(generator).items():
            params[name].grad = grad[lane]
        optimizer.step()
        rates.step()
        history.append({name: value.detach().clone() for name, value in params.items()})
    return history


def generator():
    return torch.Generator().manual_seed(0)


def assert_same(found, expected, lane):
    for ours, theirs in zip(found, expected, strict=True):
        for name, value in theirs.items():
            torch.testing.assert_close(ours[name][lane], value, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_every_step_is_torchs(name):
    ours, theirs = PAIRS[name]
    found = run(ours(), generator())
    for lane in range(LANES):
        assert_same(found, run_torch(theirs, generator(), lane), lane)


@pytest.mark.parametrize("name", PAIRS)
def test_a_schedule_multiplies_the_rate(name):
    ours, theirs = PAIRS[name]
    schedule = cosine(15, 3)
    found = run(ours(schedule=schedule), generator())
    expected = run_torch(theirs, generator(), 1, lambda step: schedule(torch.tensor([step])).item())
    assert_same(found, expected, 1)


def test_schedules():
    steps = torch.arange(12)
    half = [(1 + math.cos(math.pi * t / 10)) / 2 for t in range(10)]
    assert cosine(10)(steps).tolist() == pytest.approx([*half, 0, 0], abs=1e-15)
    assert linear(10)(steps).tolist() == pytest.approx([1 - t / 10 for t in range(10)] + [0, 0])
    assert constant(4)(steps).tolist() == [0.25, 0.5, 0.75] + [1] * 9
    assert linear(10, 2)(steps).tolist() == pytest.approx([0.5, 1, *(1 - t / 8 for t in range(8)), 0, 0])
    assert linear(torch.tensor([4, 8]))(torch.tensor([2, 2])).tolist() == [0.5, 0.75]
    with pytest.raises(ValueError, match="warm-up of 3 updates has to end before the horizon, 3"):
        cosine(3, 3)


@pytest.mark.parametrize("name", PAIRS)
def test_each_lane_may_have_hyperparameters_of_its_own(name):
    """By broadcasting, by vmap, and lane by lane."""
    base = PAIRS[name][0]()
    spread = torch.linspace(-1, 1, LANES, dtype=torch.float64)
    thetas = {name: value.detach() + 0.3 * spread for name, value in base.named_parameters()}
    found = run(PerLane(base, thetas), generator())

    class ByVmap(PerLane):
        def update(self, *arguments):
            return Optimizer.update_each(self.optimizer, self.thetas, *arguments)

    mapped = run(ByVmap(base, thetas), generator())
    for lane in range(LANES):
        alone = PAIRS[name][0]()
        with torch.no_grad():
            for parameter, value in alone.named_parameters():
                value.copy_(thetas[parameter][lane])
        expected = [
            {name: value[lane] for name, value in params.items()} for params in run(alone, generator())
        ]
        assert_same(found, expected, lane)
        assert_same(mapped, expected, lane)


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_reach_every_hyperparameter(name):
    optimizer = PAIRS[name][0]()
    loss = sum((value**2).sum() for value in run(optimizer, generator(), steps=3)[-1].values())
    grads = torch.autograd.grad(loss, list(optimizer.parameters()))
    for parameter, grad in zip(dict(optimizer.named_parameters()), grads, strict=True):
        assert grad.isfinite(), parameter
        assert grad != 0, parameter


def test_a_gradient_of_zero_spoils_no_meta_gradient():
    optimizer, params = Adam(0.1), draw(generator())
    state, zeros = optimizer.init(params), {name: value * 0 for name, value in params.items()}
    moved = {name: value.requires_grad_() for name, value in zeros.items()}
    new, _ = optimizer.update(moved, state, params, torch.zeros(LANES, dtype=torch.int64), torch.zeros(LANES))
    loss = sum(value.sum() for value in new.values())
    for grad in torch.autograd.grad(loss, [*moved.values(), *optimizer.parameters()], materialize_grads=True):
        assert grad.isfinite().all()


def test_refused_hyperparameters():
    with pytest.raises(ValueError, match="learning_rate is 0, expected a positive number"):
        SGD(0)
    with pytest.raises(ValueError, match="first of betas is 1.0, expected a number between 0 and 1"):
        Adam(betas=(1.0, 0.9))
    with pytest.raises(ValueError, match="Nesterov"):
        SGD(0.1, nesterov=True)
    with pytest.raises(ValueError, match="Adam has no parameter rate; it has log_rate, "):
        PerLane(Adam(), {"rate": torch.zeros(2)})
    with pytest.raises(ValueError, match=r"log_rate of shape \(2, 1\)"):
        PerLane(Adam(), {"log_rate": torch.zeros(2, 1)})
    with pytest.raises(ValueError, match=r"\{'log_rate': 2, 'log_epsilon': 3\}"):
        PerLane(Adam(), {"log_rate": torch.zeros(2), "log_epsilon": torch.zeros(3)})
