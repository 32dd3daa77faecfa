"""Learned optimizers: counts, parameters of each lane's own, gradients, limits."""

import io
import math

import pytest
import torch
from learned_problems import Problem, randomise
from torch import Tensor
from torch.func import functional_call

from wsl.learnopt import (
    Celo2Optimizer,
    DeepSetsOptimizer,
    GraphOptimizer,
    LearnedOptimizer,
    MlpImages,
    MomentumFeatures,
    NFNOptimizer,
    PerLane,
    SmallFCOptimizer,
    UNFOptimizer,
    advance,
    start,
)
from wsl.learnopt.networks import DeepSets
from wsl.spec import SpecError, WeightSpec

RECIPES = [
    UNFOptimizer, NFNOptimizer, DeepSetsOptimizer, SmallFCOptimizer, Celo2Optimizer, GraphOptimizer,
]  # fmt: skip


def pooled(spec: WeightSpec) -> LearnedOptimizer:
    """With the network that pools over blocks, which no recipe has."""
    features = MomentumFeatures()
    return LearnedOptimizer(spec, features, DeepSets(spec, features.entry_channels, features.shared_channels))


def ready(make, spec: WeightSpec) -> LearnedOptimizer:
    torch.manual_seed(0)
    optimizer = make(spec).double()
    randomise(optimizer)
    return optimizer


def largest_difference(found, expected) -> float:
    return max((found[name] - expected[name]).abs().max().item() for name in expected)


def test_counts_of_the_paper() -> None:
    """Zhou et al. 2024: parameters on the task of appendix C.1."""
    spec = WeightSpec.parse(
        "axes h: 32 hidden  x: 64 input  y: 10 output\na.weight h x\na.bias h\nb.weight y h\nb.bias y"
    )
    counts = {make: sum(p.numel() for p in make(spec).parameters()) for make in RECIPES}
    assert counts[UNFOptimizer] == 3783
    assert counts[DeepSetsOptimizer] == 2788
    assert counts[SmallFCOptimizer] == counts[Celo2Optimizer] == 195


@pytest.mark.parametrize("make", [*RECIPES, pooled])
def test_parameters_of_each_lane(make) -> None:
    """As each lane alone with its own, whether all parameters differ or a few."""
    problem = Problem("mlp", lanes=3)
    optimizer = ready(make, problem.spec)
    grads, losses = problem.gradients(problem.params)
    _, state = optimizer.update(
        grads, optimizer.init(problem.params), problem.params, torch.zeros(3, dtype=torch.int64), losses
    )
    step = torch.tensor([1, 5, 300])
    names = [name for name, _ in optimizer.named_parameters()]
    for chosen in (names, names[::2], ["log_rate"]):
        own = {name: value.detach() for name, value in optimizer.named_parameters() if name in chosen}
        thetas = {
            name: value + 0.1 * torch.randn(3, *value.shape, dtype=torch.float64)
            for name, value in own.items()
        }
        found, new_state = PerLane(optimizer, thetas).update(grads, state, problem.params, step, losses)
        for lane in range(3):
            rows = slice(lane, lane + 1)
            one = (
                _rows(grads, rows),
                _rows(state, rows),
                _rows(problem.params, rows),
                step[rows],
                losses[rows],
            )
            theta = {name: value[lane] for name, value in thetas.items()}
            expected, expected_state = functional_call(optimizer, theta, one)
            assert largest_difference(_rows(found, rows), expected) < 1e-13
            assert largest_difference(_flat(_rows(new_state, rows)), _flat(expected_state)) < 1e-13


def _rows(tree, rows: slice):
    return {
        name: _rows(value, rows) if isinstance(value, dict) else value[rows] for name, value in tree.items()
    }


def _flat(tree, prefix: str = "") -> dict[str, Tensor]:
    found = {}
    for name, value in tree.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


