"""Imported networks run as their authors ran them; labels, splits and metadata are kept."""

import json
from pathlib import Path
from typing import Any

import foreign_zoos
import h5py
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from foreign_pickles import omegaconf_stand_in
from torch.func import functional_call

from wsl.spec import WeightSpec
from wsl.zoo import ForwardDefinition, Zoo, ZooError, render
from wsl.zoo._forward import UNKNOWN
from wsl.zoo.formats import FORMATS, DescribedModule, ImportOptions, import_zoo


def imported(name: str, folder: Path, options: ImportOptions | None = None) -> Zoo:
    form, make = foreign_zoos.ZOOS[name]
    return import_zoo(FORMATS[form], make(folder / "source"), folder / "zoo.h5", options).zoo


def run(zoo: Zoo, row: int, x: torch.Tensor) -> torch.Tensor:
    """The output of one network, by the zoo's own forward definition."""
    (located,) = zoo.locate([row])
    weights = {name: tensor[0] for name, tensor in located.architecture.weights(located.rows).items()}
    output: torch.Tensor = functional_call(located.architecture.forward.build(), weights, (x,))
    return output


def columns_first(side: int) -> torch.Tensor:
    """Points as numpy's meshgrid makes them by default: the first coordinate runs along the columns."""
    x, y = np.meshgrid(np.linspace(-1, 1, side), np.linspace(-1, 1, side))
    return torch.from_numpy(np.stack([x.ravel(), y.ravel()], axis=1)).float()


def siren(state: Any, stems: tuple[str, str, str], points: torch.Tensor) -> torch.Tensor:
    h = points
    for stem in stems[:2]:
        h = torch.sin(30 * (h @ state[f"{stem}.weight"].T + state[f"{stem}.bias"]))
    return h @ state[f"{stems[2]}.weight"].T + state[f"{stems[2]}.bias"]


def test_dws_images_are_those_of_the_authors(tmp_path: Path) -> None:
    zoo = imported("dws_mnist", tmp_path)
    assert zoo.metadata["image"].tolist() == [9, 10, 11, 12, 13, 14]
    assert zoo.metadata["label"].tolist() == [0, 1, 2, 3, 0, 1]
    assert {name: split.indices.tolist() for name, split in zoo.splits.items()} == {
        "train": [0, 1, 2], "val": [3], "test": [4, 5],
    }  # fmt: skip
    path = tmp_path / "source/mnist-inrs/mnist_png_training_1_10/checkpoints/model_final.pth"
    output = siren(torch.load(path, weights_only=True), ("seq.0", "seq.1", "seq.2"), columns_first(28)) + 0.5
    expected = output.reshape(28, 28).clamp(0, 1)
    torch.testing.assert_close(render(zoo, [1])[0], expected, atol=1e-4, rtol=1e-3)
    assert not torch.allclose(render(zoo, [1])[0], expected.T, atol=1e-2), "rows and columns are told apart"


def test_dws_labels_of_fashion_mnist_are_inside(tmp_path: Path) -> None:
    zoo = imported("dws_fashion", tmp_path)
    assert zoo.metadata["label"].tolist() == [7, 6, 5, 4, 3]
    assert zoo.split("val").tolist() == [3] and zoo.split("test").tolist() == [4]


def test_nfn_links_the_fits_of_an_image_and_keeps_the_official_splits(tmp_path: Path) -> None:
    zoo = imported("nfn", tmp_path)
    assert zoo.metadata["image"].tolist() == [0] * 3 + [44_999] * 3 + [45_000] * 3 + [50_000] * 3
    assert zoo.metadata["view"].tolist() == [0, 1, 2] * 4
    assert [len(zoo.split(name)) for name in ("train", "val", "test")] == [6, 3, 3]
    path = tmp_path / "source/siren_cifar_wts/randinit_smaller_aug0_5s/net0.pth"
    axis = torch.linspace(-1, 1, 32)
    points = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    output = siren(torch.load(path, weights_only=True), ("net.0.linear", "net.1.linear", "net.2"), points)
    expected = ((output + 1) / 2).reshape(32, 32, 3).clamp(0, 1)
    torch.testing.assert_close(render(zoo, [1])[0], expected, atol=1e-4, rtol=1e-3)


