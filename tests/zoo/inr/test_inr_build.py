"""Building INR zoos: columns, views, kinds of signals, rendering, configuration files."""

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from inr_zoos import build
from jsonargparse import ArgumentParser

from wsl.nn import ProbeFeatures
from wsl.zoo import Zoo, ZooError, render
from wsl.zoo.images import ArrayImages, Coloured, DigitsImages
from wsl.zoo.inr import FitRecipe, FourierConfig, MetaRecipe, SirenConfig, build_inr_zoo
from wsl.zoo.shapes import OccupancyShapes, SdfShapes

CONFIGS = sorted((Path(__file__).parents[3] / "configs" / "zoo").glob("*_inr.yaml"))


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    return build(tmp_path_factory.mktemp("zoo") / "z.h5", views=2)


def test_rows_and_columns(zoo):
    columns = zoo.metadata
    assert len(zoo) == 60
    assert set(columns) == {"image", "label", "view", "seed", "steps", "diverged", "psnr", "psnr_offgrid"}
    assert not columns["diverged"].any()
    assert columns["image"].tolist() == list(range(30)) * 2
    assert columns["view"].tolist() == [0] * 30 + [1] * 30
    assert np.array_equal(columns["label"], np.tile(DigitsImages().load().labels[:30], 2))
    assert len(set(columns["seed"])) == 60
    assert {axis.name for axis in zoo.spec.hidden_axes} == {"h1", "h2"}


def test_views_of_an_image_share_a_split(zoo):
    images = [set(zoo.metadata["image"][zoo.split(name)]) for name in ("train", "val", "test")]
    assert sum(map(len, images)) == 30
    assert len(set.union(*images)) == 30


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_rendering_gives_the_images_at_the_recorded_psnr(zoo, scale, tmp_path):
    if scale != 1:
        architecture = SirenConfig(hidden=(8, 8), w0=10.0, output_scale=scale, output_offset=0.25)
        zoo = build(tmp_path / "scaled.h5", views=2, architecture=architecture)
    rows = [3, 40, 0]
    rendered = render(zoo, rows, batch=2).double()
    images = DigitsImages().load().signals([3, 10, 0])[:, 0].double()
    # Clipping to [0, 1] can only bring the rendering nearer to the image.
    found = -10 * torch.log10((rendered - images).square().mean((1, 2)))
    recorded = torch.from_numpy(zoo.metadata["psnr"][rows])
    assert (found >= recorded - 1e-3).all()
    assert (found < recorded + 4).all()
    assert (recorded > 15).all()


def test_render_of_no_rows_and_of_all(zoo):
    assert render(zoo, []).shape == (0, 8, 8)
    assert render(zoo).shape == (60, 8, 8)
    torch.testing.assert_close(render(zoo)[5], render(zoo, [5])[0])


def test_finished_zoos_are_returned_and_others_refused(zoo):
    assert build(zoo.path, views=2).fingerprint == zoo.fingerprint
    with pytest.raises(ZooError, match="steps"):
        build(zoo.path, views=2, recipe=FitRecipe(steps=41))


def test_weights_of_an_image_do_not_depend_on_views_or_limit(zoo, tmp_path):
    alone = build(tmp_path / "z.h5", views=1, limit=20)
    assert np.array_equal(alone.metadata["seed"], zoo.metadata["seed"][:20])
    np.testing.assert_allclose(alone.matrix(range(20)), zoo.matrix(range(20)), rtol=1e-2, atol=1e-3)


def test_another_seed_gives_other_networks(zoo, tmp_path):
    other = build(tmp_path / "z.h5", views=2, seed=1)
    assert not set(other.metadata["seed"]) & set(zoo.metadata["seed"])


def test_shared_initialisation(tmp_path):
    zoo = build(tmp_path / "z.h5", initialisation="shared", recipe=FitRecipe(steps=1, learning_rate=1e-6))
    assert len(set(zoo.metadata["seed"])) == 1
    assert np.ptp(zoo.matrix(), axis=0).max() < 1e-5
    assert zoo.provenance["initialisation"] == "shared"
    with pytest.raises(ZooError, match="views is 2"):
        build(tmp_path / "y.h5", initialisation="shared", views=2)


