"""Zoos over a grid of widths and batch sizes: cells, measures, resuming, workers, divergence, figures."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
import yaml
from population_suite import PopulationSuite
from torch.func import functional_call, hessian
from torch.nn import functional as F

from wsl.cli import main
from wsl.landscape import PHASES, PhaseThresholds, linear_cka, phase_labels
from wsl.zoo import Zoo, ZooError, verify_zoo
from wsl.zoo.classifiers import Mlps, ParkCnns, Range, ResNets, SmallCnns, TrainingRecipe, Vits
from wsl.zoo.images import DigitsImages
from wsl.zoo.phases import LandscapeMeasures, build_phase_zoo

RECIPE = TrainingRecipe(0.05, optimizer="momentum", epochs=4, checkpoints=[1], label_noise=0.2)
MEASURES = LandscapeMeasures(
    images=50, trace_samples=3, power_iterations=100, curve_epochs=3, curve_batch_size=16
)
NETS = Mlps(depth=1, activation="tanh")


def build(out, **changes):
    given = {"widths": [3, 2], "batch_sizes": [8, 32], "seeds": 3, "architecture": NETS, "recipe": RECIPE}
    given |= {"measures": MEASURES, "limit": 100, "progress": False, "source": DigitsImages()}
    given |= {"splits": {"train": 0.5, "test": 0.5}}
    return build_phase_zoo(out, **{**given, **changes})


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    return build(tmp_path_factory.mktemp("zoo") / "z.h5")


class TestPopulation(PopulationSuite):
    builder, build = build_phase_zoo, staticmethod(build)
    one_stack: ClassVar = {"widths": [2], "batch_sizes": [32], "limit": 50}
    stored, kills, group = 2, 2, "cell"


def test_the_grid(zoo):
    columns = zoo.metadata
    assert len(zoo) == 2 * 2 * 3 * 2
    assert list(zoo.architectures) == ["width-2", "width-3"]
    assert [f"width-{width}" for width in columns["width"]] == zoo.architecture_of().tolist()
    cells = {
        (w, b): c for w, b, c in zip(*(columns[n] for n in ("width", "batch_size", "cell")), strict=True)
    }
    assert cells == {(2, 8): 0, (2, 32): 1, (3, 8): 2, (3, 32): 3}
    for cell in range(4):
        rows = columns["cell"] == cell
        assert sorted(columns["seed"][rows]) == [0, 0, 1, 1, 2, 2]
        assert len(set(columns["model"][rows])) == 3
        assert len(np.unique(zoo.hashes[rows], axis=0)) == 6
    assert set(columns["step"]) == {1, 4}
    assert set(columns["label_noise"]) == {0.2}
    assert set(columns["train_images"]) == {80}
    assert verify_zoo(zoo.path).ok


def test_small_grids_need_splits_of_their_own(tmp_path):
    with pytest.raises(ZooError, match=r"4 groups are too few .* Use more of them \(cell\)"):
        build(tmp_path / "z.h5", splits=None)
    assert list(tmp_path.iterdir()) == []


def test_groups_share_their_measures_and_their_phase(zoo):
    columns = zoo.metadata
    for cell in range(4):
        for step in (1, 4):
            rows = (columns["cell"] == cell) & (columns["step"] == step)
            for name in ("cka", "mode_connectivity", "phase"):
                assert len(set(columns[name][rows])) == 1
            means = [columns[name][rows].mean() for name in ("train_loss", "hessian_top")]
            group = [columns[name][rows][0] for name in ("mode_connectivity", "cka")]
            expected = phase_labels(*means, *group, PhaseThresholds())
            assert columns["phase"][rows][0] == expected
    assert set(columns["phase"]) <= set(PHASES)
    for name in ("hessian_trace", "hessian_top"):
        assert len(set(columns[name])) == len(zoo)
    for name in ("cka", "mode_connectivity"):
        assert len(set(columns[name])) == 8
    assert ((columns["cka"] > 0) & (columns["cka"] < 1)).all()


def test_measures_are_those_of_the_stored_networks(zoo):
    """The top eigenvalue from the exact Hessian, and CKA from the module, on the images of the build."""
    images = DigitsImages().load().limited(100)
    order = np.random.default_rng(0).permutation(100)
    pixels, labels = images.signals(np.arange(100)) * 2 - 1, torch.from_numpy(images.labels).long()
    train, test = order[20:], order[:20]
    noise = np.random.default_rng([0, 5])
    kept = noise.permutation(80)
    seen = labels[train][kept].clone()
    changed = noise.permutation(80)[:16]
    seen[changed] = torch.from_numpy(noise.integers(0, int(labels.max()) + 1, 16))
    view = zoo.architectures["width-2"]
    rows = np.flatnonzero((view.metadata["cell"] == 1) & (view.metadata["step"] == 4))
    exact, module, features = view.forward.build().double(), view.forward.build(), []
    for row in rows:
        weights = {name: tensor[0] for name, tensor in view.weights([row]).items()}
        flat = torch.cat([tensor.flatten() for tensor in weights.values()]).double()

        def loss(point, weights=weights):
            parts = point.split([tensor.numel() for tensor in weights.values()])
            given = {n: p.view(w.shape) for (n, w), p in zip(weights.items(), parts, strict=True)}
            outputs = functional_call(exact, given, (pixels[train][kept][:50].double(),))
            return F.cross_entropy(outputs, seen[:50])

        values = torch.linalg.eigvalsh(hessian(loss)(flat))
        top = values[values.abs().argmax()].item()
        assert view.metadata["hessian_top"][row] == pytest.approx(top, rel=0.05)
        module.load_state_dict(weights)
        x = pixels[test][:50].flatten(1)
        features.append(module.activations[0](module.layers[0](x)).detach())
    pairs = [linear_cka(features[i], features[j]).item() for i, j in ((0, 1), (0, 2), (1, 2))]
    assert view.metadata["cka"][rows[0]] == pytest.approx(np.mean(pairs), abs=1e-4)


@pytest.mark.parametrize(
    "nets",
    [
        SmallCnns((1, 1), "relu"),
        pytest.param(ResNets(norm="layer", activation="relu"), marks=pytest.mark.slow),
        pytest.param(Vits(heads=1, patch=4), marks=pytest.mark.slow),
    ],
)
def test_other_architectures(tmp_path, nets):
    recipe = TrainingRecipe(0.01, optimizer="adam", epochs=1)
    few = LandscapeMeasures(images=10, trace_samples=1, power_iterations=2, curve_epochs=1)
    zoo = build(
        tmp_path / "z.h5", architecture=nets, recipe=recipe, measures=few, seeds=2, widths=[2, 4],
        batch_sizes=[16], limit=50,
    )  # fmt: skip
    assert set(zoo.metadata["width"]) == {2, 4}
    assert np.isfinite(zoo.metadata["mode_connectivity"]).all()
    assert np.isfinite(zoo.metadata["hessian_trace"]).all()


def test_networks_that_diverge_are_kept_without_a_phase(tmp_path):
    recipe = TrainingRecipe(1e30, optimizer="sgd", epochs=1, checkpoints=[0])
    nets, grid = Mlps(depth=1, activation="none"), {"widths": [2], "seeds": 5}
    zoo = build(tmp_path / "z.h5", recipe=recipe, architecture=nets, **grid)
    columns, last = zoo.metadata, zoo.metadata["step"] == 1
    assert columns["diverged"][last].any()
    assert not columns["diverged"][~last].any()
    for cell in range(2):
        own = (columns["cell"] == cell) & last
        assert not columns["diverged"][own].any() or (columns["phase"][own] == "undefined").all()
    assert set(columns["phase"][~last]) <= set(PHASES)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"widths": []}, "widths are"),
        ({"batch_sizes": [8, 8]}, "batch_sizes are"),
        ({"seeds": 1}, "seeds is 1"),
        ({"recipe": TrainingRecipe(Range(0.1, 0.2))}, "recipe.learning_rate is drawn"),
        ({"architecture": Mlps()}, "Mlps is drawn"),
        ({"architecture": ParkCnns()}, "ParkCnns has no one width"),
        ({"architecture": ResNets(norm="batch", activation="relu")}, "without running statistics"),
    ],
)
def test_unusable_arguments_write_nothing(tmp_path, changes, said):
    with pytest.raises(ZooError, match=said):
        build(tmp_path / "z.h5", **changes)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [{"images": 0}, {"curve_points": 2}, {"curve_learning_rate": 0.0}])
def test_unusable_measures(arguments):
    with pytest.raises(ZooError, match=f"measures.{next(iter(arguments))}"):
        LandscapeMeasures(**arguments)


def test_commands(tmp_path, capsys):
    config = yaml.safe_load(
        (Path(__file__).parents[3] / "configs" / "zoo" / "phases_digits.yaml").read_text()
    )
    config |= {"widths": [2, 3], "batch_sizes": [16, 32, 64], "limit": 60}
    config["recipe"] |= {"epochs": 2, "checkpoints": None}
    config["measures"] |= {"trace_samples": 1, "power_iterations": 2, "curve_epochs": 1}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    out = str(tmp_path / "z.h5")
    assert main(["zoo", "build-phases", "--config", str(tmp_path / "c.yaml"), "--out", out]) == 0
    assert "18 networks" in capsys.readouterr().out
    columns, splits = Zoo.open(out).metadata, Zoo.open(out).splits
    assert {name: len(set(columns["cell"][split.indices])) for name, split in splits.items()} == {
        "train": 4,
        "val": 1,
        "test": 1,
    }
    assert main(["zoo", "heatmaps", out, "--where", "step == 2", "--out", str(tmp_path / "maps")]) == 0
    names = {path.name for path in (tmp_path / "maps").iterdir()}
    assert {"heatmaps.png", "phase.png", "hessian_top.png", "mode_connectivity.png"} <= names
    assert len(names) == len(capsys.readouterr().out.splitlines()) == 8
    for more in (["--where", "step == 3"], ["--x", "load"], ["--columns", "[]"]):
        assert main(["zoo", "heatmaps", out, "--out", str(tmp_path / "none"), *more]) == 2
    assert not (tmp_path / "none").exists()
