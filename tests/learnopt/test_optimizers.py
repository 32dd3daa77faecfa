"""Functional optimizers are torch's, for every lane."""

import math

import pytest
import torch

from wsl.learnopt.optimizers import SGD, Adam, AdamW, Lion, Muon, Optimizer, PerLane, constant, cosine, linear
from wsl.learnopt.optimizers._muon import orthogonalised


class PlainLion(torch.optim.Optimizer):
    """The published program, line by line."""

    def __init__(self, params, lr, b1, b2, decay):
        super().__init__(params, {"lr": lr})
        self.b1, self.b2, self.decay = b1, b2, decay

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                with torch.no_grad():
                    m = self.state[p].get("m", torch.zeros_like(p))
                    update = torch.sign(m * self.b1 + p.grad * (1 - self.b1))
                    self.state[p]["m"] = m * self.b2 + p.grad * (1 - self.b2)
                    p -= group["lr"] * (update + self.decay * p)


class PlainMuon(torch.optim.Optimizer):
    """Torch's Muon with its Newton-Schulz iteration in float64, AdamW for what is no matrix."""

    def __init__(self, params, lr, decay, nesterov, adamw_lr):
        matrices = [p for p in params if p.ndim > 1]
        super().__init__(matrices, {"lr": lr})
        self.decay, self.nesterov = decay, nesterov
        self.rest = torch.optim.AdamW([p for p in params if p.ndim < 2], adamw_lr, weight_decay=0.01)

    def step(self):
        a, b, c = 3.4445, -4.7750, 2.0315
        rate = self.param_groups[0]["lr"]
        self.rest.param_groups[0]["lr"] = self.rest.defaults["lr"] * rate / self.defaults["lr"]
        self.rest.step()
        for p in self.param_groups[0]["params"]:
            with torch.no_grad():
                m = self.state[p].get("m", torch.zeros_like(p))
                m = self.state[p]["m"] = m + 0.05 * (p.grad - m)
                x = (p.grad + 0.95 * (m - p.grad) if self.nesterov else m).flatten(1)
                x = x / x.norm().clamp(min=1e-7)
                for _ in range(5):
                    x = a * x + b * x @ x.T @ x + c * x @ x.T @ x @ x.T @ x
                p *= 1 - rate * self.decay
                p -= rate * max(1, x.shape[0] / x.shape[1]) ** 0.5 * x.view_as(p)


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
    "lion": (lambda **s: Lion(0.05, **s), lambda p: PlainLion(p, 0.05, 0.9, 0.99, 0)),
    "lion, decay": (
        lambda **s: Lion(0.05, (0.8, 0.9), 0.1, **s),
        lambda p: PlainLion(p, 0.05, 0.8, 0.9, 0.1),
    ),
    "muon": (lambda **s: Muon(0.05, **s), lambda p: PlainMuon(p, 0.05, 0, True, 3e-4)),
    "muon, decay": (
        lambda **s: Muon(0.05, 0.95, False, 0.1, AdamW(0.01, **s), **s),
        lambda p: PlainMuon(p, 0.05, 0.1, False, 0.01),
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
        if name not in ("lion", "lion, decay") or parameter in ("log_rate", "log_weight_decay"):
            assert grad != 0, parameter  # no derivative passes Lion's signs


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


def test_muon_is_torchs_but_for_its_bfloat16():
    shape, drawn = (3, 12, 5), torch.Generator().manual_seed(0)
    start = torch.randn(shape, generator=drawn, dtype=torch.float64)
    rule, params = Muon(0.02, weight_decay=0.1), {"w": start}
    state, peers = rule.init(params), [start[lane].clone().requires_grad_() for lane in range(3)]
    theirs = [torch.optim.Muon([peer], 0.02, 0.1) for peer in peers]
    for number in range(5):
        grad = torch.randn(shape, generator=drawn, dtype=torch.float64)
        step, loss = torch.full((3,), number), torch.zeros(3)
        params, state = rule.update({"w": grad}, state, params, step, loss)
        for lane, peer in enumerate(peers):
            peer.grad = grad[lane]
            theirs[lane].step()
    moved = params["w"] - start
    found = torch.stack([peer.detach() for peer in peers]) - start
    assert (moved - found).norm() < 0.02 * moved.norm()


@pytest.mark.parametrize("shape", [(2, 6, 9), (2, 9, 6)])
def test_orthogonalised_matrices_have_singular_values_near_one(shape):
    matrices = torch.randn(shape, generator=generator(), dtype=torch.float64)
    u, s, v = torch.linalg.svd(matrices, full_matrices=False)
    found = orthogonalised(matrices)
    _, values, _ = torch.linalg.svd(found)
    assert ((values > 0.6) & (values < 1.3)).all()
    inner = u.mT @ found @ v.mT
    torch.testing.assert_close(inner, torch.diag_embed(inner.diagonal(dim1=1, dim2=2)), rtol=0, atol=1e-10)
    assert s.min() > 0
    assert not orthogonalised(matrices * 0).any()
