"""Training by the command line on zoos of different architectures."""

import json
from pathlib import Path

import mixed_zoo
import pytest
import tiny_zoo
from small_runs import assert_goes_on_from_last, fit

from wsl.cli import main
from wsl.report import learning_curves, read_predictions
from wsl.zoo import Zoo

pytestmark = [
    pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory"),
    pytest.mark.filterwarnings("ignore:Experiment logs directory"),
]

CONFIGS = Path(__file__).parents[1] / "configs"
ONE_ARCHITECTURE = {"dwsnet", "nfn_np", "nfn_hnp", "nft", "universal", "stat_net", "flat_mlp"}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoos")
    return [
        str(tiny_zoo.build(folder / f"{i}.h5", images=30, hidden=hidden).path)
        for i, hidden in enumerate(((6, 5), (4, 7)))
    ]


def test_a_run_from_training_to_predictions(paths, folder, capsys):
    listed = f"[{', '.join(paths)}]"
    assert fit(listed) == 0
    run = folder / "runs" / "a"
    assert learning_curves(run)["val/accuracy"][0].tolist() == [1, 2]
    assert main(["test", "--name", "a"]) == 0
    metrics = json.loads((run / "test.json").read_text())
    assert main(["predict", "--name", "a"]) == 0
    found = read_predictions(run)
    first, second = (Zoo.open(path) for path in paths)
    assert found.rows.tolist() == [*first.split("test"), *(len(first) + second.split("test"))]
    assert found.accuracy == pytest.approx(metrics["test/accuracy"])
    assert (
        main(["test", "--config", "runs/a/config.yaml", "--name", "a", "--data.path", f"[{paths[1]}]"]) == 0
    )
    assert main(["test", "--config", "runs/a/config.yaml", "--name", "a", "--data.path", paths[1]]) == 2
    assert "the model is one for one architecture" in capsys.readouterr().err
    assert fit(listed, "--model.encoder", "FlatMLP", name="b") == 2


def test_training_goes_on_from_last(paths, folder, monkeypatch):
    assert_goes_on_from_last(f"[{', '.join(paths)}]", folder, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("config", sorted(CONFIGS.glob("encoder/*.yaml")), ids=lambda path: path.stem)
def test_every_encoder_of_the_configs_trains_or_is_refused(config, folder, capsys):
    path = mixed_zoo.build(folder / "cnns.h5").path
    options = ["--data.path", str(path), "--data.batch_size", "8", "--trainer.accelerator", "cpu"]
    limits = ["--trainer.max_epochs", "1", "--trainer.limit_train_batches", "2"]
    configs = ["--config", str(CONFIGS / "task" / "inr_classification.yaml"), "--config", str(config)]
    code = main(["fit", *configs, *options, *limits, "--name", "a"])
    if config.stem in ONE_ARCHITECTURE:
        assert code == 2 and "reads one architecture only" in capsys.readouterr().err
        assert not (folder / "runs").exists()
    else:
        assert code == 0 and main(["test", "--name", "a"]) == 0
