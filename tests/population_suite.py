"""What zoos of every population builder have in common, whatever they train."""

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from wsl.zoo import ShardedBuild, ZooError
from wsl.zoo.training import PopulationRecipe, Range

ENTRIES: dict[str, Any] = {
    "learning_rate": Range(1e-3, 1e-1, log=True),
    "weight_decay": Range(1e-6, 1e-3, log=True),
    "dropout": [0.0, 0.2],
    "optimizer": ["sgd", "momentum", "adam", "rmsprop"],
    "initialisation": ["default", "orthogonal"],
    "initial_scale": Range(0.5, 2.0),
    "train_fraction": Range(0.05, 1.0, log=True),
}
"""Entries of all recipes, as :class:`DrawnPopulationSuite` expects them."""


class PopulationSuite:
    """Subclassed in a module with a fixture ``zoo``, what ``build(out)`` makes.

    A subclass names the builder, its small ``build(out, **changes)``, one small stack as changes of the
    arguments, how many stacks an interrupted build has stored and how often one is killed at least, and the
    column whose values keep rows in one split.
    """

    builder: ClassVar[Callable[..., Any]]
    build: ClassVar[Callable[..., Any]]
    one_stack: ClassVar[dict[str, Any]]
    stored = 3
    kills = 3
    group = "model"

    def test_workers_do_not_change_the_file(self, zoo, tmp_path):
        assert self.build(tmp_path / "z.h5", workers=3).path.read_bytes() == zoo.path.read_bytes()

    def test_interrupted_builds_resume_to_the_same_file(self, zoo, tmp_path, monkeypatch):
        write, stored, out = ShardedBuild.write, [], tmp_path / "z.h5"

        def interrupted(self, shard, weights, metadata, enough=self.stored):
            if len(stored) == enough:
                raise KeyboardInterrupt
            write(self, shard, weights, metadata)
            stored.append(shard)

        monkeypatch.setattr(ShardedBuild, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            self.build(out)
        assert not out.exists()
        assert len(stored) == self.stored

        def counted(self, shard, weights, metadata):
            assert shard not in stored, "trained twice"
            write(self, shard, weights, metadata)

        monkeypatch.setattr(ShardedBuild, "write", counted)
        assert self.build(out).path.read_bytes() == zoo.path.read_bytes()

    @pytest.mark.slow
    def test_killed_builds_come_to_the_same_file(self, zoo, tmp_path, repository):
        """Kill -9 another process, each time after one more stack of networks has been stored."""
        out, kills, moments = tmp_path / "z.h5", 0, np.random.default_rng(0)
        module = Path(sys.modules[self.build.__module__].__file__)
        script = f"from {module.stem} import build; build({str(out)!r}, workers=2)"
        paths = os.pathsep.join(map(str, (repository, repository / "tests", module.parent)))
        while not out.exists():
            stored = set(Path(f"{out}.build").glob("shard-*.npz"))
            process = subprocess.Popen([sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": paths})
            while process.poll() is None and set(Path(f"{out}.build").glob("shard-*.npz")) <= stored:
                time.sleep(0.001)
            time.sleep(moments.uniform(0, 0.02))
            process.kill()
            killed = process.wait() == -signal.SIGKILL
            kills += killed
            assert killed or out.exists(), "the build failed"
            assert out.exists() or stored < set(Path(f"{out}.build").glob("shard-*.npz"))
        assert kills >= self.kills
        assert self.build(out).path.read_bytes() == zoo.path.read_bytes()

    def test_other_processes_make_the_same_stack(self, tmp_path, monkeypatch):
        caught = []
        monkeypatch.setattr(
            f"{self.builder.__module__}.build_population", lambda *given: caught.append(given[1])
        )
        self.build(tmp_path / "z.h5", **self.one_stack)
        here, stack = caught[0].train, caught[0].stacks[0]
        there, sent = pickle.loads(pickle.dumps((here, stack)))
        made = [train(plans, lambda count: None) for train, plans in ((here, stack), (there, sent))]
        columns, weights = [one.columns for one in made], [one.weights for one in made]
        assert columns[0].keys() == columns[1].keys() and weights[0].keys() == weights[1].keys()
        assert all(np.array_equal(columns[0][name], columns[1][name]) for name in columns[0])
        assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])

    def test_groups_do_not_straddle_splits(self, zoo):
        groups = [set(zoo.metadata[self.group][zoo.split(name)]) for name in zoo.splits]
        assert len(groups) > 1 and all(groups)
        assert sum(map(len, groups)) == len(set.union(*groups)) == len(set(zoo.metadata[self.group]))

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"seed": -1}, "seed is -1"),
            ({"evaluated": 0}, "evaluated is 0"),
            ({"workers": 0}, "workers"),
            ({"address": "127.0.0.1:1"}, "executor is local"),
            ({"limit": 0}, "limit is 0"),
            ({"dtype": "int8"}, "int8"),
            ({"splits": {"train": 0.5}}, "sum to 1"),
            ({"splits": {"train": 0.999, "test": 0.001}}, "groups are too few"),
        ],
    )
    def test_unusable_settings_write_nothing(self, tmp_path, changes, said):
        with pytest.raises(ZooError, match=said):
            self.build(tmp_path / "z.h5", **changes)
        assert list(tmp_path.iterdir()) == []


