"""Estimates of meta-gradients against closed forms and against a loop without any of the package's parts."""

import math

import pytest
import torch
from known_quadratic import CURVATURES, NoisyQuadratic

from wsl.learnopt._random import next_seeds
from wsl.learnopt.estimators import (
    PES,
    EstimatorState,
    FullBackprop,
    FullES,
    Objective,
    TruncatedBackprop,
    TruncatedES,
)
from wsl.learnopt.optimizers import SGD
from wsl.learnopt.tasks import TaskFamily
from wsl.learnopt.truncation import Constant

HORIZON, STEPS, RATE, LANES = 12, 3, 0.25, 10_000
FAR = Objective(bound=1e9)  # nothing is cut off


class Together(Constant):
    """All lanes begin together."""

    def staggered(self, seeds):
        return self.horizons(seeds)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def samples(estimator, optimizer, task, meta_steps, seed=0):
    """The gradients of several meta-steps from one state on, all lanes in each."""
    draws = generator(seed)
    state, found = estimator.start(optimizer, task, draws), []
    for _ in range(meta_steps):
        grads, state, _ = estimator.estimate(optimizer, task, state, draws)
        found.append(float(grads["log_rate"]))
    return found, state


def repeated(make, meta_steps, blocks=50):
    """Mean and standard error of one lane's gradient over a whole training, from blocks of lanes."""
    task, optimizer = NoisyQuadratic(), SGD(RATE)
    means = torch.tensor(
        [
            sum(samples(make(LANES // blocks), optimizer, task, meta_steps, seed=block)[0]) / meta_steps
            for block in range(blocks)
        ],
        dtype=torch.float64,
    )
    return float(means.mean()), float(means.std() / math.sqrt(blocks))


def exact():
    return NoisyQuadratic().exact(math.log(RATE), HORIZON)[1]


def test_the_closed_form_is_the_slope_of_what_lanes_lose():
    task = NoisyQuadratic()
    grads, _, figures = FullBackprop(Constant(HORIZON), 20_000, FAR).estimate(
        SGD(RATE), task, None, generator()
    )
    loss, slope = task.exact(math.log(RATE), HORIZON)
    assert figures["loss"] == pytest.approx(loss, rel=0.01)
    assert float(grads["log_rate"]) == pytest.approx(slope, rel=0.03)


def test_persistent_evolution_strategies_have_no_bias():
    mean, error = repeated(lambda pairs: PES(Together(HORIZON), STEPS, pairs, 0.03, FAR), HORIZON // STEPS)
    assert abs(mean - exact()) < 2 * error
    assert error < 0.1 * abs(exact()), "else the bias of truncation would not show"


def test_truncated_evolution_strategies_have_a_bias():
    mean, error = repeated(
        lambda pairs: TruncatedES(Together(HORIZON), STEPS, pairs, 0.03, FAR), HORIZON // STEPS
    )
    assert abs(mean - exact()) > 10 * error


def test_full_evolution_strategies_have_no_bias():
    mean, error = repeated(lambda pairs: FullES(Constant(HORIZON), pairs, 0.03, FAR), 1)
    assert abs(mean - exact()) < 2 * error


@pytest.mark.parametrize("kind", ["full", "truncated", "persistent"])
def test_variance_falls_with_the_number_of_pairs(kind):
    makers = {
        "full": lambda pairs: FullES(Constant(HORIZON), pairs, 0.03, FAR),
        "truncated": lambda pairs: TruncatedES(Together(HORIZON), STEPS, pairs, 0.03, FAR),
        "persistent": lambda pairs: PES(Together(HORIZON), STEPS, pairs, 0.03, FAR),
    }
    task, optimizer = NoisyQuadratic(), SGD(RATE)
    variances = []
    for pairs in (4, 64):
        found = [samples(makers[kind](pairs), optimizer, task, 1, seed=k)[0] for k in range(100)]
        variances.append(float(torch.tensor(found).var()))
    assert variances[0] / variances[1] == pytest.approx(16, rel=0.5)


def test_truncated_backpropagation_is_that_of_a_plain_loop():
    """Two meta-steps of three steps, a horizon of four, momentum: lanes end within the second."""
    task, optimizer = NoisyQuadratic(), SGD(RATE, momentum=0.5)
    estimator, draws = TruncatedBackprop(Together(4), STEPS, 5, FAR), generator()
    state = estimator.start(optimizer, task, draws)
    seeds = state.groups[0].lanes.seeds
    found = []
    for _ in range(2):
        grads, state, figures = estimator.estimate(optimizer, task, state, draws)
        found.append(grads)
    assert figures["ended"] == 5 and figures["dropped"] == 0
    log_rate, logit = (
        p.detach().clone().requires_grad_() for p in (optimizer.log_rate, optimizer.logit_momentum)
    )
    weight, momentum, place = task.init(seeds)["weight"], torch.zeros(5, 1, 3).double(), 0
    after = state.groups[0].lanes
    assert not after.params["weight"].requires_grad, "else the graph grows with every meta-step"
    for meta_step in range(2):
        total, weight, momentum = 0.0, weight.detach(), momentum.detach()
        for _ in range(STEPS):
            noise = task.batch(seeds, torch.full((5,), place))[:, None]
            total = total + (0.5 * CURVATURES * weight**2 + noise * weight).sum()
            momentum = logit.sigmoid() * momentum + CURVATURES * weight + noise
            weight, place = weight - log_rate.exp() * momentum, place + 1
            if place == 4:
                seeds, place = after.seeds, 0
                weight, momentum = task.init(seeds)["weight"], torch.zeros(5, 1, 3).double()
        wanted = torch.autograd.grad(total / (5 * STEPS), (log_rate, logit))
        for name, value in zip(("log_rate", "logit_momentum"), wanted, strict=True):
            assert torch.allclose(found[meta_step][name], value, rtol=0, atol=1e-12)
    assert torch.allclose(after.params["weight"], weight, rtol=0, atol=1e-12)


def test_persistent_evolution_strategies_are_those_of_a_plain_loop():
    """Pair by pair and step by step, where problems end within meta-steps and at their ends."""
    task, optimizer, pairs, sigma = NoisyQuadratic(), SGD(RATE), 6, 0.1
    estimator, draws = PES(Constant(5), STEPS, pairs, sigma, FAR), generator(3)
    state = estimator.start(optimizer, task, draws)
    lanes = state.groups[0].lanes
    assert lanes.horizon[:pairs].tolist() == [1, 2, 3, 4, 5, 5]
    places = [
        {"seed": lanes.seeds[p : p + 1], "step": 0, "horizon": int(lanes.horizon[p]), "xi": 0.0, "w": None}
        for p in range(pairs)
    ]
    theta, noises = optimizer.log_rate.detach(), generator(3)
    torch.randint(2**62, (pairs,), generator=noises)
    for _ in range(6):
        grads, state, _ = estimator.estimate(optimizer, task, state, draws)
        total = 0.0
        for place, e in zip(
            places, sigma * torch.randn(pairs, generator=noises, dtype=torch.float64), strict=True
        ):
            place["xi"] += e
            for _ in range(STEPS):
                if place["step"] == 0:
                    start = task.init(place["seed"])["weight"][0, 0]
                    place["w"] = [start, start]
                noise = task.batch(place["seed"], torch.tensor([place["step"]]))[0]
                plus, minus = ((0.5 * CURVATURES * w**2 + noise * w).sum() for w in place["w"])
                total += place["xi"] * (plus - minus) / (2 * sigma**2 * pairs * STEPS)
                place["w"] = [
                    w - (theta + sign * e).exp() * (CURVATURES * w + noise)
                    for w, sign in zip(place["w"], (1, -1), strict=True)
                ]
                place["step"] += 1
                if place["step"] == place["horizon"]:
                    place.update(seed=next_seeds(place["seed"]), step=0, horizon=5, xi=e)
            if place["step"] == 0:
                place["xi"] = 0.0
        assert float(grads["log_rate"]) == pytest.approx(float(total), abs=1e-12)
        assert state.groups[0].noise["log_rate"].tolist() == pytest.approx([float(p["xi"]) for p in places])


def test_pairs_stay_on_common_random_numbers_where_one_lane_diverges():
    """At a rate just below what is stable, some lanes with plus diverge, and those with minus do not."""
    task, optimizer = NoisyQuadratic(), SGD(0.62)
    estimator, draws = PES(Constant(40), 10, 50, 0.2), generator()
    state, diverged = estimator.start(optimizer, task, draws), 0.0
    for _ in range(6):
        grads, state, figures = estimator.estimate(optimizer, task, state, draws)
        diverged += figures["diverged"]
        lanes = state.groups[0].lanes
        assert torch.equal(lanes.seeds[:50], lanes.seeds[50:]) and torch.equal(
            lanes.step[:50], lanes.step[50:]
        )
        assert grads["log_rate"].isfinite() and math.isfinite(figures["loss"])
    assert diverged > 0


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "estimator",
    [
        PES(Constant(8), 4, 6),
        TruncatedES(Constant(8), 4, 6),
        FullES(Constant(8), 6),
        TruncatedBackprop(Constant(8), 4, 6),
        FullBackprop(Constant(8), 6),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_meta_step_survives_losses_that_are_not_finite(estimator, broken):
    class Breaks(NoisyQuadratic):
        def loss(self, params, batch):
            return torch.where(
                params["weight"][0, 0] < 0.9, broken * params["weight"].sum(), super().loss(params, batch)
            )

    task, optimizer, draws = Breaks(), SGD(RATE), generator()
    state, diverged = estimator.start(optimizer, task, draws), 0.0
    for _ in range(4):
        grads, state, figures = estimator.estimate(optimizer, task, state, draws)
        diverged += figures["diverged"]
        assert grads["log_rate"].isfinite() and all(map(math.isfinite, figures.values()))
        for group in state.groups:
            assert group.lanes.params["weight"].isfinite().all() and group.first.isfinite().all()
    assert diverged > 0


def test_a_stored_state_goes_on_as_the_state_itself(tmp_path):
    task, optimizer = NoisyQuadratic(), SGD(RATE, momentum=0.9)
    for estimator in (
        PES(Constant(7), 3, 4),
        TruncatedES(Constant(7), 3, 4),
        TruncatedBackprop(Constant(7), 3, 4),
    ):
        state = estimator.start(optimizer, task, generator())
        _, state, _ = estimator.estimate(optimizer, task, state, generator(1))
        torch.save(state.to_dict(), tmp_path / "state.pt")
        stored = EstimatorState.from_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        (grads, after, _), (again, same, _) = (
            estimator.estimate(optimizer, task, one, generator(2)) for one in (state, stored)
        )
        assert all(torch.equal(grads[name], again[name]) for name in grads)
        assert torch.equal(after.groups[0].lanes.params["weight"], same.groups[0].lanes.params["weight"])


def test_what_cannot_be_estimated_says_so():
    with pytest.raises(ValueError, match="PES: sigma is 0; expected one above 0"):
        PES(Constant(3), sigma=0)
    with pytest.raises(ValueError, match="FullBackprop: lanes is -1"):
        FullBackprop(Constant(3), lanes=-1)
    fixed = SGD(RATE).requires_grad_(False)
    with pytest.raises(ValueError, match="SGD has no parameter that requires a gradient"):
        PES(Constant(3)).start(fixed, NoisyQuadratic(), generator())


@pytest.mark.parametrize(
    "make", [lambda: PES(Constant(4), 3, 6), lambda: TruncatedBackprop(Constant(4), 3, 12)]
)
def test_gradients_of_several_tasks_are_averaged_by_lanes(make):
    family = TaskFamily([NoisyQuadratic(), NoisyQuadratic(noise=2.0)], weights=[1, 3])
    optimizer, draws = SGD(RATE), generator(2)
    state = make().start(optimizer, family, draws)
    one, other = state.groups
    assert len(one.first) + len(other.first) == 12 and len(one.first) < len(other.first)
    whole, _, figures = make().estimate(optimizer, family, state, generator(5))
    again, total, loss = generator(5), 0.0, 0.0
    for group in state.groups:
        grads, _, own = make().estimate(optimizer, family, EstimatorState([group]), again)
        total += len(group.first) / 12 * float(grads["log_rate"])
        loss += len(group.first) / 12 * own["loss"]
    assert float(whole["log_rate"]) == pytest.approx(total) and figures["loss"] == pytest.approx(loss)