@pytest.mark.parametrize("make", [UNFOptimizer, SmallFCOptimizer, Celo2Optimizer, pooled])
def test_lanes_in_chunks(make, monkeypatch) -> None:
    """A lane's update is that of the lane alone, however many lanes a chunk has."""
    problem = Problem("cnn", lanes=5)
    optimizer = ready(make, problem.spec)
    grads, losses = problem.gradients(problem.params)
    given = grads, optimizer.init(problem.params), problem.params, torch.arange(5), losses
    thetas = {name: value.detach().expand(5, *value.shape) for name, value in optimizer.named_parameters()}
    whole, _ = optimizer.update(*given)
    monkeypatch.setattr("wsl.learnopt.networks._affine._CHUNK_BYTES", 1)
    assert largest_difference(optimizer.update(*given)[0], whole) < 1e-13
    assert largest_difference(optimizer.update_each(thetas, *given)[0], whole) < 1e-13


@pytest.mark.parametrize("make", [*RECIPES, pooled])
@pytest.mark.parametrize("what", ["gradients", "weights", "both"])
def test_zeros_and_single_neurons_give_finite_updates(make, what) -> None:
    problem = Problem("mlp", hidden=1)
    optimizer = ready(make, problem.spec).float()
    zeros = {name: torch.zeros_like(value).float() for name, value in problem.params.items()}
    params = zeros if what != "gradients" else {name: value.float() for name, value in problem.params.items()}
    grads = zeros if what != "weights" else {name: value.float() for name, value in problem.params.items()}
    params = {name: value.requires_grad_() for name, value in params.items()}
    state = optimizer.init(params)
    for step in range(3):
        params, state = optimizer.update(grads, state, params, torch.full((2,), step), torch.zeros(2))
    assert all(value.isfinite().all() for value in [*params.values(), *_flat(state).values()])
    sum(value.sum() for value in params.values()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in optimizer.parameters())


