"""MixUp, of networks as they are, permuted or aligned, with their labels."""

import pytest
import tiny_zoo
import torch

from wsl import symmetry
from wsl.align import similarity
from wsl.augment import AlignedMixUp, AugmentError, MixUp, Networks, PermutedMixUp, augment
from wsl.models import Siren

KINDS = [MixUp, PermutedMixUp, AlignedMixUp]


def networks(count):
    generator = torch.Generator().manual_seed(0)
    drawn = [Siren(2, (6, 5), 1, generator=generator).double().state_dict() for _ in range(count)]
    return {name: torch.stack([network[name] for network in drawn]) for name in drawn[0]}


def mix(augmentation, weights, labels, classes=None, seed=1):
    given = Networks(tiny_zoo.SPEC, weights, labels, classes)
    return augment(given, [augmentation], generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_mixed_as_the_weights_are(kind):
    """The bias of the output moves under no symmetry: it tells the partner and the share."""
    count = 7
    weights = networks(count)
    weights["layers.2.bias"] = 10.0 ** torch.arange(count, dtype=torch.float64).unsqueeze(1)
    mixed = mix(kind(), weights, torch.arange(count), classes=count)
    assert mixed.labels.shape == (count, count) and mixed.labels.dtype == torch.get_default_dtype()
    torch.testing.assert_close(mixed.labels.sum(1), torch.ones(count))
    expected = mixed.labels.double() @ weights["layers.2.bias"]
    torch.testing.assert_close(mixed.weights["layers.2.bias"], expected, rtol=1e-5, atol=0)
    partners = mixed.labels - torch.diag(mixed.labels.diagonal())
    assert ((partners > 0).sum(1) == 1).all() and ((partners > 0).sum(0) == 1).all(), "each one once"
    assert len(torch.unique(mixed.labels.diagonal())) == count, "a share for each network"


def test_numbers_are_mixed_too_and_may_be_missing():
    weights = networks(4)
    labels = torch.tensor([1.0, 10.0, 100.0, 1000.0], dtype=torch.float64)
    weights["layers.2.bias"] = labels.unsqueeze(1)
    mixed = mix(MixUp(), weights, labels)
    torch.testing.assert_close(mixed.labels, mixed.weights["layers.2.bias"].squeeze(1))
    assert mix(MixUp(), weights, None).labels is None


def test_plain_mixup_is_a_line_between_two_networks():
    weights = networks(5)
    mixed = mix(MixUp(), weights, torch.arange(5), classes=5)
    for name, tensor in weights.items():
        expected = (mixed.labels.double() @ tensor.flatten(1)).view(tensor.shape)
        torch.testing.assert_close(mixed.weights[name], expected, rtol=1e-5, atol=1e-6)


def test_alignment_undoes_what_permutations_did():
    """Copies of one network in other orders: aligned, what lies between them is that network."""
    one = {name: tensor[:1].expand(6, *tensor.shape[1:]) for name, tensor in networks(1).items()}
    action = symmetry.sample(tiny_zoo.SPEC, 6, scale=True, generator=torch.Generator().manual_seed(0))
    moved = symmetry.apply(tiny_zoo.SPEC, action, one)
    kept = [mix(kind(), moved, None).weights for kind in KINDS]
    for name in one:
        torch.testing.assert_close(kept[2][name], moved[name])
    for other in kept[:2]:
        alike, most = (similarity(tiny_zoo.SPEC, moved, w).mean() for w in (other, moved))
        assert alike < 0.8 * most


def test_permuted_partners_are_drawn_anew():
    one = {name: tensor[:1].expand(6, *tensor.shape[1:]) for name, tensor in networks(1).items()}
    plain, permuted = (mix(kind(), one, None).weights["layers.1.weight"] for kind in KINDS[:2])
    torch.testing.assert_close(plain, one["layers.1.weight"])
    assert len(torch.unique(permuted.flatten(1), dim=0)) == 6


def test_shares_follow_their_distribution():
    weights = {name: torch.zeros(4000, *t.shape[1:]) for name, t in networks(1).items()}
    labels = torch.zeros(4000)
    for alpha, variance in ((1.0, 1 / 12), (0.2, 1 / (4 * 1.4))):
        weights["layers.2.bias"] = torch.arange(4000.0).unsqueeze(1)
        shares = MixUp(alpha)._shares(4000, torch.Generator().manual_seed(0))
        assert shares.mean().item() == pytest.approx(0.5, abs=0.02)
        assert shares.var().item() == pytest.approx(variance, abs=0.01)
    assert mix(MixUp(0.2), weights, labels).labels.shape == (4000,)
    tiny = MixUp(1e-4)._shares(4000, torch.Generator().manual_seed(0))
    assert tiny.isfinite().all() and ((tiny < 1e-6) | (tiny > 1 - 1e-6)).double().mean() > 0.99
    assert tiny.mean().item() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("kind", KINDS)
def test_one_network_is_left_as_it_is(kind):
    weights = networks(1)
    mixed = mix(kind(), weights, torch.tensor([2]), classes=3)
    assert all(torch.equal(mixed.weights[name], weights[name]) for name in weights)
    assert mixed.labels.tolist() == [[0, 0, 1]]


def test_what_cannot_be_mixed_is_refused():
    with pytest.raises(AugmentError, match="how many classes"):
        mix(MixUp(), networks(2), torch.tensor([0, 1]))
    with pytest.raises(AugmentError, match="PermutedMixUp: alpha is 0"):
        PermutedMixUp(0)
