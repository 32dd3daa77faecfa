"""Small classifiers that builders train: their symmetries are found whole, and each argument has its part."""

import pytest
import torch

import wsl
from wsl.models import MLP, SmallResNet, SmallViT

MODELS = {
    "mlp": lambda: MLP(2 * 8 * 8, (7, 6), 3, "tanh"),
    "batch": lambda: SmallResNet(2, 4, (1, 2), 3),
    "layer": lambda: SmallResNet(2, 4, (1, 1), 3, "gelu", "layer"),
    "vit": lambda: SmallViT(2, 8, 8, 4, 8, 2, 1, 6, 3),
}
HIDDEN = {
    "mlp": [7, 6],
    "batch": [4, 4, 8, 8, 8],
    "layer": [4, 4, 8, 8],
    "vit": [8, 2, 4, 4, 6],  # channels; heads, what queries and keys share, values; the inner layer
}


@pytest.mark.parametrize("name", list(MODELS))
def test_all_symmetries_are_found(name):
    module, x = MODELS[name]().eval(), torch.randn(3, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    assert module(x).shape == (3, 3)
    spec = wsl.trace(module, x)
    assert spec.notes == ()
    assert sorted(axis.size for axis in spec.hidden_axes) == sorted(HIDDEN[name])
    wsl.verify(module, spec, x)


@pytest.mark.parametrize("name", list(MODELS))
def test_dropout_has_a_part_in_training_only(name):
    torch.manual_seed(0)
    module, x = MODELS[name](), torch.randn(3, 2, 8, 8)
    for place in module.modules():
        if isinstance(place, torch.nn.Dropout):
            place.p = 0.5
    module.eval()
    assert torch.equal(module(x), module(x))
    for norm in module.modules():
        norm.training = isinstance(norm, torch.nn.Dropout)
    assert not torch.equal(module(x), module(x))


def test_layer_norm_sees_one_image_at_a_time():
    torch.manual_seed(0)
    x = torch.randn(4, 1, 8, 8)
    module = SmallResNet(norm="layer").train()
    torch.testing.assert_close(module(x)[:2], module(x[:2]))
    batch = SmallResNet(norm="batch").train()
    assert (batch(x)[:2] - batch(x[:2])).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SmallResNet(norm="none"), "no norm 'none'"),
        (lambda: SmallViT(patch=5), "patch 5"),
        (lambda: SmallViT(d_model=9), "2 heads"),
        (lambda: MLP(activation="step"), "'step'"),
    ],
)
def test_unusable_arguments_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
