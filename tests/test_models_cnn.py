"""The networks of public zoos: sizes, names and what they compute, each against a plain loop."""

import pytest
import torch
import torch.nn.functional as F

import wsl
from wsl.models import ACTIVATIONS, LowRankUpdates, ModelZooCNN, ParkCNN, ResNet18, SmallCNN


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_small_cnn_is_the_small_cnn_zoos():
    net = SmallCNN(activation="tanh").double()
    assert count(net) == 4970
    x = torch.randn(2, 1, 32, 32, dtype=torch.float64)
    h = x
    for conv in net.convs:
        h = torch.tanh(F.conv2d(h, conv.weight, conv.bias, stride=2))
    assert h.shape[2:] == (3, 3)
    torch.testing.assert_close(net(x), h.flatten(2).mean(2) @ net.dense.weight.T + net.dense.bias)


def test_park_cnn_adds_the_first_channels_of_its_source():
    net = ParkCNN([3, 8, 4, 16], [3, 5, 7], ["relu", "none", "sigmoid"], [1] * 3, [1, 2, 3], [-1, -1, 0])
    x = torch.randn(2, 3, 9, 9)
    first = F.relu(net.layers[0](x))
    h = net.layers[2](net.layers[1](first)).clone()
    h[:, :8] += first
    torch.testing.assert_close(net(x), net.fc(torch.sigmoid(h).mean((2, 3))))
    plain = ParkCNN([3, 8, 4, 16], [3, 5, 7], ["relu", "none", "sigmoid"], [1] * 3, [1, 2, 3], [-1] * 3)
    plain.load_state_dict(net.state_dict())
    assert not torch.allclose(net(x), plain(x))


@pytest.mark.parametrize("residual", [[0, -1, -1], [-1, 0, -1], [-1, -1, 1], [-1, -1, 2], [-2, -1, -1]])
def test_park_cnn_refuses_impossible_sources(residual):
    with pytest.raises(ValueError, match="skip connection"):
        ParkCNN([3, 8, 4, 16], [3] * 3, ["relu"] * 3, [1] * 3, [1] * 3, residual)


def test_park_cnn_refuses_lists_of_other_lengths():
    with pytest.raises(ValueError, match="lengths"):
        ParkCNN([3, 8], [3, 3], ["relu"], [1], [1], [-1])


@pytest.mark.parametrize(
    ("kind", "channels", "dropout", "numbers", "parameters"),
    [
        ("CNN", 1, 0.0, (0, 3, 6, 9, 11), 2464),
        ("CNN", 3, 0.1, (0, 4, 8, 11, 14), 2864),
        ("CNN2", 1, 0.0, (0, 3, 6, 9, 11), 3047),
        ("CNN3", 3, 0.0, (0, 4, 8, 13, 16), 10853),
    ],
)
def test_model_zoo_cnn_is_numbered_by_its_dropout(kind, channels, dropout, numbers, parameters):
    net = ModelZooCNN(kind, channels, dropout=dropout).eval()
    assert tuple(int(n.split(".")[1]) for n in net.state_dict() if n.endswith("weight")) == numbers
    assert count(net) == parameters
    side = 32 if kind == "CNN3" else 28
    assert net(torch.randn(2, channels, side, side)).shape == (2, 10)


def test_model_zoo_cnn_computes_its_layers():
    net = ModelZooCNN(activation="gelu", dropout=0.3).double().eval()
    w = {name: value.detach() for name, value in net.named_parameters()}
    x = torch.randn(2, 1, 28, 28, dtype=torch.float64)
    h = F.gelu(F.max_pool2d(F.conv2d(x, w["module_list.0.weight"], w["module_list.0.bias"]), 2))
    h = F.gelu(F.max_pool2d(F.conv2d(h, w["module_list.4.weight"], w["module_list.4.bias"]), 2))
    h = F.gelu(F.conv2d(h, w["module_list.8.weight"], w["module_list.8.bias"])).flatten(1)
    h = F.gelu(h @ w["module_list.11.weight"].T + w["module_list.11.bias"])
    torch.testing.assert_close(net(x), h @ w["module_list.14.weight"].T + w["module_list.14.bias"])


@pytest.mark.parametrize("make", [lambda: ModelZooCNN("MLP"), lambda: SmallCNN(activation="swish")])
def test_unknown_names_are_refused(make):
    with pytest.raises(ValueError, match="choose one of"):
        make()


def test_activations_have_the_constants_of_torch():
    x = torch.linspace(-2, 2, 9)
    torch.testing.assert_close(ACTIVATIONS["leaky_relu"]()(x), F.leaky_relu(x))
    torch.testing.assert_close(ACTIVATIONS["gelu"]()(x), F.gelu(x))
    assert torch.equal(ACTIVATIONS["none"]()(x), x)


def test_resnet18_has_the_usual_names_and_sizes():
    net = ResNet18()
    assert count(net) == 11_173_962
    names = set(net.state_dict())
    assert {"conv1.weight", "bn1.running_var", "layer2.0.downsample.1.bias", "layer4.1.conv2.weight"} <= names
    assert not any("downsample" in name for name in names if name.startswith(("layer1", "layer2.1")))
    assert ResNet18(width=4).eval()(torch.randn(2, 3, 8, 8)).shape == (2, 10)


def test_low_rank_updates_are_seen_through_their_product_alone():
    net = LowRankUpdates({"h.0.attn": (2, 5, 7), "h.0": (1, 3, 4)}, scale={"h.0.attn": 2.0, "h.0": 0.5})
    x, z = torch.randn(2, 5), torch.randn(2, 3)
    w = {name: value.detach() for name, value in net.named_parameters()}
    wide = w["base_model.model.h.0.attn.lora_B.weight"] @ w["base_model.model.h.0.attn.lora_A.weight"]
    narrow = w["base_model.model.h.0.lora_B.weight"] @ w["base_model.model.h.0.lora_A.weight"]
    torch.testing.assert_close(net(x, z), (2 * x @ wide.T, 0.5 * z @ narrow.T))
    spec = wsl.trace(net, (x, z))
    assert {(s.kind, spec.axes[s.axis].size) for s in spec.scalings} == {("linear", 2), ("linear", 1)}


@pytest.mark.parametrize(
    "net",
    [
        SmallCNN(in_channels=3),
        SmallCNN(channels=(4, 4, 4, 4, 4)),
        *(ModelZooCNN(kind, in_channels=2) for kind in ("CNN", "CNN2", "CNN3")),
        ResNet18(in_channels=1, width=2),
        ParkCNN([3, 4, 4], [7, 7], ["relu", "relu"], [4, 4], [0, 0], [-1, -1]),
        ParkCNN([1, 4, 4, 4], [7, 7, 7], ["relu"] * 3, [3, 3, 3], [0, 0, 0], [-1, -1, -1]),
    ],
    ids=["small", "deep", "CNN", "CNN2", "CNN3", "resnet", "park", "large kernels"],
)
def test_networks_run_on_their_example_inputs(net):
    images = net.example_inputs(5, torch.Generator().manual_seed(0))
    assert net.eval()(images).shape == (5, 10) and not torch.equal(images[0], images[1])
    assert torch.equal(images, net.example_inputs(5, torch.Generator().manual_seed(0)))
