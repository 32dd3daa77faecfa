"""Files that contradict one another, or lack something: an error that names file, row and tensor."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foreign_zoos
import h5py
import numpy as np
import pytest
import torch

from wsl.zoo import ZooError
from wsl.zoo.formats import FORMATS, import_zoo


def first(folder: Path, pattern: str) -> Path:
    return sorted(folder.rglob(pattern))[0]


def change_state(pattern: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Change what ``torch.save`` stored in the first file of this name."""

    def apply(source: Path) -> None:
        path = first(source, pattern)
        content = torch.load(path, weights_only=True)
        change(content)
        torch.save(content, path)

    return apply


def change_text(pattern: str, old: str, new: str) -> Callable[[Path], None]:
    def apply(source: Path) -> None:
        path = first(source, pattern)
        packed = path.suffix == ".gz"
        text = gzip.decompress(path.read_bytes()).decode() if packed else path.read_text()
        assert old in text
        changed = text.replace(old, new, 1).encode()
        path.write_bytes(gzip.compress(changed) if packed else changed)

    return apply


def change_json(pattern: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def apply(source: Path) -> None:
        path = first(source, pattern)
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return apply


def change_hdf5(change: Callable[[Any], None]) -> Callable[[Path], None]:
    def apply(source: Path) -> None:
        with h5py.File(first(source, "nefs_7-12.hdf5"), "r+") as file:
            change(file)

    return apply


def replace_dataset(file: Any, name: str, values: Any) -> None:
    del file[name]
    file[name] = values


def rename(pattern: str, name: str) -> Callable[[Path], None]:
    def apply(source: Path) -> None:
        path = first(source, pattern)
        path.rename(path.with_name(name))

    return apply


def remove(pattern: str) -> Callable[[Path], None]:
    return lambda source: first(source, pattern).unlink()


CASES: list[tuple[str, Callable[[Path], None], str]] = [
    (
        "dws_mnist",
        change_state("model_final.pth", lambda s: s.pop("seq.1.bias")),
        "missing tensors seq.1.bias",
    ),
    ("dws_mnist", change_state("*_3_12/*/*.pth", lambda s: s.update(x=torch.ones(1))), "unknown tensors x"),
    (
        "dws_mnist",
        change_state("*_3_12/*/*.pth", lambda s: s.update({"seq.0.bias": torch.ones(4)})),
        "has the shape",
    ),
    (
        "dws_mnist",
        change_text("mnist_splits.json", '"0"', '"3"'),
        "has the label 0, and the split train says 3",
    ),
    ("dws_mnist", change_text("mnist_splits.json", "_0_9/", "_0_99/"), "has no mnist_png_training_0_99"),
    ("dws_mnist", change_json("mnist_splits.json", lambda j: j["val"].update(j["train"])), "and in val"),
    ("dws_mnist", change_json("mnist_splits.json", lambda j: j["val"].pop("label")), "pair of lists"),
    ("dws_fashion", change_state("model_0.pth", lambda s: s.pop("label")), "holds no label"),
    (
        "dws_fashion",
        change_state("model_1.pth", lambda s: s.update(label="3")),
        "label is '3', expected an integer",
    ),
    ("nfn", rename("randinit_smaller_aug1_5s/net0.pth", "net1.pth"), ""),
    ("implicit_zoo", change_state("000000_0000042.ckpt", lambda s: s.update(image_idx=3)), "another image"),
    (
        "implicit_zoo",
        change_json("0_2.json", lambda j: j.update({"../0": 1.0})),
        "expected the number of an image",
    ),
    ("cnnzoo", change_text("layout.csv", "(16, 10)", "(10, 16)"), "do not follow one another"),
    ("cnnzoo", change_text("layout.csv", ":0,160,176", ":0,161,176"), "row 3"),
    ("cnnzoo", change_text("layout.csv", "conv2d_1/bias:0", "conv2d_1/gamma:0"), "is no variable"),
    ("cnnzoo", change_text("metrics.csv.gz", "adam", "adam,1"), "row 1 has 23 cells"),
    ("cnnzoo", change_text("metrics.csv.gz", "0.001,", "much,"), "config.learning_rate of row 4 is 'much'"),
    ("cnnzoo", change_text("metrics.csv.gz", "config.l2reg", "config.l3reg"), "expected config.activation"),
    ("cnnzoo", change_text("metrics.csv.gz", "tanh", "swish"), "there is no activation 'swish'"),
    ("cnnzoo", change_text("cifar10_split.csv", "\n7\n", "\n8\n"), "does not name each of the 30 rows once"),
    (
        "cnnzoo",
        lambda s: np.save(s / "weights.npy", np.ones((30, 4969), np.float32)),
        r"expected float32 \(rows, 4970\)",
    ),
    (
        "cnnzoo",
        lambda s: np.save(s / "weights.npy", np.ones((29, 4970), np.float32)),
        "has more than 30 records",
    ),
    ("cnnzoo", lambda s: np.save(s / "weights.npy", np.ones((30, 4970))), "holds float64"),
    (
        "wildpark",
        change_json("cnn_park_splits.json", lambda j: j["val"]["score"].reverse()),
        "and the splits say",
    ),
    (
        "wildpark",
        change_json("cnn_park_splits.json", lambda j: j["val"]["step"].pop()),
        "lists of one length",
    ),
    ("wildpark", rename("checkpoint_000010", "checkpoint_000011"), "has no NN_tune"),
    ("modelzoo_dataset", change_json("params.json", lambda j: j.update({"model::type": "MLP"})), "--module"),
    (
        "modelzoo_dataset",
        change_json("params.json", lambda j: j.update({"model::nlin": "sine"})),
        "model::nlin sine",
    ),
    (
        "modelzoo_dataset",
        change_json("params.json", lambda j: j.update({"model::dropout": 0.5})),
        "missing tensors",
    ),
    (
        "modelzoo_dataset",
        change_json("params.json", lambda j: j.update({"model::channels_in": 3})),
        "other channels",
    ),
    (
        "modelzoo_dataset",
        change_json("params.json", lambda j: j.update({"train_loss": 3})),
        "train_loss name a parameter",
    ),
    (
        "modelzoo_dataset",
        change_text("result.json", '"training_iteration": 0', '"training_iteration": 1'),
        "line 2",
    ),
    (
        "modelzoo_dataset",
        change_text("result.json", '"training_iteration"', '"iteration"'),
        "no training_iteration",
    ),
    (
        "nef",
        change_hdf5(lambda f: replace_dataset(f, "params", np.ones((5, 64), np.float32))),
        "params is float32",
    ),
    ("nef", change_hdf5(lambda f: replace_dataset(f, "labels", np.ones(4, np.int32))), "labels is int32"),
    ("nef", change_hdf5(lambda f: f.pop("labels")), "other parameters or labels than the first file"),
    ("nef", change_hdf5(lambda f: f.create_dataset("extra", data=[1])), "extra, which are unknown"),
    ("nef", change_json("nef_cfg.json", lambda j: j.update(num_layers=4)), "and the configuration 4"),
    ("nef", rename("nefs_7-12.hdf5", "nefs_6-11.hdf5"), "some of the same networks"),
    ("sane", change_state("sample_0.pt", lambda s: s.update(m=s["m"][:, :5])), "which do not fit"),
    ("sane", change_json("dataset_info_train.json", lambda j: j["properties"].pop()), "other properties"),
    ("nws", change_text("nws_main_train.csv", ",6,4", ",6,5"), "expected 11 float64 values"),
    ("nws", change_text("nws_main_train.csv", "nws/0001", "../0003"), "has no folder '0003'"),
    (
        "nws",
        lambda s: (s / "0001/stat.bin").write_bytes(np.array([9.0, 1, 1, 1]).tobytes()),
        "and stat.bin says 9",
    ),
    ("nws", remove("013.bin"), "013.bin is not there"),
    ("state_dicts", change_text("labels.csv", "net3.pt", "net9.pt"), "row 4 names 'net9.pt'"),
    ("state_dicts", change_text("labels.csv", "net3.pt", "../net3.pt"), "row 4 names '../net3.pt'"),
    ("state_dicts", change_text("labels.csv", "net3.pt", "net2.pt"), "row 4 names 'net2.pt' a second time"),
    (
        "state_dicts",
        change_text("labels.csv", "net4.pt,4,name 4,1.0,test\n", ""),
        "has no row for 1 networks",
    ),
    ("state_dicts", change_text("labels.csv", "net4.pt,4", "net4.pt"), "row 5 has 4 cells, and the header 5"),
    (
        "state_dicts",
        change_text("labels.csv", "score", "score:int"),
        "score of row 2 is '0.25', expected an integer",
    ),
    ("state_dicts", change_text("labels.csv", "score", "label"), "two columns named label"),
    ("state_dicts", change_text("labels.csv", "score", "a/b"), "cannot name a metadata column"),
    ("state_dicts", change_state("net2.pt", lambda s: s.update(epoch=3)), "holds a int under 'epoch'"),
    (
        "state_dicts",
        change_state("net2.pt", lambda s: s.update({"a b": torch.ones(1)})),
        "cannot be a tensor's name",
    ),
    ("state_dicts", change_state("net2.pt", lambda s: s.update(c=torch.ones(2) * 1j)), "ComplexFloatStorage"),
    (
        "state_dicts",
        change_state("net2.pt", lambda s: s.update(c=torch.tensor(2**40 + 1))),
        "c holds int64 values",
    ),
    ("lora", change_json("adapter0/adapter_config.json", lambda j: j.update(r=3)), "the rank 4"),
    (
        "lora",
        change_json("adapter0/adapter_config.json", lambda j: j.update(use_dora=True)),
        "plain LoRA adapter",
    ),
    (
        "lora",
        change_json("adapter1/adapter_config.json", lambda j: j.pop("lora_alpha")),
        "alpha is None",
    ),
    ("lora", remove("adapter_config.json"), "adapter_config.json is not there"),
    ("safetensors", lambda s: (s / "one/adapter_config.json").write_text("{}"), "import its folder as lora"),
    ("safetensors", remove("config.json"), "two/model.safetensors has other things beside it"),
]


@pytest.mark.parametrize(
    ("name", "damage", "message"), CASES, ids=[f"{i}-{name}" for i, (name, _, _) in enumerate(CASES)]
)
def test_contradictions_are_refused(
    name: str, damage: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    form, make = foreign_zoos.ZOOS[name]
    source = make(tmp_path / "source")
    damage(source if source.name != "mnist-inrs" and source.name != "cifar10_zooV2" else source.parent)
    if not message:
        import_zoo(FORMATS[form], source, tmp_path / "zoo.h5")
        return
    with pytest.raises(ZooError, match=message) as caught:
        import_zoo(FORMATS[form], source, tmp_path / "zoo.h5")
    assert "\n\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["source"], "nothing is left behind"


@pytest.mark.parametrize("form", list(FORMATS))
def test_folders_of_something_else_are_refused(form: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source in (tmp_path / "empty", tmp_path / "absent", Path(__file__)):
        with pytest.raises(ZooError):
            import_zoo(FORMATS[form], source, tmp_path / "zoo.h5")
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_several_zoos_in_a_folder_are_listed(tmp_path: Path) -> None:
    foreign_zoos.dws_mnist(tmp_path / "dws")
    foreign_zoos.dws_fashion(tmp_path / "dws")
    with pytest.raises(ZooError, match=r"fmnist_inrs, .*mnist-inrs: name one of them"):
        import_zoo(FORMATS["dws"], tmp_path / "dws", tmp_path / "zoo.h5")


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    source = foreign_zoos.state_dicts(tmp_path / "source")
    (tmp_path / "secret.pt").write_bytes((source / "net0.pt").read_bytes())
    (source / "net0.pt").unlink()
    (source / "net0.pt").symlink_to(tmp_path / "secret.pt")
    with pytest.raises(ZooError, match="leads out of"):
        import_zoo(FORMATS["state_dicts"], source, tmp_path / "zoo.h5")