def test_implicit_zoo_undoes_the_normalisation_of_each_channel(tmp_path: Path) -> None:
    zoo = imported("implicit_zoo", tmp_path)
    assert zoo.metadata["label"].tolist() == [3, 9, 9] and zoo.metadata["seed"].tolist() == [42, 42, 43]
    assert zoo.metadata["psnr"][0] == 31.2 and np.isnan(zoo.metadata["psnr"][1:]).all()
    content = torch.load(tmp_path / "source/ckpts/09/000001_0000043.ckpt", weights_only=True)
    output = siren(content["params"], ("seq.0", "seq.1", "seq.2"), columns_first(32))
    mean, spread = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    expected = (output * spread + mean).reshape(32, 32, 3).clamp(0, 1)
    torch.testing.assert_close(render(zoo, [2])[0], expected, atol=1e-4, rtol=1e-3)


def test_small_cnns_compute_what_tensorflow_computes(tmp_path: Path) -> None:
    zoo = imported("cnnzoo", tmp_path)
    flat = torch.from_numpy(np.load(tmp_path / "source/weights.npy"))
    x = torch.rand(2, 15, 17, 1, generator=torch.Generator().manual_seed(0)) * 2 - 1  # NHWC
    for row, activation in ((4, F.relu), (0, torch.tanh)):
        h, place = x, 0
        for c_in in (1, 16, 16):
            bias = flat[row, place : place + 16]
            kernel = flat[row, place + 16 : place + 16 + 144 * c_in].reshape(3, 3, c_in, 16)
            place += 16 + 144 * c_in
            patches = h.unfold(1, 3, 2).unfold(2, 3, 2)  # N, H, W, C, 3, 3
            h = activation(torch.einsum("nhwcij,ijco->nhwo", patches, kernel) + bias)
        expected = h.mean((1, 2)) @ flat[row, place + 10 :].reshape(16, 10) + flat[row, place : place + 10]
        torch.testing.assert_close(run(zoo, row, x.permute(0, 3, 1, 2)), expected, atol=1e-4, rtol=1e-4)


def test_small_cnn_zoo_has_nfns_splits_of_the_last_epoch(tmp_path: Path) -> None:
    zoo = imported("cnnzoo", tmp_path)
    assert zoo.metadata["step"].tolist()[:4] == [0, 40, 86, 0]
    assert zoo.metadata["model"].tolist()[2:4] == [0, 1]
    order = [int(line) for line in (tmp_path / "source/cifar10_split.csv").read_text().split()][1:]
    final = [row for row in order if zoo.metadata["step"][row] == 86]
    assert sorted(final[5:]) == zoo.split("test").tolist()
    assert [len(zoo.split(name)) for name in ("train", "val", "test")] == [4, 1, 5]
    assert [a.forward.arguments["activation"] for a in zoo.architectures.values()] == ["tanh", "relu"]
    kinds = {s.kind for s in zoo.architectures["cnn-relu"].spec.scalings}
    assert kinds == {"positive"}, "each activation has its own symmetries"


def test_wild_park_networks_run_with_their_skip_connections(tmp_path: Path) -> None:
    zoo = imported("wildpark", tmp_path)
    assert len(zoo.architectures) == 3 and zoo.split("val").tolist() == [2, 3]
    path = tmp_path / "source/cifar10_zooV2/NN_tune_trainable_ab_00000/checkpoint_000020/checkpoint.pt"
    with omegaconf_stand_in():
        state = torch.load(path, weights_only=False)["model"]
    x = torch.randn(2, 3, 11, 11, generator=torch.Generator().manual_seed(0))
    first = F.relu(F.conv2d(x, state["layers.0.weight"], state["layers.0.bias"], padding=1))
    h = torch.tanh(F.conv2d(first, state["layers.1.weight"], state["layers.1.bias"], padding=2))
    h = F.conv2d(h, state["layers.2.weight"], state["layers.2.bias"], padding=3)
    h[:, :8] += first
    expected = F.gelu(h).mean((2, 3)) @ state["fc.weight"].T + state["fc.bias"]
    torch.testing.assert_close(run(zoo, 1, x), expected, atol=1e-4, rtol=1e-4)