class DrawnPopulationSuite(PopulationSuite):
    """For builders whose networks draw their hyperparameters.

    A subclass names in addition some columns that are drawn, the recipe of ``build`` (with
    :data:`ENTRIES`), what it draws from the seed 1 after these, and arguments of ten networks of two
    checkpoints, some with a learning rate above 1 that makes them diverge.
    """

    drawn: ClassVar[tuple[str, ...]]
    recipe: ClassVar[PopulationRecipe[Any]]
    drawn_last: ClassVar[dict[str, Any]]
    diverging: ClassVar[dict[str, Any]]

    def test_a_network_does_not_depend_on_how_many_there_are(self, zoo, tmp_path):
        few = self.build(tmp_path / "z.h5", networks=10)
        for column in self.drawn:
            for model in range(10):
                values = [z.metadata[column][z.metadata["model"] == model][0] for z in (few, zoo)]
                assert values[0] == values[1]
        other = self.build(tmp_path / "y.h5", networks=10, seed=1)
        assert not set(other.metadata["learning_rate"]) & set(few.metadata["learning_rate"])

    def test_diverged_networks_are_kept_and_flagged(self, tmp_path):
        columns = self.build(tmp_path / "z.h5", networks=10, **self.diverging).metadata
        last = columns["step"] == columns["step"].max()
        diverged = (columns["learning_rate"] > 1) & last
        assert len(last) == 20
        assert 0 < diverged.sum() < 10
        assert (columns["diverged"] == diverged).all()
        assert (columns["test_accuracy"][diverged] == 0).all()
        assert np.isfinite(columns["test_loss"][~diverged]).all()

    @pytest.mark.parametrize(
        "arguments",
        [
            {"learning_rate": 0.0},
            {"weight_decay": -1.0},
            {"dropout": Range(0, 1)},
            {"optimizer": "newton"},
            {"initialisation": []},
            {"initial_scale": [1.0, 0.0]},
            {"train_fraction": [0.5, 1.5]},
            {"batch_size": 0},
            {"batch_size": 1.5},
            {"checkpoints": [-1]},
            {"checkpoints": [0.5]},
            {"learning_rate": "fast"},
            {"learning_rate": [0.1, None]},
            {"optimizer": None},
        ],
    )
    def test_unusable_recipes_are_refused(self, arguments):
        with pytest.raises(ZooError, match=f"recipe.{next(iter(arguments))}"):
            type(self.recipe)(**arguments)

    def test_draws_stay_the_same(self):
        """A change of their order would make another zoo of the same seed."""
        shared = {
            "learning_rate": pytest.approx(0.010559497443981646),
            "weight_decay": pytest.approx(0.0007102170416433423),
            "dropout": 0.0,
            "optimizer": "rmsprop",
            "initialisation": "default",
            "initial_scale": pytest.approx(1.1349896734588634),
            "train_fraction": pytest.approx(0.5968097456748748),
        }
        assert asdict(self.recipe.draw(np.random.default_rng(1))) == shared | self.drawn_last

    @pytest.mark.parametrize(
        "changes", [{"dropout": Range(0.1, 0.9)}, {"optimizer": "sgd"}, {"batch_size": 2}]
    )
    def test_changing_one_entry_of_a_recipe_leaves_the_others_alone(self, changes):
        recipes = (self.recipe, replace(self.recipe, **changes))
        before, after = (asdict(recipe.draw(np.random.default_rng(1))) for recipe in recipes)
        assert {name for name in before if before[name] != after[name]} == set(changes)

    @pytest.mark.parametrize(
        ("changes", "said"), [({"networks": 0}, "networks is 0"), ({"networks": 3}, "3 groups are too few")]
    )
    def test_unusable_numbers_of_networks_write_nothing(self, tmp_path, changes, said):
        self.test_unusable_settings_write_nothing(tmp_path, changes, said)
