"""Nowcasters, and the optimizer that jumps to what they predict."""

import pytest
import torch
from learned_problems import Problem, randomise
from torch.func import functional_call

from wsl.learnopt import (
    SGD,
    Adam,
    GraphNowcaster,
    MlpImages,
    Nowcasting,
    PerLane,
    advance,
    nowcast_loss,
    record_trajectories,
    start,
    zoo_trajectories,
)
from wsl.symmetry import apply, sample
from wsl.zoo import Architecture, ForwardDefinition, ZooError, ZooWriter


def nowcaster_for(spec, checkpoints: int = 3) -> GraphNowcaster:
    torch.manual_seed(0)
    made = GraphNowcaster(spec, checkpoints, channels=4, layers=1, numbers=2, hidden=8).double()
    randomise(made)
    return made


def drawn(problem: Problem, checkpoints: int):
    return {
        name: torch.stack([value + 0.1 * torch.randn_like(value) for _ in range(checkpoints)], dim=1)
        for name, value in problem.params.items()
    }


@pytest.mark.parametrize("name", ["mlp", "rnn"])
def test_predictions_are_permuted_along(name) -> None:
    problem = Problem(name)
    nowcaster, past, ahead = nowcaster_for(problem.spec), drawn(problem, 3), torch.tensor([1.0, 8.0])
    action = sample(problem.spec, 2, generator=torch.Generator().manual_seed(1))
    moved = {key: torch.empty_like(value) for key, value in past.items()}
    for at in range(3):
        for key, value in apply(problem.spec, action, {k: v[:, at] for k, v in past.items()}).items():
            moved[key][:, at] = value
    expected = apply(problem.spec, action, nowcaster(past, ahead))
    for key, value in nowcaster(moved, ahead).items():
        torch.testing.assert_close(value, expected[key], rtol=0, atol=1e-12)


def test_predictions_scale_with_the_steps() -> None:
    problem = Problem("mlp")
    nowcaster, past, ahead = nowcaster_for(problem.spec), drawn(problem, 3), torch.tensor([2.0, 3.0])
    last = {name: value[:, -1:] for name, value in past.items()}
    wider = {name: last[name] + 1000 * (value - last[name]) for name, value in past.items()}
    still = {name: last[name].expand_as(value) for name, value in past.items()}
    one, far, none = (nowcaster(given, ahead) for given in (past, wider, still))
    for name, value in last.items():
        change = one[name] - value[:, 0]
        assert change.abs().max() > 1e-3
        torch.testing.assert_close(far[name] - value[:, 0], 1000 * change)
        torch.testing.assert_close(none[name], value[:, 0], rtol=0, atol=1e-12)


def test_learns_how_trainings_go_on() -> None:
    """Weights that approach a point at a rate of each training's own: staying is a bad guess."""
    problem = Problem("mlp", lanes=16)
    torch.manual_seed(0)
    rates = torch.rand(16, dtype=torch.float64) * 0.4 + 0.5
    powers = rates.unsqueeze(1) ** torch.arange(8)
    trajectory = {
        name: value.unsqueeze(1) * powers.reshape(16, 8, *(1 for _ in value.shape[1:]))
        for name, value in problem.params.items()
    }
    nowcaster = GraphNowcaster(problem.spec, 3, channels=4, layers=1, numbers=2, hidden=16).double()
    optimizer = torch.optim.Adam(nowcaster.parameters(), lr=0.01)
    begin, losses = torch.zeros(16, dtype=torch.int64), []
    for step in range(150):
        ahead = torch.randint(1, 5, (16,))
        loss = nowcast_loss(nowcaster, trajectory, begin + step % 2, ahead)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) < 0.3 * sum(losses[:10])


def test_loss_by_hand_and_its_limits() -> None:
    problem = Problem("mlp", lanes=1)
    nowcaster, trajectory = nowcaster_for(problem.spec), drawn(problem, 7)
    first, ahead = torch.tensor([1]), torch.tensor([2])
    found = nowcast_loss(nowcaster, trajectory, first, ahead)
    past = {name: value[:, 1:4] for name, value in trajectory.items()}
    predicted, total, count = nowcaster(past, ahead), 0.0, 0
    for name, value in predicted.items():
        scale = past[name].diff(dim=1).square().mean().sqrt()
        total += ((value - trajectory[name][:, 5]).abs() / scale / 2).sum().item()
        count += value.numel()
    assert abs(found.item() - total / count) < 1e-12
    for wrong in (torch.tensor([4]), torch.tensor([0])):
        with pytest.raises(ValueError, match="the trajectory has 7"):
            nowcast_loss(nowcaster, trajectory, first, wrong)


def test_jumps_of_staggered_lanes() -> None:
    """As a plain loop that keeps its checkpoints in a list; lanes jump at different times."""
    problem = Problem("mlp", lanes=3)
    nowcaster = nowcaster_for(problem.spec)
    optimizer = Nowcasting(SGD(0.05, momentum=0.9), nowcaster, every=6, ahead=4, horizon=12).double()
    offsets = torch.tensor([0, 2, 5])
    params, state = problem.params, optimizer.init(problem.params)
    with torch.no_grad():
        for done in range(14):
            grads, losses = problem.gradients(params)
            params, state = optimizer.update(grads, state, params, done + offsets, losses)
    for lane, offset in enumerate(offsets.tolist()):
        own = {name: value[lane : lane + 1] for name, value in problem.params.items()}
        kept, buffer = [own] * 3, None
        for done in range(offset, offset + 14):
            whole = {name: value.repeat(3, *(1 for _ in value.shape[1:])) for name, value in own.items()}
            grads = {name: value[lane : lane + 1] for name, value in problem.gradients(whole)[0].items()}
            buffer = grads if buffer is None else {name: 0.9 * buffer[name] + grads[name] for name in grads}
            own = {name: value - 0.05 * buffer[name] for name, value in own.items()}
            kept = [*kept[1:], own] if (done + 1) % 2 == 0 else kept
            if (done + 1) % 6 == 0:
                past = {name: torch.stack([each[name] for each in kept], dim=1) for name in own}
                own = nowcaster(past, optimizer.horizons(torch.tensor([done + 1])))
        for name, value in own.items():
            torch.testing.assert_close(params[name][lane], value[0], rtol=0, atol=1e-9)


