"""Tiny zoos in the exact layouts of public archives, with random numbers; written without our own writers."""

import csv
import gzip
import json
import struct
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from foreign_pickles import omegaconf_stand_in


def _save(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path)


def _state(generator: torch.Generator, **shapes: tuple[int, ...]) -> "OrderedDict[str, torch.Tensor]":
    return OrderedDict(
        (name.replace("__", "."), 0.3 * torch.randn(shape, generator=generator))
        for name, shape in shapes.items()
    )


def _siren(generator: torch.Generator, hidden: str, last: str, outputs: int) -> Any:
    shapes = {}
    for i, (name, pair) in enumerate(
        zip((hidden, hidden, last), ((5, 2), (4, 5), (outputs, 4)), strict=True)
    ):
        stem = name.format(i).replace(".", "__")
        shapes |= {f"{stem}__weight": pair, f"{stem}__bias": pair[:1]}
    return _state(generator, **shapes)


def dws_mnist(root: Path) -> Path:
    g = torch.Generator().manual_seed(1)
    splits: dict[str, Any] = {name: {"path": [], "label": []} for name in ("train", "val", "test")}
    for i in range(6):
        part, split = ("testing", "test") if i > 3 else ("training", "train" if i < 3 else "val")
        path = f"mnist-inrs/mnist_png_{part}_{i % 4}_{i + 9}/checkpoints/model_final.pth"
        _save(root / path, _siren(g, "seq.{}", "seq.{}", 1))
        splits[split]["path"].append(path)
        splits[split]["label"].append(str(i % 4))
    (root / "mnist_splits.json").write_text(json.dumps(splits))
    return root / "mnist-inrs"


def dws_fashion(root: Path) -> Path:
    g = torch.Generator().manual_seed(2)
    folder = root / "fmnist_inrs"
    splits: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for i in range(5):
        part, split = ("test", "test") if i > 3 else ("train", "train" if i < 3 else "val")
        state = _siren(g, "seq.{}", "seq.{}", 1)
        state["label"] = 7 - i
        _save(folder / part / f"model_{i}.pth", state)
        splits[split].append(f"/authors/machine/fmnist_inrs/{part}/model_{i}.pth")
    (folder / "splits.json").write_text(json.dumps(splits))
    return folder


def nfn(root: Path) -> Path:
    g = torch.Generator().manual_seed(3)
    for fit in ("", "_aug0", "_aug1"):
        for image, label in ((0, 5), (44_999, 1), (45_000, 1), (50_000, 5)):
            path = root / "siren_cifar_wts" / f"randinit_smaller{fit}_{label}s" / f"net{image}.pth"
            _save(path, _siren(g, "net.{}.linear", "net.{}", 3))
    return root / "siren_cifar_wts"


def implicit_zoo(root: Path) -> Path:
    g = torch.Generator().manual_seed(4)
    for image, seed, label in ((0, 42, 3), (1, 42, 9), (1, 43, 9)):
        state = _siren(g, "seq.{}", "seq.{}", 3)
        _save(
            root / "ckpts" / f"{label:02d}" / f"{image:06d}_{seed:07d}.ckpt",
            {"image_idx": image, "params": state},
        )
    (root / "0_2.json").write_text(json.dumps({"0": 31.2}))
    return root


CNN_LAYOUT = [
    ("sequential/conv2d/bias:0", (16,)), ("sequential/conv2d/kernel:0", (3, 3, 1, 16)),
    ("sequential/conv2d_1/bias:0", (16,)), ("sequential/conv2d_1/kernel:0", (3, 3, 16, 16)),
    ("sequential/conv2d_2/bias:0", (16,)), ("sequential/conv2d_2/kernel:0", (3, 3, 16, 16)),
    ("sequential/dense/bias:0", (10,)), ("sequential/dense/kernel:0", (16, 10)),
]  # fmt: skip
CNN_METRICS = [
    "config.activation",
    "config.b_init",
    "config.dataset",
    "config.dnn_architecture",
    "config.dropout",
    "config.epochs",
    "config.epochs_between_checkpoints",
    "config.init_std",
    "config.l2reg",
    "config.learning_rate",
    "config.num_layers",
    "config.num_units",
    "config.optimizer",
    "config.random_seed",
    "config.train_fraction",
    "config.w_init",
    "modeldir",
    "step",
    "test_accuracy",
    "test_loss",
    "train_accuracy",
    "train_loss",
]


