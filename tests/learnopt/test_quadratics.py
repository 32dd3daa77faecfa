"""Quadratics have the optimum, the curvature and the noise that they promise."""

import pytest
import torch

from wsl.learnopt.tasks import Quadratics

SEEDS = torch.arange(6)
START = torch.zeros_like(SEEDS)


def hessian(task, seeds):
    _, eigenvalues, mirror, _ = task.batch(seeds, torch.zeros_like(seeds))
    unit = mirror / mirror.norm(dim=1, keepdim=True)
    turn = torch.eye(task.size, dtype=unit.dtype) - 2 * unit[:, :, None] * unit[:, None]
    return turn @ torch.diag_embed(eigenvalues) @ turn.mT


@pytest.fixture
def task():
    return Quadratics(6, condition=50).to(dtype=torch.float64)


def test_the_loss_is_the_quadratic_form(task):
    params, dense = task.init(SEEDS), hessian(task, SEEDS)
    apart = (params["weight"] - task.optimum(SEEDS)["weight"])[:, 0]
    values, grads = task.values_and_grads(params, task.batch(SEEDS, START))
    torch.testing.assert_close(values, torch.einsum("li,lij,lj->l", apart, dense, apart) / 2)
    torch.testing.assert_close(grads["weight"][:, 0], torch.einsum("lij,lj->li", dense, apart))
    spectrum = torch.linalg.eigvalsh(dense)
    assert ((spectrum > 1 / 50 - 1e-9) & (spectrum < 1 + 1e-9)).all()
    assert (dense.abs() > 1e-6).float().mean() > 0.9


def test_the_optimum_has_loss_zero(task):
    batch = task.batch(SEEDS, START)
    values, grads = task.values_and_grads(task.optimum(SEEDS), batch)
    assert not values.any()
    assert not grads["weight"].any()


def test_one_lane_is_the_stack(task):
    params, batch = task.init(SEEDS), task.batch(SEEDS, START)
    lanes = torch.stack(
        [task.loss({"weight": params["weight"][i]}, tuple(part[i] for part in batch)) for i in range(6)]
    )
    torch.testing.assert_close(task.values(params, batch), lanes)


def test_noise_of_the_gradient_has_mean_zero_and_its_deviation():
    task, steps = Quadratics(6, noise=0.5).to(dtype=torch.float64), torch.arange(4000)
    seeds = torch.full_like(steps, 3)
    params = {name: value.expand(4000, 1, 6) for name, value in task.init(seeds[:1]).items()}
    grads = task.values_and_grads(params, task.batch(seeds, steps))[1]["weight"][:, 0]
    clean = task.values_and_grads(params, task.batch(seeds, steps, "test"))[1]["weight"][:, 0]
    noise = grads - clean
    assert noise.mean(0).abs().max() < 4 * 0.5 / 4000**0.5
    assert noise.std(0).sub(0.5).abs().max() < 0.03
    assert (clean == clean[0]).all()
    torch.testing.assert_close(noise[7:8], task.batch(seeds[:1], steps[7:8])[3])
