"""Curvature against exact Hessians, curves on losses with known answers, similarity, phases."""

import numpy as np
import pytest
import torch
from torch.func import functional_call, hessian, vmap
from torch.nn import functional as F

from wsl.landscape import (
    PHASES,
    PhaseThresholds,
    connect,
    hessian_product,
    hessian_top,
    hessian_trace,
    linear_cka,
    mode_connectivity,
    output_features,
    phase_labels,
)
from wsl.models import MLP, SmallCNN, SmallResNet, SmallViT


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


@pytest.fixture(scope="module")
def tiny():
    """Three networks of 5-4-3 with tanh: their rows, the loss of rows, and their exact Hessians."""
    module = MLP(5, [4], 3, "tanh").double()
    shapes = {name: p.shape for name, p in module.named_parameters()}
    inputs, labels = random(20, 5, seed=1), torch.arange(20) % 3

    def one(row):
        parts = row.split([shape.numel() for shape in shapes.values()])
        weights = {n: part.view(shapes[n]) for n, part in zip(shapes, parts, strict=True)}
        return F.cross_entropy(functional_call(module, weights, (inputs,)), labels)

    rows = random(3, sum(shape.numel() for shape in shapes.values()), seed=2)
    return rows, vmap(one), torch.stack([hessian(one)(row) for row in rows])


def test_products_are_those_of_the_exact_hessian(tiny):
    rows, loss, exact = tiny
    product = hessian_product(loss, rows)
    for seed in (3, 4):
        vectors = random(*rows.shape, seed=seed)
        assert torch.allclose(product(vectors), (exact @ vectors[..., None])[..., 0], atol=1e-12)


def test_trace(tiny):
    rows, loss, exact = tiny
    traces = exact.diagonal(dim1=1, dim2=2).sum(1)
    off_diagonal = exact.square().sum((1, 2)) - exact.diagonal(dim1=1, dim2=2).square().sum(1)
    samples = 1000
    found = hessian_trace(loss, rows, samples=samples, generator=generator())
    assert ((found - traces).abs() < 4 * (2 * off_diagonal / samples).sqrt()).all()
    assert ((found - traces).abs() < 0.1 * traces.abs()).all()
    assert torch.equal(found, hessian_trace(loss, rows, samples=samples, generator=generator()))


def test_trace_of_a_diagonal_hessian_needs_one_vector():
    scale = random(2, 6)
    found = hessian_trace(
        lambda rows: (scale * rows.square()).sum(1), random(2, 6, seed=1), samples=1, generator=generator()
    )
    assert torch.allclose(found, 2 * scale.sum(1))


def test_top_eigenvalue(tiny):
    rows, loss, exact = tiny
    values = torch.linalg.eigvalsh(exact)
    largest = values.gather(1, values.abs().argmax(1, keepdim=True))[:, 0]
    found = hessian_top(loss, rows, iterations=2000, tolerance=1e-9, generator=generator())
    assert torch.allclose(found, largest, rtol=1e-5)


def test_top_eigenvalue_keeps_its_sign_and_ends_where_networks_are_not_finite():
    def loss(rows):
        return (torch.tensor([1.0, -4.0, 2.0]) * rows.square()).sum(1)

    rows = torch.tensor([[1.0, 1, 1], [torch.nan, 1, 1]])
    found = hessian_top(lambda r: loss(r) * r.detach().sum(1), rows, iterations=60, generator=generator())
    assert found[0] == pytest.approx(-24, rel=1e-2)
    assert found[1].isnan()
    linear = hessian_top(lambda rows: rows.sum(1), rows, iterations=5, generator=generator())
    assert (linear == 0).all()


def test_losses_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="expected one each"):
        hessian_product(lambda rows: rows.sum(), torch.ones(2, 3))


def test_cka():
    x = random(50, 7)
    rotation = torch.linalg.qr(random(7, 7, seed=1))[0]
    assert linear_cka(x, 3 * x @ rotation + 5).item() == pytest.approx(1)
    assert linear_cka(x, random(50, 9, seed=2)).item() < 0.5
    y = x @ random(7, 4, seed=3)
    centred = [z - z.mean(0) for z in (x, y)]
    grams = [z @ z.T for z in centred]
    by_grams = (grams[0] * grams[1]).sum() / (grams[0].norm() * grams[1].norm())
    assert torch.allclose(linear_cka(x, y), by_grams)
    assert linear_cka(y, x) == pytest.approx(by_grams.item())
    assert linear_cka(x, torch.ones(50, 2)) == 0
    assert linear_cka(x, torch.full((50, 2), torch.nan)).isnan()
    with pytest.raises(ValueError, match="same inputs"):
        linear_cka(x, x[:9])