def test_horizons_fall_to_one_checkpoint() -> None:
    optimizer = Nowcasting(SGD(0.1), nowcaster_for(Problem("mlp").spec), every=30, ahead=9, horizon=100)
    assert optimizer.horizons(torch.tensor([0, 50, 100, 500])).tolist() == [9, 4, 1, 1]


def test_permuted_neurons_permute_the_trajectory_through_jumps() -> None:
    problem = Problem("mlp")
    nowcaster = nowcaster_for(problem.spec)
    optimizer = Nowcasting(Adam(0.01), nowcaster, every=6, ahead=3, horizon=60).double()
    action = sample(problem.spec, 2, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        end = problem.train(optimizer, problem.params, 40)[-1]
        moved = problem.train(optimizer, apply(problem.spec, action, problem.params), 40)[-1]
        plain = problem.train(Adam(0.01).double(), problem.params, 40)[-1]
    for name, value in apply(problem.spec, action, end).items():
        torch.testing.assert_close(moved[name], value, rtol=0, atol=1e-8)
        assert (plain[name] - end[name]).abs().max() > 1e-3


def test_parameters_of_each_lane() -> None:
    problem = Problem("mlp", lanes=3)
    optimizer = Nowcasting(SGD(0.05), nowcaster_for(problem.spec), every=3, ahead=3, horizon=60).double()
    thetas = {
        name: value.detach() + 0.1 * torch.randn(3, *value.shape, dtype=torch.float64)
        for name, value in optimizer.named_parameters()
    }
    grads, losses = problem.gradients(problem.params)
    given = grads, optimizer.init(problem.params), problem.params, torch.tensor([2, 3, 5]), losses
    with torch.no_grad():
        found, _ = PerLane(optimizer, thetas).update(*given)
        for lane in range(3):
            theta = {name: value[lane] for name, value in thetas.items()}
            expected, _ = functional_call(optimizer, theta, given)
            for name, value in expected.items():
                torch.testing.assert_close(found[name][lane], value[lane], rtol=0, atol=1e-12)


def test_other_architectures_and_lanes_of_a_task() -> None:
    nowcaster = nowcaster_for(Problem("mlp").spec).float()
    task = MlpImages(hidden=(4,), batch_size=8, limit=64)
    optimizer = Nowcasting(Adam(0.01), nowcaster, every=3, ahead=3, horizon=60).on(task.spec)
    assert {id(p) for p in optimizer.nowcaster.parameters()} == {id(p) for p in nowcaster.parameters()}
    with torch.no_grad():
        done = advance(task, optimizer, start(task, optimizer, torch.arange(2), 5), 8)
    assert done.ended.sum() == 2
    assert done.losses.isfinite().all()


def test_trajectories_of_lanes_and_of_a_zoo(tmp_path) -> None:
    task = MlpImages(hidden=(4,), batch_size=8, limit=64)
    seeds = torch.tensor([3, 4])
    found = record_trajectories(task, SGD(0.1), seeds, 2, 3)
    with torch.no_grad():
        end = advance(task, SGD(0.1), start(task, SGD(0.1), seeds, 100), 4).lanes.params
        for name, value in found.items():
            assert value.shape[1] == 3
            assert torch.equal(value[:, 0], task.init(seeds)[name])
            assert torch.equal(value[:, 2], end[name])
    with ZooWriter(tmp_path / "zoo.h5", provenance={"made by": "a test"}) as writer:
        writer.add(
            Architecture(
                "mlp", task.spec, ForwardDefinition("wsl.models:MLP", {"in_features": 64, "hidden": [4]})
            )
        )
        for model in range(2):
            rows = {name: value[model] for name, value in found.items()}
            writer.append("mlp", rows, {"model": [model] * 3, "step": [0, 2, 4]})
        more = {name: value[1, :1] for name, value in found.items()}
        writer.append("mlp", more, {"model": [2], "step": [0]})
        zoo = writer.finish()
    for name, value in zoo_trajectories(zoo, [1, 0]).items():
        assert torch.equal(value, found[name].flip(0))
    with pytest.raises(ZooError, match="other steps"):
        zoo_trajectories(zoo, [0, 2])


@pytest.mark.parametrize(
    ("given", "message"),
    [({"every": 7}, "no multiple"), ({"ahead": 0.5}, "at least 1"), ({"horizon": 5}, "at least every=6")],
)
def test_wrong_arguments_are_refused(given, message) -> None:
    nowcaster = nowcaster_for(Problem("mlp").spec)
    with pytest.raises(ValueError, match=message):
        Nowcasting(SGD(0.1), nowcaster, **{"every": 6, "ahead": 2, "horizon": 100, **given})
    with pytest.raises(ValueError, match="at least 2 checkpoints"):
        nowcaster_for(Problem("mlp").spec, checkpoints=1)
