"""Executors: builds of every kind as tasks that run elsewhere, and errors. This file plays Ray itself."""

import pickle
import socket
import sys
from types import SimpleNamespace

import pytest
import torch
from small_zoos import build_zoo, image_splits, row_metadata, row_weights, start_build

from wsl.zoo import ShardedBuild, ZooError, _ray, _ray_connection
from wsl.zoo._executors import executor_of
from wsl.zoo._workers import write_pending
from wsl.zoo.classifiers import SmallCnns, TrainingRecipe, build_classifier_zoo
from wsl.zoo.images import DigitsImages
from wsl.zoo.inr import FitRecipe, MetaRecipe, SirenConfig, build_inr_zoo
from wsl.zoo.language import CharRecurrents, LanguageRecipe, build_language_zoo
from wsl.zoo.shapes import SdfShapes


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        super().__init__("a long traceback")
        self.cause = cause


class Ray(SimpleNamespace):
    """A cluster of one core: tasks get pickled copies of what they are given, and the last one ends first."""

    cloudpickle, exceptions = pickle, SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self):
        super().__init__(objects={}, cancelled=[], submitted=[], lost=False)

    def is_initialized(self):
        return True

    def cluster_resources(self):
        return {"CPU": 1.0}

    def put(self, value):
        self.objects[len(self.objects)] = pickle.dumps(value)
        return len(self.objects) - 1

    def get(self, reference):
        if self.lost and reference in self.submitted:
            raise RayError("The worker died.")
        value = pickle.loads(self.objects[reference])
        if isinstance(value, ZooError | ImportError):
            raise RayTaskError(value)
        return value

    def remote(self, num_cpus, max_retries):
        assert num_cpus == 1 and max_retries > 1
        return lambda function: SimpleNamespace(remote=lambda *given: self._submit(function, given))

    def _submit(self, function, given):
        try:
            result = function(*pickle.loads(pickle.dumps(given)))
        except (ZooError, ImportError) as err:
            result = err
        self.submitted.append(self.put(result))
        return self.submitted[-1]

    def wait(self, references, timeout):
        assert len(references) <= 2
        return references[-1:], references[:-1]

    def cancel(self, reference, force):
        self.cancelled.append(reference)


@pytest.fixture
def ray(monkeypatch):
    _ray._maker.cache_clear()
    monkeypatch.setitem(sys.modules, "ray", Ray())
    yield sys.modules["ray"]
    _ray._maker.cache_clear()


class Maker:
    """The rows of the small zoo; ``fails`` is raised for shard 2."""

    def __init__(self, fails=None):
        self.fails = fails

    def __call__(self, shard, report):
        assert torch.get_num_threads() == 1
        if self.fails is not None and shard == 2:
            raise self.fails
        rows = range(5 * shard, min(5 * shard + 5, 16))
        report(len(rows))
        return row_weights(rows), row_metadata(rows)


def build_inrs(out, **changes):
    return build_inr_zoo(
        out,
        DigitsImages(),
        SirenConfig((4,)),
        FitRecipe(steps=5),
        limit=9,
        shard_rows=3,
        progress=False,
        **changes,
    )


def build_learned(out, **changes):
    return build_inrs(out, initialisation="meta", meta=MetaRecipe(rounds=2, batch=2, steps=2), **changes)


def build_shapes(out, **changes):
    shapes = SdfShapes(count=9, points=64, batches=2, held_out=32, resolution=3)
    return build_inr_zoo(
        out, shapes, SirenConfig((4,)), FitRecipe(steps=5), shard_rows=3, progress=False, **changes
    )


def build_classifiers(out, **changes):
    recipe = TrainingRecipe(epochs=1, checkpoints=[0], batch_size=[16, 32, 64])
    nets = SmallCnns((3, 4), "relu")
    return build_classifier_zoo(
        out, DigitsImages(), 10, None, nets, recipe, limit=200, evaluated=20, progress=False, **changes
    )


def build_language(out, **changes):
    recipe = LanguageRecipe(steps=[2, 3], checkpoints=[0], batch_size=[4, 8])
    nets = CharRecurrents(cell=["lstm", "gru"], hidden=4, embedding=2)
    return build_language_zoo(
        out,
        10,
        architecture=nets,
        recipe=recipe,
        length=8,
        limit=2000,
        evaluated=8,
        progress=False,
        **changes,
    )


@pytest.mark.parametrize(
    "build", [build_inrs, build_learned, build_shapes, build_classifiers, build_language]
)
def test_tasks_make_the_same_file_as_threads(ray, tmp_path, build):
    local = build(tmp_path / "local.h5")
    distributed = build(tmp_path / "ray.h5", executor="ray")
    assert len(ray.submitted) >= 3
    assert distributed.path.read_bytes() == local.path.read_bytes()