@pytest.mark.parametrize(
    "make",
    [
        lambda spec: UNFOptimizer(spec, hidden=2, layers=1),
        lambda spec: SmallFCOptimizer(spec, hidden=2, layers=1),
        lambda spec: Celo2Optimizer(spec, hidden=2, layers=1),
        pytest.param(
            lambda spec: GraphOptimizer(spec, channels=2, layers=1, numbers=1, hidden=2),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_gradients_through_three_steps(make) -> None:
    problem = Problem("mlp", lanes=1, hidden=2)
    optimizer = ready(make, problem.spec)
    names = [name for name, _ in optimizer.named_parameters()]

    def last(*values: Tensor) -> Tensor:
        params = problem.params
        state = optimizer.init(params)
        for step in range(3):
            grads, losses = problem.gradients(params)
            given = (grads, state, params, torch.tensor([step]), losses)
            params, state = functional_call(optimizer, dict(zip(names, values, strict=True)), given)
        return torch.stack([value.square().sum() for value in params.values()])

    given = [value.detach().requires_grad_() for value in optimizer.parameters()]
    assert torch.autograd.gradcheck(last, given, fast_mode=True)


@pytest.mark.parametrize("make", RECIPES)
def test_starts_as_descent_and_comes_back_from_a_file(make) -> None:
    task = MlpImages(hidden=(6,), batch_size=16, limit=200)
    torch.manual_seed(0)
    optimizer = make(task.spec)
    with torch.no_grad():
        done = advance(task, optimizer, start(task, optimizer, torch.arange(3), 1000), 60)
    assert not done.diverged.any()
    assert done.losses[-10:].mean() < 0.8 * done.losses[0].mean()
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    again = make(task.spec)
    again.load_state_dict(torch.load(file, weights_only=True))
    with torch.no_grad():
        expected, found = (advance(task, each, done.lanes, 2).losses for each in (optimizer, again))
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "make", [DeepSetsOptimizer, SmallFCOptimizer, Celo2Optimizer, GraphOptimizer, pooled]
)
def test_other_architectures_with_the_same_parameters(make) -> None:
    optimizer = ready(make, Problem("mlp").spec)
    other = Problem("rnn")
    twin = optimizer.on(other.spec)
    assert {id(p) for p in twin.parameters()} == {id(p) for p in optimizer.parameters()}
    with torch.no_grad():
        found = other.train(twin, other.params, 2)[-1]
        expected = other.train(_copied(make, optimizer, other.spec), other.params, 2)[-1]
    assert largest_difference(found, expected) == 0
    assert optimizer.on(optimizer.spec) is optimizer


@pytest.mark.parametrize("make", [UNFOptimizer, NFNOptimizer])
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_wider_networks_with_the_same_parameters(make, name) -> None:
    optimizer = ready(make, Problem(name).spec)
    wider = Problem(name, hidden=7)
    twin = optimizer.on(wider.spec)
    assert {id(p) for p in twin.parameters()} == {id(p) for p in optimizer.parameters()}
    with torch.no_grad():
        found = wider.train(twin, wider.params, 2)[-1]
        expected = wider.train(_copied(make, optimizer, wider.spec), wider.params, 2)[-1]
    assert largest_difference(found, expected) == 0
    with pytest.raises(SpecError, match="depend on the architecture|no chain"):
        optimizer.on(Problem("rnn").spec)


def _copied(make, optimizer: LearnedOptimizer, spec: WeightSpec) -> LearnedOptimizer:
    made = make(spec).double()
    made.load_state_dict({**made.state_dict(), **dict(optimizer.named_parameters())})
    return made


def test_weights_of_another_architecture_are_refused() -> None:
    with pytest.raises(SpecError, match="other architecture|another architecture"):
        UNFOptimizer(Problem("mlp").spec).init(Problem("rnn").params)


def test_running_statistics_are_passed_through() -> None:
    spec = WeightSpec.parse(
        "axes h: 3 hidden  x: 2 input\nfirst.weight h x\nnorm.weight h\nnorm.running_mean h"
    )
    for make in (UNFOptimizer, GraphOptimizer):
        optimizer = make(spec)
        params = {name: torch.randn(2, *tensor.shape) for name, tensor in spec.tensors.items()}
        trained = {name: value for name, value in params.items() if "running" not in name}
        step, losses = torch.zeros(2, dtype=torch.int64), torch.zeros(2)
        new, _ = optimizer.update(trained, optimizer.init(params), params, step, losses)
        assert torch.equal(new["norm.running_mean"], params["norm.running_mean"])
        alone, _ = optimizer.update(trained, optimizer.init(trained), trained, step, losses)
        assert list(alone) == list(trained)
        assert all(torch.equal(alone[name], new[name]) for name in alone)


def test_first_step_of_the_rule_by_hand() -> None:
    """``W - a (m + b f)`` where the network only gives a constant."""
    problem = Problem("mlp")
    optimizer = DeepSetsOptimizer(problem.spec, rate=0.5, gain=0.25, momentum=0.75).double()
    with torch.no_grad():
        optimizer.network.output.zero_()
        optimizer.network.output[-1] = 2.0
    grads, losses = problem.gradients(problem.params)
    state = optimizer.init(problem.params)
    new, _ = optimizer.update(grads, state, problem.params, torch.zeros(2, dtype=torch.int64), losses)
    for name, value in problem.params.items():
        torch.testing.assert_close(new[name], value - 0.5 * (0.25 * grads[name] + 0.25 * 2.0))


def test_normalised_steps_have_the_size_of_the_rate() -> None:
    problem = Problem("mlp")
    optimizer = ready(Celo2Optimizer, problem.spec)
    grads, losses = problem.gradients(problem.params)
    state = optimizer.init(problem.params)
    new, _ = optimizer.update(grads, state, problem.params, torch.zeros(2, dtype=torch.int64), losses)
    for name, value in problem.params.items():
        sizes = (new[name] - value).square().flatten(1).mean(1).sqrt()
        torch.testing.assert_close(sizes, torch.full_like(sizes, math.exp(optimizer.log_rate.item())))