def test_coloured_digits(tmp_path):
    recipe = FitRecipe(steps=160, learning_rate=0.015)
    zoo = build(tmp_path / "z.h5", source=Coloured(DigitsImages()), recipe=recipe)
    images = Coloured(DigitsImages()).load()
    for name in ("red", "green", "blue", "background_red"):
        assert np.array_equal(zoo.metadata[name], images.columns[name][:30])
    assert np.array_equal(zoo.metadata["label"], images.labels[:30])
    rendered = render(zoo)
    assert rendered.shape == (30, 8, 8, 3)
    found = -10 * torch.log10(
        (rendered - torch.from_numpy(images.pixels[:30] / 255)).square().mean((1, 2, 3))
    )
    recorded = torch.from_numpy(zoo.metadata["psnr"])
    assert (found >= recorded - 1e-3).all()
    assert recorded.median() > 24


@pytest.mark.parametrize(("source", "offset"), [(SdfShapes, 0.0), (OccupancyShapes, 0.5)])
def test_shapes_are_rendered_as_they_were_judged(tmp_path, source, offset):
    source = source(count=7, points=2048, batches=2, held_out=2000, resolution=16)
    zoo = build(
        tmp_path / "z.h5",
        source=source,
        architecture=SirenConfig(hidden=(16, 16), w0=10.0, output_offset=offset),
        recipe=FitRecipe(steps=200, learning_rate=0.015),
        limit=None,
    )
    columns = zoo.metadata
    assert set(columns) == {
        *("shape", "label", "view", "seed", "steps", "diverged"),
        *("iou", "surface_accuracy", "uniform_error", "surface_error"),
    }
    assert columns["label"].tolist() == list(range(7))
    assert zoo.provenance["label_names"][3] == "cylinder"
    rendered, points = render(zoo), zoo.forward.points()
    assert rendered.shape == (7, 16, 16, 16)
    wanted = source.values(source.load().distances(range(7), points[None])).view_as(rendered)
    inside, said = source.inside(wanted), source.inside(rendered)
    iou = (inside & said).sum((1, 2, 3)) / (inside | said).sum((1, 2, 3))
    np.testing.assert_allclose(iou, columns["iou"], atol=0.2)
    assert np.median(columns["iou"]) > 0.6
    assert (columns["surface_accuracy"] > 0.75).all()
    probes = ProbeFeatures(zoo.forward.build(), zoo.spec, points, 5)
    assert {name: tuple(x.shape) for name, x in probes(zoo.weights([0, 3])).items()}["h1"] == (2, 16, 5)
    assert probes.learned_inputs()[0].shape == (5, 3)
    if offset == 0:
        assert (columns["uniform_error"] < 0.05).all()
        assert rendered.min() < 0, "distances were clipped"


def test_learned_initial_weights_need_fewer_steps(tmp_path):
    recipe = FitRecipe(steps=5, learning_rate=0.03)
    found = {}
    for kind, meta in (("shared", None), ("meta", MetaRecipe(rounds=40))):
        zoo = build(tmp_path / f"{kind}.h5", initialisation=kind, meta=meta, recipe=recipe, limit=150)
        found[kind] = np.median(zoo.metadata["psnr"][zoo.split("test")])
    assert found["meta"] > found["shared"] + 2
    assert zoo.provenance["initialisation"] == "meta"
    assert zoo.provenance["meta"]["algorithm"] == "Reptile"
    assert zoo.provenance["meta"]["signals"] == 105


def test_diverged_fits_are_kept_and_flagged(tmp_path):
    hot = FitRecipe(steps=3, learning_rate=1e30)
    zoo = build(tmp_path / "z.h5", recipe=hot)
    assert zoo.metadata["diverged"].tolist() == [1] * 30
    with pytest.raises(ZooError, match="initial weights has diverged"):
        build(tmp_path / "m.h5", recipe=hot, initialisation="meta", meta=MetaRecipe(rounds=2))