def test_model_zoos_match_results_by_iteration_and_names_by_parameters(tmp_path: Path) -> None:
    zoo = imported("modelzoo_dataset", tmp_path)
    assert zoo.metadata["step"].tolist() == [0, 1, 2] * 2
    np.testing.assert_allclose(zoo.metadata["test_acc"], [0.1, 0.3, 0.5] * 2)
    assert np.isnan(zoo.metadata["log_hessian_trace"][[0, 1, 3, 4]]).all()
    assert zoo.metadata["curve_mc.test_error"][[2, 5]].tolist() == [0.5, 0.5]
    assert zoo.metadata["model::dropout"].tolist() == [0.0] * 3 + [0.2] * 3
    assert np.isnan(zoo.metadata["optim::momentum"]).all()
    folder = next((tmp_path / "source").rglob("NN_*_1_seed=1"))
    state = torch.load(folder / "checkpoint_000002/checkpoints", weights_only=True)
    weights = [value for name, value in state.items() if name.endswith("weight")]
    biases = [value for name, value in state.items() if name.endswith("bias")]
    x = torch.randn(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    h = F.leaky_relu(F.max_pool2d(F.conv2d(x, weights[0], biases[0]), 2))
    h = F.leaky_relu(F.max_pool2d(F.conv2d(h, weights[1], biases[1]), 2))
    h = F.leaky_relu(F.conv2d(h, weights[2], biases[2])).flatten(1)
    expected = F.leaky_relu(h @ weights[3].T + biases[3]) @ weights[4].T + biases[4]
    torch.testing.assert_close(run(zoo, 5, x), expected, atol=1e-2, rtol=1e-4)


def test_neural_fields_have_their_flax_kernels_turned(tmp_path: Path) -> None:
    zoo = imported("nef", tmp_path)
    assert zoo.metadata["index"].tolist() == list(range(12)) and len(zoo.split("train")) == 12
    with h5py.File(tmp_path / "source/MNIST/SIREN/nefs_7-12.hdf5") as file:
        flat = torch.from_numpy(file["params"][1])
        assert zoo.metadata["label"].tolist()[7:] == file["labels"][()].tolist()
    pieces = {}
    for name, shape in foreign_zoos.NEF_CONFIG:
        size = int(np.prod(shape))
        pieces[name], flat = flat[:size].reshape(*shape), flat[size:]
    h = columns_first(28)
    for i in range(2):
        stem = f"kernel_net_{i}.linear"
        h = torch.sin(8.0 * (h @ pieces[f"{stem}.kernel"] + pieces[f"{stem}.bias"]))
    output = h @ pieces["output_linear.kernel"] + pieces["output_linear.bias"]
    expected = (output * 0.30810782 + 0.13066047).reshape(28, 28).clamp(0, 1)
    torch.testing.assert_close(render(zoo, [8])[0], expected, atol=1e-4, rtol=1e-3)


def test_fields_without_their_frequency_are_kept_but_do_not_run(tmp_path: Path) -> None:
    source = foreign_zoos.nef(tmp_path / "source", w0=None)
    zoo, notes = import_zoo(FORMATS["nef"], source, tmp_path / "unknown.h5")
    assert zoo.forward.factory == UNKNOWN and any("omega_0" in note for note in notes)
    assert {scaling.kind for scaling in zoo.spec.scalings} == {"sign"}, "true of every frequency"
    known = import_zoo(FORMATS["nef"], source, tmp_path / "known.h5", ImportOptions(w0=24.0)).zoo
    assert known.forward.arguments["w0"] == 24.0


def test_adapters_have_the_symmetry_of_invertible_matrices(tmp_path: Path) -> None:
    zoo = imported("lora", tmp_path)
    assert zoo.metadata["rank"].tolist() == [4, 4, 2] and zoo.metadata["score"].tolist() == [0.5, 0.625, 0.75]
    assert [len(view) for view in zoo.architectures.values()] == [2, 1]
    for view in zoo.architectures.values():
        assert [scaling.kind for scaling in view.spec.scalings] == ["linear"]


def test_tokens_and_snapshots_claim_no_symmetry(tmp_path: Path) -> None:
    for name in ("sane", "nws"):
        zoo = imported(name, tmp_path / name)
        for view in zoo.architectures.values():
            assert {axis.kind for axis in view.spec.axes.values()} == {"fixed"} and view.spec.notes
    tokens = Zoo.open(tmp_path / "sane/zoo.h5")
    assert tokens.metadata["permutation"].tolist() == [0, 1, 2] * 3 and len(tokens.split("test")) == 3
    nws = Zoo.open(tmp_path / "nws/zoo.h5")
    assert nws.metadata["step"].tolist()[:20] == (np.round(np.linspace(0, 24, 20)) * 100).tolist()


class TwoLayers(torch.nn.Module):
    """Reads the state dicts of :func:`foreign_zoos.state_dicts`."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.b(torch.relu(self.a(x)))
        return output


def test_state_dicts_with_a_module_have_its_symmetries(tmp_path: Path) -> None:
    forward = ForwardDefinition("my_package:TwoLayers")
    described = DescribedModule(TwoLayers(), (torch.randn(2, 3),), {}, forward)
    zoo = imported("state_dicts", tmp_path, ImportOptions(module=described))
    assert zoo.forward == forward and {s.kind for s in zoo.spec.scalings} == {"positive"}
    assert zoo.metadata["label"].dtype == np.int64 and np.isnan(zoo.metadata["score"][2])
    assert zoo.metadata["name"][3] == "name 3" and zoo.split("test").tolist() == [3, 4]


def test_state_dicts_with_a_specification_or_alone(tmp_path: Path) -> None:
    spec = WeightSpec.parse(
        "axes   h1: 4 hidden   x: 3 input   y: 2 output\na.weight   h1 x\na.bias     h1\nb.weight   y h1"
    )
    told = imported("state_dicts", tmp_path / "told", ImportOptions(spec=spec))
    assert told.spec == spec and told.forward.factory == UNKNOWN
    alone = imported("state_dicts", tmp_path / "alone")
    assert not alone.spec.hidden_axes and "read from tensors alone" in str(alone.spec)
    assert np.array_equal(alone.hashes, told.hashes)


def test_diverged_networks_are_kept_and_flagged(tmp_path: Path) -> None:
    source = foreign_zoos.state_dicts(tmp_path / "source")
    state = torch.load(source / "net3.pt", weights_only=True)
    state["a.bias"][1] = float("nan")
    torch.save(state, source / "net3.pt")
    zoo = import_zoo(FORMATS["state_dicts"], source, tmp_path / "zoo.h5").zoo
    assert zoo.metadata["diverged"].tolist() == [0, 0, 0, 1, 0]


def test_half_precision_is_widened_and_double_rounded_with_a_note(tmp_path: Path) -> None:
    source = foreign_zoos.safetensors(tmp_path / "half")
    zoo = import_zoo(FORMATS["safetensors"], source, tmp_path / "half.h5").zoo
    values = torch.from_numpy(np.random.default_rng(0).standard_normal(3)).double()
    assert json.loads(zoo.metadata["config"][0]) == {"model_type": "one"}
    (tmp_path / "double").mkdir()
    torch.save({"w": values, "h": values.to(torch.bfloat16), "n": torch.tensor(7)}, tmp_path / "double/a.pt")
    made = import_zoo(FORMATS["state_dicts"], tmp_path / "double", tmp_path / "double.h5")
    assert any("rounded" in note for note in made.notes)
    weights = made.zoo.weights()
    torch.testing.assert_close(weights["w"][0], values.float())
    assert torch.equal(weights["h"][0], values.to(torch.bfloat16).float()) and weights["n"].item() == 7


def test_options_without_meaning_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="cnnzoo has no use for w0"):
        imported("cnnzoo", tmp_path, ImportOptions(w0=3.0))