def cnnzoo(root: Path, models: int = 10, steps: tuple[int, ...] = (0, 40, 86)) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    rows = models * len(steps)
    rng = np.random.default_rng(5)
    np.save(root / "weights.npy", rng.standard_normal((rows, 4970)).astype(np.float32))
    with open(root / "layout.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["varname", "start_idx", "end_idx", "size", "shape"])
        start = 0
        for name, shape in CNN_LAYOUT:
            size = int(np.prod(shape))
            writer.writerow([name, start, start + size, size, str(shape)])
            start += size
    with gzip.open(root / "metrics.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(CNN_METRICS)
        for row in range(rows):
            model, step = row // len(steps), steps[row % len(steps)]
            writer.writerow(
                [
                    "relu" if model % 3 else "tanh",
                    "zeros",
                    "cifar10",
                    "cnn",
                    0.1,
                    86,
                    20,
                    0.01,
                    1e-06,
                    0.001 * model,
                    3,
                    16,
                    "adam",
                    42,
                    1.0,
                    "he_normal",
                    f"/x/{model}/permanent_ckpt-{step}",
                    step,
                    0.1 + step / 200,
                    2.0,
                    0.1 + step / 180,
                    2.0,
                ]
            )
    order = np.random.default_rng(6).permutation(rows)
    (root / "cifar10_split.csv").write_text("\n".join(map(str, [0, *order])) + "\n")
    return root


def wildpark(root: Path) -> Path:
    g = torch.Generator().manual_seed(7)
    configs = [
        ([3, 8, 4, 16], [3, 5, 7], ["relu", "tanh", "gelu"], [-1, -1, 0]),
        ([3, 4, 32], [7, 3], ["leaky_relu", "sigmoid"], [-1, -1]),
        ([3, 8, 4, 16], [3, 5, 7], ["relu", "tanh", "gelu"], [-1, -1, -1]),
    ]
    splits: dict[str, Any] = {
        name: {"path": [], "score": [], "step": []} for name in ("train", "val", "test")
    }
    with omegaconf_stand_in() as wrap:
        for i, ((channels, kernels, activations, residual), split) in enumerate(
            zip(configs, splits, strict=True)
        ):
            config = {
                "n_layers": len(kernels), "n_classes": 10, "channels": channels, "kernel_size": kernels,
                "stride": [1] * len(kernels), "padding": [k // 2 for k in kernels], "residual": residual,
                "activation": activations,
            }  # fmt: skip
            for step in (10, 20):
                state = OrderedDict()
                for layer, kernel in enumerate(kernels):
                    shape = (channels[layer + 1], channels[layer], kernel, kernel)
                    state[f"layers.{layer}.weight"] = torch.randn(shape, generator=g)
                    state[f"layers.{layer}.bias"] = torch.randn(shape[0], generator=g)
                state |= _state(g, fc__weight=(10, channels[-1]), fc__bias=(10,))
                path = f"cifar10_zooV2/NN_tune_trainable_ab_{i:05d}/checkpoint_{step:06d}/checkpoint.pt"
                content = {
                    "model": state, "optimizer": {"state": {}, "param_groups": []}, "config": wrap(config),
                    "iteration": step, "timesteps_total": None, "time_total": 1.0,
                    "last_result": {"test/acc": step / 50, "test/loss": 1.5}, "ray_version": "2.5.0",
                }  # fmt: skip
                _save(root / path, content)
                for key, value in (("path", path), ("score", step / 50), ("step", step)):
                    splits[split][key].append(value)
    (root / "cnn_park_splits.json").write_text(json.dumps(splits))
    return root / "cifar10_zooV2"


def modelzoo_dataset(root: Path) -> Path:
    g = torch.Generator().manual_seed(8)
    folder = root / "tune_zoo_mnist_uniform"
    for trial, (dropout, numbers, prefix) in enumerate(
        ((0.0, (0, 3, 6, 9, 11), ""), (0.2, (0, 4, 8, 11, 14), "module."))
    ):
        place = folder / f"NN_tune_trainable_1a2b3_{trial:05d}_{trial}_seed={trial}"
        place.mkdir(parents=True)
        params = {
            "model::type": "CNN", "model::channels_in": 1, "model::o_dim": 4, "model::nlin": "leakyrelu",
            "model::dropout": dropout, "model::use_bias": False, "optim::lr": 0.0003, "seed": trial,
            "optim::momentum": None, "dataset::dump": "/abs/dataset.pt",
        }  # fmt: skip
        (place / "params.json").write_text(json.dumps(params))
        shapes = ((8, 1, 5, 5), (6, 8, 5, 5), (4, 6, 2, 2), (20, 36), (10, 20))
        lines = []
        for step in (0, 1, 2):
            state = OrderedDict()
            for number, shape in zip(numbers, shapes, strict=True):
                state[f"{prefix}module_list.{number}.weight"] = torch.randn(shape, generator=g)
                state[f"{prefix}module_list.{number}.bias"] = torch.randn(shape[0], generator=g)
            _save(place / f"checkpoint_{step:06d}" / "checkpoints", state)
            _save(place / f"checkpoint_{step:06d}" / "optimizer", {"state": {}, "param_groups": []})
            (place / f"checkpoint_{step:06d}" / ".is_checkpoint").touch()
            result = {
                "train_loss": 2.0 - step / 3, "test_acc": 0.1 + step / 5, "done": step == 2, "trial_id": "1a",
                "training_iteration": step, "time_this_iter_s": 1.0, "date": "today", "config": params,
            }  # fmt: skip
            if step == 2:
                result |= {"log_hessian_trace": 1.25, "curve_mc/test_error": 0.5}
            lines.append(json.dumps(result))
        lines = [lines[1], lines[0], lines[2]]  # results need not come in order
        (place / "result.json").write_text("\n".join(lines) + "\n")
    (folder / "config.json").write_text('{"seed": "<grid>"}')
    return folder


NEF_CONFIG = [
    ["kernel_net_0.linear.bias", [6]], ["kernel_net_0.linear.kernel", [2, 6]],
    ["kernel_net_1.linear.bias", [5]], ["kernel_net_1.linear.kernel", [6, 5]],
    ["output_linear.bias", [1]], ["output_linear.kernel", [5, 1]],
]  # fmt: skip


def nef(root: Path, w0: float | None = 8.0) -> Path:
    folder = root / "MNIST" / "SIREN"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(9)
    width = sum(int(np.prod(shape)) for _, shape in NEF_CONFIG)
    for start, stop in ((0, 7), (7, 12)):
        with h5py.File(folder / f"nefs_{start}-{stop}.hdf5", "w") as file:
            file["params"] = rng.standard_normal((stop - start, width)).astype(np.float32)
            file["labels"] = rng.integers(0, 10, stop - start).astype(np.int32)
            text = file.create_dataset("param_config", (1,), h5py.special_dtype(vlen=str))
            text[0] = json.dumps(NEF_CONFIG)
    config = {"nef_type": "SIREN", "num_layers": 3, "hidden_dim": 6} | ({} if w0 is None else {"omega_0": w0})
    (folder / "nef_cfg.json").write_text(json.dumps(config))
    (folder / "metadata.json").write_text(json.dumps({"0_12": {"mean": [0.0] * width, "std": [1.0] * width}}))
    return folder


def sane(root: Path) -> Path:
    g = torch.Generator().manual_seed(10)
    for split, samples in (("train", (0, 1)), ("test", (0,))):
        for sample in samples:
            mask = torch.rand(8, 6, generator=g) > 0.3
            tokens = (torch.randn(3, 8, 6, generator=g) * mask).half()
            position = torch.stack([torch.arange(8), torch.arange(8) // 4, torch.arange(8) % 4], 1).short()
            content = {"w": tokens, "m": mask, "p": position, "props": torch.tensor([0.5, 25.0, 0.1])}
            _save(root / f"dataset_torch.{split}" / f"sample_{sample}.pt", content)
        info = {"num_samples": 2, "properties": ["test_acc", "training_iteration", "ggap"], "split": split}
        (root / f"dataset_info_{split}.json").write_text(json.dumps(info))
        norm = {"module_list.0.weight": {"mean": 0.0, "std": 1.0}, "mode": "standardize"}
        (root / f"dataset_normalization_{split}.json").write_text(json.dumps(norm))
    return root


def nws(root: Path) -> Path:
    rng = np.random.default_rng(11)
    header = (
        "dataset,lrate,batch_size,batch_norm,augmentation,optimizer,activation,initialization,filter_size,"
        "depth_conv,depth_fc,width_conv,width_fc,path,weightn_conv,weightn_fc"
    )
    for split, model, conv, fc in (("train", "0001", 6, 4), ("test", "0002", 5, 7)):
        folder = root / model
        (folder / "weights").mkdir(parents=True)
        for snapshot in range(1, 21):
            values = rng.standard_normal(conv + fc).astype(np.float32).astype(np.float64)
            (folder / "weights" / f"{snapshot:03d}.bin").write_bytes(values.tobytes())
        errors = np.column_stack([np.arange(25.0) * 100, *rng.uniform(0, 90, (4, 25))])
        (folder / "error.bin").write_bytes(errors.tobytes())
        (folder / "stat.bin").write_bytes(np.array([25.0, 2400.0, 24.5, 60.25]).tobytes())
        line = f"mnist,0.001,64,True,False,0,{len(split)},3,5,3,2,8,128,nws/{model},{conv},{fc}"
        (root / f"nws_main_{split}.csv").write_text(f"{header}\n{line}\n")
    return root


def write_safetensors(
    path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str] | None = None
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = {"float32": "F32", "float16": "F16", "uint16": "BF16"}
    header: dict[str, Any] = {"__metadata__": metadata or {"format": "pt"}}
    body = b""
    for name, array in tensors.items():
        stop = len(body) + array.nbytes
        header[name] = {
            "dtype": names[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(body), stop],
        }
        body += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def safetensors(root: Path) -> Path:
    rng = np.random.default_rng(12)
    for model in ("one", "two"):
        tensors = {
            "embed.weight": rng.standard_normal((6, 4)).astype(np.float32),
            "head.bias": rng.standard_normal(6).astype(np.float16),
        }
        write_safetensors(root / model / "model.safetensors", tensors)
        (root / model / "config.json").write_text(json.dumps({"model_type": model}))
    return root


def lora(root: Path) -> Path:
    rng = np.random.default_rng(13)
    for number, rank in enumerate((4, 4, 2)):
        folder = root / f"adapter{number}"
        stem = "base_model.model.transformer.h.0.attn.c_attn"
        tensors = {
            f"{stem}.lora_A.weight": rng.standard_normal((rank, 8)).astype(np.float32),
            f"{stem}.lora_B.weight": rng.standard_normal((24, rank)).astype(np.float32),
        }
        write_safetensors(folder / "adapter_model.safetensors", tensors)
        config = {
            "peft_type": "LORA", "base_model_name_or_path": "gpt2", "r": rank, "lora_alpha": 8,
            "target_modules": ["c_attn"], "bias": "none",
        }  # fmt: skip
        (folder / "adapter_config.json").write_text(json.dumps(config))
    rows = "".join(f"adapter{i}/adapter_model.safetensors,{i % 2},{0.5 + i / 8}\n" for i in range(3))
    (root / "labels.csv").write_text("file,label,score\n" + rows)
    return root


def state_dicts(root: Path) -> Path:
    g = torch.Generator().manual_seed(14)
    lines = ["file,label,name,score,split"]
    for i in range(5):
        _save(root / f"net{i}.pt", _state(g, a__weight=(4, 3), a__bias=(4,), b__weight=(2, 4)))
        lines.append(f"net{i}.pt,{i},name {i},{'' if i == 2 else i / 4},{'train' if i < 3 else 'test'}")
    (root / "labels.csv").write_text("\n".join(lines) + "\n")
    return root


ZOOS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "state_dicts": ("state_dicts", state_dicts),
    "safetensors": ("safetensors", safetensors),
    "dws_mnist": ("dws", dws_mnist),
    "dws_fashion": ("dws", dws_fashion),
    "nfn": ("nfn", nfn),
    "cnnzoo": ("cnnzoo", cnnzoo),
    "wildpark": ("wildpark", wildpark),
    "modelzoo_dataset": ("modelzoo_dataset", modelzoo_dataset),
    "nef": ("nef", nef),
    "sane": ("sane", sane),
    "implicit_zoo": ("implicit_zoo", implicit_zoo),
    "nws": ("nws", nws),
    "lora": ("lora", lora),
}