def test_initial_weights_are_learned_from_training_images_alone(tmp_path):
    images = DigitsImages().load()
    recipe = {"initialisation": "meta", "meta": MetaRecipe(rounds=3), "recipe": FitRecipe(steps=2)}
    kept = None
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", images.pixels[:30])
        zoo = build(tmp_path / f"{name}.h5", source=ArrayImages(tmp_path / f"{name}.npy"), **recipe)
        if kept is None:
            kept = zoo.matrix(zoo.split("train"))
            images.pixels[zoo.split("test")] = 0
    assert np.array_equal(kept, zoo.matrix(zoo.split("train")))


def test_colour_fourier_networks_in_half_precision(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 4, 5, 3), dtype=np.uint8)
    np.save(tmp_path / "a.npy", pixels)
    zoo = build(
        tmp_path / "z.h5",
        source=ArrayImages(tmp_path / "a.npy"),
        architecture=FourierConfig(hidden=(16,), frequencies=8),
        recipe=FitRecipe(steps=150, learning_rate=3e-2, half_pixel_phases=False),
        dtype="float16",
        limit=None,
    )
    assert "label" not in zoo.metadata
    assert zoo.forward.channels == 3
    rendered = render(zoo, [7])
    assert rendered.shape == (1, 4, 5, 3)
    assert np.abs(rendered[0].numpy() - pixels[7] / 255).mean() < 0.05


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"views": 0}, "views"),
        ({"limit": 0}, "limit"),
        ({"workers": 0}, "workers"),
        ({"source": ArrayImages(Path("nowhere.npy"))}, "nowhere"),
        ({"splits": {"train": 0.5}}, "sum to 1"),
        ({"splits": {"a/b": 1.0}}, "cannot name a split"),
        ({"seed": -1}, "seed"),
        ({"initialisation": "learned"}, "initialisation is 'learned'"),
        ({"initialisation": "shared", "meta": MetaRecipe()}, "meta is given"),
        ({"initialisation": "meta", "splits": {"all": 1.0}}, "split train"),
        ({"initialisation": "meta", "views": 2}, "views is 2"),
        ({"dtype": "int8"}, "int8"),
    ],
)
def test_unusable_arguments_write_nothing(tmp_path, changes, said):
    with pytest.raises(ZooError, match=said):
        build(tmp_path / "z.h5", **changes)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [{"hidden": ()}, {"w0": -1.0}, {"output_scale": 0.0}])
def test_unusable_architectures_are_refused(arguments):
    with pytest.raises(ZooError, match=next(iter(arguments))):
        SirenConfig(**arguments)


def test_progress_goes_to_stderr(tmp_path, capsys):
    build(tmp_path / "z.h5", progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "30/30" in captured.err
    assert "psnr_offgrid" in captured.err


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configuration_files_hold_the_builder_s_arguments(path):
    parser = ArgumentParser()
    parser.add_function_arguments(build_inr_zoo, skip={"out"})
    arguments = parser.instantiate(parser.parse_object(yaml.safe_load(path.read_text())))
    assert {"source", "architecture", "recipe"} <= set(yaml.safe_load(path.read_text()))
    assert isinstance(arguments.recipe, FitRecipe)


def test_digits_configuration_builds(tmp_path):
    parser = ArgumentParser()
    parser.add_function_arguments(build_inr_zoo, skip={"out"})
    config = yaml.safe_load(next(path for path in CONFIGS if path.stem == "digits_inr").read_text())
    arguments = parser.instantiate(parser.parse_object({**config, "limit": 40, "views": 1}))
    zoo = build_inr_zoo(tmp_path / "z.h5", **{**arguments.as_dict(), "progress": False})
    assert isinstance(zoo, Zoo)
    assert np.median(zoo.metadata["psnr"]) >= 35
    assert np.median(zoo.metadata["psnr_offgrid"]) >= 30