@pytest.mark.parametrize("name", ["local", "ray"])
def test_news_arrive_with_shards(ray, tmp_path, name):
    news = []
    with start_build(tmp_path / "z.h5") as build:
        write_pending(build, Maker(), executor_of(name, None, 2), news.append)
        zoo = build.pack(image_splits(16))
    assert sorted(news) == [1, 5, 5, 5]
    assert zoo.path.read_bytes() == build_zoo(tmp_path / "undisturbed.h5").path.read_bytes()


@pytest.mark.parametrize("name", ["local", "ray"])
def test_an_interrupted_build_cancels_its_tasks_and_goes_on(ray, tmp_path, monkeypatch, name):
    write, stored = ShardedBuild.write, []

    def interrupted(self, shard, *made):
        if stored:
            raise KeyboardInterrupt
        write(self, shard, *made)
        stored.append(shard)

    monkeypatch.setattr(ShardedBuild, "write", interrupted)
    with pytest.raises(KeyboardInterrupt), start_build(tmp_path / "z.h5") as build:
        write_pending(build, Maker(), executor_of(name, None, None), lambda rows: None)
    assert len(ray.cancelled) == (1 if name == "ray" else 0)
    monkeypatch.setattr(ShardedBuild, "write", write)
    with start_build(tmp_path / "z.h5") as build:
        assert len(build.pending) == 3
        write_pending(build, Maker(), executor_of("local", None, 1), lambda rows: None)
        zoo = build.pack(image_splits(16))
    assert zoo.path.read_bytes() == build_zoo(tmp_path / "undisturbed.h5").path.read_bytes()


@pytest.mark.parametrize(
    ("fails", "message"),
    [
        (ZooError("No such image."), "^No such image.$"),
        (ModuleNotFoundError("No module named 'mine'"), "cannot import .*No module named 'mine'.* each node"),
    ],
)
def test_errors_of_tasks(ray, tmp_path, fails, message):
    with start_build(tmp_path / "z.h5") as build, pytest.raises(ZooError, match=message):
        write_pending(build, Maker(fails), executor_of("ray", None, None), lambda rows: None)


def test_a_shard_that_is_lost_for_good(ray, tmp_path):
    ray.lost = True
    with (
        start_build(tmp_path / "z.h5") as build,
        pytest.raises(ZooError, match="cannot be made .*worker died"),
    ):
        write_pending(build, Maker(), executor_of("ray", None, None), lambda rows: None)


def test_a_node_with_other_versions(ray, tmp_path, monkeypatch):
    versions = iter([{"torch": "9.0"}, {"torch": "9.1"}, {"torch": "9.1"}] * 4)
    monkeypatch.setattr(_ray, "_versions", lambda: next(versions))
    with (
        start_build(tmp_path / "z.h5") as build,
        pytest.raises(ZooError, match="'9.1'} there, .*'9.0'} here"),
    ):
        write_pending(build, Maker(), executor_of("ray", None, None), lambda rows: None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("cloud", None, None), "'cloud', expected local or ray"),
        (("local", "10.0.0.1:6379", None), "executor is local. Set executor to ray"),
        (("local", None, 0), "workers is 0"),
        (("ray", "ray://10.0.0.1:10001", None), "expected HOST:PORT"),
        (("ray", "10.0.0.1", None), "expected HOST:PORT"),
    ],
)
def test_unusable_executors(ray, tmp_path, given, message):
    executor, address, workers = given
    with pytest.raises(ZooError, match=message):
        build_inrs(tmp_path / "z.h5", executor=executor, address=address, workers=workers)
    assert not list(tmp_path.iterdir())


def test_without_ray_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ZooError, match=r"pip install 'weightspace\[ray\]'.*executor local"):
        build_inrs(tmp_path / "z.h5", executor="ray")


def test_a_session_and_an_address(ray, tmp_path):
    with pytest.raises(ZooError, match="has a Ray session already"):
        build_inrs(tmp_path / "z.h5", executor="ray", address="127.0.0.1:1")
    assert not list(tmp_path.iterdir())


def test_addresses_without_a_cluster(ray, tmp_path, monkeypatch):
    ray.is_initialized = lambda: False
    monkeypatch.setattr(_ray_connection, "_JOIN", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ZooError, match=f"at {address}: it did not answer as the head of a cluster"):
            build_inrs(tmp_path / "z.h5", executor="ray", address=address)
    with pytest.raises(ZooError, match=f"at {address}: .*refused.*ray start --head"):
        build_inrs(tmp_path / "z.h5", executor="ray", address=address)
    assert not list(tmp_path.iterdir())


def test_the_error_of_a_connection_is_what_ray_said():
    said = "Traceback (most recent call last):\n  File x\nRuntimeError: Version mismatch: The cluster has\n"
    assert (
        _ray_connection._last_error(said + "    Ray: 2.1\n") == "Version mismatch: The cluster has Ray: 2.1"
    )
