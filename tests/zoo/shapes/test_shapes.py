"""Solids: their distances are distances, the sets are random and repeatable, points lie where they should."""

import numpy as np
import pytest
import torch

from wsl.zoo import ZooError
from wsl.zoo.shapes import KINDS, OccupancyShapes, SdfShapes
from wsl.zoo.shapes._solids import SOLIDS

SOURCE = SdfShapes(count=21, points=512, batches=2, held_out=600)


@pytest.fixture(scope="module")
def shapes():
    return SOURCE.load()


def sized(name):
    generator = torch.Generator().manual_seed(1)
    sizes = 0.2 + 0.3 * torch.rand(6, 3, generator=generator, dtype=torch.float64)
    if name == "torus":
        sizes[:, 1] *= 0.4
    return sizes


# Points on the surface, by formulas that share nothing with the distances.
def surface(name, sizes, u, v, side):
    a, b, c = sizes[:, :1], sizes[:, 1:2], sizes[:, 2:]
    turn = 2 * torch.pi * u
    if name == "sphere":
        height = 2 * v - 1
        ring = (1 - height**2).sqrt()
        return torch.stack([a * ring * turn.cos(), a * ring * turn.sin(), a * height], -1)
    if name == "torus":
        other = 2 * torch.pi * v
        ring = a + b * other.cos()
        return torch.stack([ring * turn.cos(), ring * turn.sin(), b * other.sin()], -1)
    if name == "box":
        face = torch.stack([torch.where(side, a, -a), (2 * u - 1) * b, (2 * v - 1) * c], -1)
        return face
    if name == "cylinder":
        lid = torch.stack([a * v * turn.cos(), a * v * turn.sin(), b.expand_as(v)], -1)
        wall = torch.stack([a * turn.cos(), a * turn.sin(), (2 * v - 1) * b], -1)
        return torch.where(side[..., None], lid, wall)
    base = torch.stack([a * v * turn.cos(), a * v * turn.sin(), -b.expand_as(v)], -1)
    flank = torch.stack([a * (1 - v) * turn.cos(), a * (1 - v) * turn.sin(), b * (2 * v - 1)], -1)
    return torch.where(side[..., None], base, flank)


@pytest.mark.parametrize("name", SOLIDS)
def test_distance_is_0_on_the_surface_and_nowhere_larger_than_to_it(name):
    sizes, generator = sized(name), torch.Generator().manual_seed(2)
    u, v, side = (torch.rand(6, 4000, generator=generator, dtype=torch.float64) for _ in range(3))
    on = surface(name, sizes, u, v, side > 0.5)
    assert SOLIDS[name](on, sizes).abs().max() < 1e-12
    points = torch.rand(6, 200, 3, generator=generator, dtype=torch.float64) * 2 - 1
    found = SOLIDS[name](points, sizes)
    if name == "cylinder":  # the sample has one lid
        on = torch.cat([on, on * torch.tensor([1, 1, -1])], 1)
    nearest = torch.cdist(points, on).amin(-1)  # a little more than the distance: the sample has gaps
    assert (found.abs() <= nearest + 1e-12).all()
    if name != "box":  # of which the sample covers two faces of six
        assert (nearest - found.abs()).max() < 0.05
    assert (found < 0).any()
    assert (found > 0).any()


@pytest.mark.parametrize("name", SOLIDS)
def test_gradient_of_distance_has_length_1(name):
    sizes = sized(name)
    points = torch.rand(6, 300, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 2 - 1
    points.requires_grad_()
    (slope,) = torch.autograd.grad(SOLIDS[name](points, sizes).sum(), points)
    torch.testing.assert_close(slope.norm(dim=-1), torch.ones(6, 300, dtype=torch.float64))


def test_sets_hold_all_kinds_within_the_cube(shapes):
    assert np.bincount(shapes.kinds).tolist() == [3] * len(KINDS)
    points = torch.rand(1, 20000, 3, generator=torch.Generator().manual_seed(0)) * 2.4 - 1.2
    distances = shapes.distances(range(21), points)
    volumes = (distances < 0).float().mean(1) * 2.4**3
    assert volumes.min() > 0.02
    outside = (points[0].abs() > 1.05).any(-1)
    assert (distances[:, outside] > 0).float().mean() > 0.999


def test_unions_and_differences_are_of_their_parts(shapes):
    points = torch.rand(21, 2000, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
    rows = np.arange(21)
    first, second = (shapes._part_distances(rows, part, points) < 0 for part in (0, 1))
    inside = shapes.distances(rows, points) < 0
    union, difference = (rows % 7 == KINDS.index(name) for name in ("union", "difference"))
    assert torch.equal(inside[union], first[union] | second[union])
    assert torch.equal(inside[difference], first[difference] & ~second[difference])
    assert torch.equal(inside[~(union | difference)], first[~(union | difference)])
    for rows in (union, difference):
        assert (first[rows] & second[rows]).any(1).all(), "the parts do not touch"


def test_a_shape_depends_on_its_number_alone(shapes):
    fewer = SdfShapes(count=8).load()
    points = torch.rand(1, 50, 3)
    assert torch.equal(fewer.distances(range(8), points), shapes.distances(range(8), points))
    assert fewer.identity == shapes.first(8).identity
    assert fewer.identity != SdfShapes(count=8, seed=1).load().identity
    alone = SOURCE.fit_points(shapes, np.array([5]))
    together = SOURCE.fit_points(shapes, np.arange(21))
    torch.testing.assert_close(alone[:, 0], together[:, 5])


def test_half_of_the_points_lie_near_the_surface(shapes):
    points = SOURCE.fit_points(shapes, np.arange(21))
    assert points.shape == (2, 21, 256, 3)
    assert points.abs().max() <= 1
    for batch in points:
        near = shapes.distances(range(21), batch).abs() < 0.15
        assert (near.float().mean(1) > 0.5).all()
        assert near[:, 128:].float().mean() < 0.5
    held_out = SOURCE.surface_points(shapes, np.arange(21))
    assert (shapes.distances(range(21), held_out).abs().mean(1) < 0.06).all()
    assert not np.isin(held_out[0].numpy(), points[:, 0].numpy()).all(-1).any()


def test_values():
    distances = torch.tensor([-0.2, 0.3])
    assert torch.equal(SdfShapes().values(distances), distances)
    assert OccupancyShapes().values(distances).tolist() == [1, 0]
    for source in (SdfShapes(), OccupancyShapes()):
        assert source.inside(source.values(distances)).tolist() == [True, False]


@pytest.mark.parametrize(
    "arguments",
    [
        {"count": 0},
        {"kinds": ("sphere", "teapot")},
        {"kinds": ("box", "box")},
        {"points": 10, "batches": 4},
        {"near_surface": 1.5},
        {"spread": 0.0},
        {"resolution": 1},
        {"seed": -1},
        {"held_out": 0},
    ],
)
def test_unusable_sources_are_refused(arguments):
    with pytest.raises(ZooError, match=next(iter(arguments))):
        SdfShapes(**arguments).load()