@pytest.mark.parametrize(
    ("module", "width"),
    [
        (MLP(64, [6, 5], 10), 5),
        (SmallCNN(1, [4, 5]), 5),
        (SmallResNet(width=4), None),
        (SmallViT(height=8, width=8, patch=4), 16),
    ],
)
def test_features_before_the_last_layer(module, width):
    images = torch.randn(3, 1, 8, 8, generator=generator())
    features = output_features(module, images)
    assert len(features) == 3
    assert width is None or features.shape == (3, width)
    last = [layer for layer in module.modules() if isinstance(layer, torch.nn.Linear)][-1]
    assert torch.equal(last(features), module.eval()(images))


def test_features_of_other_modules():
    for module in (torch.nn.Conv2d(1, 1, 1), torch.nn.Sequential(torch.nn.Linear(8, 2), torch.nn.ReLU())):
        with pytest.raises(ValueError, match="last nn.Linear"):
            output_features(module, torch.ones(1, 1, 8, 8))


def test_a_curve_bends_around_a_hill():
    """In two dimensions, with a hill between the ends: the straight line crosses it, the curve does not."""

    def gradient(rows):
        with torch.enable_grad():
            leaf = rows.detach().requires_grad_()
            return torch.autograd.grad(loss(leaf).sum(), leaf)[0]

    def loss(rows):
        return torch.exp(-(rows.square()).sum(1)) + 0.02 * rows[:, 1].square()

    start, end = torch.tensor([[-3.0, 0.0], [-3, 0.1]]), torch.tensor([[3.0, 0.2], [3, -0.3]])
    curves = connect(start, end, gradient, steps=600, learning_rate=0.3, generator=generator())
    assert torch.equal(curves.at(0.0), start)
    assert torch.equal(curves.at(1.0), end)
    straight = torch.stack([loss(start + t * (end - start)) for t in torch.linspace(0, 1, 21)])
    curved = torch.stack([loss(curves.at(t)) for t in torch.linspace(0, 1, 21)])
    assert (mode_connectivity(straight) < -0.9).all()
    assert (mode_connectivity(curved) > -0.3).all()


def test_the_best_curve_of_a_quadratic_loss():
    """For ``|w - c|^2`` the mean over t of the loss has its minimum at a known middle point."""
    start, end, centre = (random(1, 3, seed=seed) for seed in range(3))
    curves = connect(
        start, end, lambda w: 2 * (w - centre), steps=20_000, learning_rate=0.01, generator=generator()
    )
    # minimum over m of the integral of |s start + u m + e end - c|^2: integrals of s u, u^2, e u, u
    best = (centre / 3 - (start + end) / 10) / (2 / 15)
    assert torch.allclose(curves.middle, best, atol=0.02)


def test_mode_connectivity():
    losses = torch.tensor([[1.0, 1.0, 0.0], [1.5, 0.2, 0.0], [3.0, 0.9, 0.0], [2.0, 1.4, 0.0]])
    assert mode_connectivity(losses).tolist() == pytest.approx([-1.5, 1.0, 0])


def test_phases():
    measures = [
        np.array([0.2, 0.0, 0.0, 0.2, 0, 0, 0, 0]),
        np.array([1.0, 20, 20, 1, 1, 1, 1, np.nan]),
        np.array([-1.0, -1, 0.5, 0, -1, 0, 0, 0]),
        np.array([0.9, 0.9, 0.9, 0.9, 0.9, 0.1, 0.9, 0.9]),
    ]
    found = phase_labels(*measures, PhaseThresholds(0.1, 10, 0.1, 0.5))
    assert found.tolist() == ["I", "I", "II", "II", *PHASES[2:], "undefined"]
    assert phase_labels(*measures, PhaseThresholds(1, 30, 2, 0.0)).tolist()[:7] == ["IV-B"] * 7
    assert phase_labels(0.0, 1.0, 0.0, 0.2, PhaseThresholds()) == "IV-A"


@pytest.mark.parametrize("threshold", [{"fitted": float("nan")}, {"sharp": -1.0}, {"similar": float("inf")}])
def test_unusable_thresholds(threshold):
    with pytest.raises(ValueError, match=f"thresholds.{next(iter(threshold))} is "):
        PhaseThresholds(**threshold)
