"""The transformer on tokens: the battery of all encoders but equivariance, and where every weight lies."""

import pytest
import torch
from encoder_suite import EncoderSuite
from hypothesis import given, settings
from random_topologies import random_topologies
from small_networks import CNN, MLP, TRANSFORMER, largest_difference

from wsl.encoders import Transformer
from wsl.graph import graph_layout
from wsl.nn import block_slots, token_table
from wsl.spec import WeightSpec
from wsl.testing import assert_equivariant, random_specs, random_weights


class TestTransformer(EncoderSuite):
    equivariant = False

    def make(self, spec: WeightSpec) -> Transformer:
        return Transformer(spec, channels=6, layers=2, heads=2, token_size=4, frequencies=3)

    def test_is_not_equivariant(self) -> None:
        with pytest.raises(AssertionError):
            assert_equivariant(self.seeded(MLP).double(), MLP)


def test_tokens_are_rows_of_layers() -> None:
    table = token_table(MLP, 4)
    assert table.entries.tolist() == [
        [0, 1, 6, 23],  # fc1.weight (3, 2) with fc1.bias, one row each; 23 is no weight
        [2, 3, 7, 23],
        [4, 5, 8, 23],
        [9, 10, 11, 15],  # fc2.weight (2, 3) with fc2.bias
        [12, 13, 14, 16],
        [17, 18, 21, 23],  # fc3.weight (2, 2) with fc3.bias
        [19, 20, 22, 23],
    ]
    assert table.positions.tolist() == [
        [0, 0, 0], [1, 0, 1], [2, 0, 2], [3, 1, 0], [4, 1, 1], [5, 2, 0], [6, 2, 1]
    ]  # fmt: skip


def test_long_rows_are_cut() -> None:
    table = token_table(MLP, 2)
    assert table.entries[:4].tolist() == [[0, 1], [6, 23], [2, 3], [7, 23]]
    assert table.positions[:4].tolist() == [[0, 0, 0], [1, 0, 1], [2, 0, 2], [3, 0, 3]]
    assert token_table(MLP, 1000).entries.shape == (7, 1000)


@settings(max_examples=20)
@given(spec=random_specs(max_size=4))
def test_every_weight_has_its_slot(spec: WeightSpec) -> None:
    table, layout = token_table(spec, 3), graph_layout(spec)
    flat = torch.arange(spec.parameter_count)
    assert torch.equal(table.entries.flatten()[table.slots], flat)
    numbers, start = {}, 0
    for name, tensor in spec.tensors.items():
        count = torch.Size(tensor.shape).numel()
        numbers[name] = flat[start : start + count].reshape(1, *tensor.shape)
        start += count
    blocks = spec.split(numbers)
    expected = torch.cat([block.to_graph(blocks[block.key]).flatten() for block in layout.blocks])
    assert torch.equal(table.entries.flatten()[block_slots(layout, table)], expected)


@settings(max_examples=20)
@given(spec=random_topologies())
def test_any_topology(spec: WeightSpec) -> None:
    encoder = Transformer(spec, channels=4, layers=1, heads=1, token_size=3, frequencies=1).double()
    features = encoder(random_weights(spec, 2))
    assert all(part.isfinite().all() for part in (*features.nodes.values(), *features.tensors.values()))


def test_without_layers_features_are_local() -> None:
    """A weight is seen by those of its token, and by the neurons at their ends; with a layer by all."""
    weights = random_weights(MLP, 1)
    changed = {**weights, "fc2.weight": weights["fc2.weight"].clone()}
    changed["fc2.weight"][0, 1, 0] += 0.1
    torch.manual_seed(0)
    local = Transformer(MLP, channels=6, layers=0, heads=2, token_size=4, frequencies=3).double()
    before, after = local(weights), local(changed)
    moved = (before.tensors["fc2.weight"] - after.tensors["fc2.weight"]).abs().amax(-1) > 1e-9
    assert moved[0].tolist() == [[False] * 3, [True] * 3]
    moved = {name: (before.nodes[name] - after.nodes[name]).abs().amax(-1) > 1e-9 for name in before.nodes}
    assert moved["h2"].tolist() == [[False, True]] and not moved["h1"].any() and not moved["y"].any()
    encoder = _seeded(MLP)
    assert (encoder(weights).nodes["x"] - encoder(changed).nodes["x"]).abs().max() > 1e-9


def test_equal_weights_of_one_token_differ_by_their_place() -> None:
    weights = {name: torch.ones(1, *tensor.shape).double() for name, tensor in MLP.tensors.items()}
    row = _seeded(MLP)(weights).tensors["fc2.weight"][0, 0]
    assert (row[0] - row[1]).abs().max() > 1e-3 and (row[1] - row[2]).abs().max() > 1e-3


def test_padding_is_no_weight_of_zero() -> None:
    """One network with a zero weight where the other has none."""
    texts = [f"axes h: {n} hidden  x: 2 input\nfc.weight x h" for n in (3, 2)]
    with_zero, without = map(WeightSpec.parse, texts)
    torch.manual_seed(0)
    encoder = Transformer(without, channels=6, layers=1, heads=2, token_size=4, frequencies=3).double()
    weights = random_weights(without, 1)
    longer = {"fc.weight": torch.cat([weights["fc.weight"], torch.zeros(1, 2, 1).double()], dim=2)}
    other = encoder.for_spec(with_zero)(longer)
    assert (encoder(weights).nodes["x"] - other.nodes["x"]).abs().max() > 1e-6
    assert (encoder(weights).tensors["fc.weight"] - other.tensors["fc.weight"][:, :, :2]).abs().max() > 1e-6


@pytest.mark.parametrize("spec", [CNN, TRANSFORMER], ids=["cnn", "transformer"])
def test_reads_other_architectures_with_the_same_parameters(spec: WeightSpec) -> None:
    encoder, fresh = _seeded(MLP), _seeded(spec)
    other = encoder.for_spec(spec)
    fresh.load_state_dict({**encoder.state_dict(), "mean": fresh.mean, "std": fresh.std})
    weights = random_weights(spec, 2)
    assert largest_difference(other(weights), fresh(weights)) == 0
    assert encoder(random_weights(MLP, 1)).nodes["h1"].shape == (1, 3, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": -1}, "layers=-1"),
        ({"heads": 4}, "channels=6, heads=4"),
        ({"token_size": 0}, "token_size=0"),
    ],
)
def test_bad_arguments(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Transformer(MLP, **{"channels": 6, "heads": 2, **arguments})


def _seeded(spec: WeightSpec) -> Transformer:
    torch.manual_seed(0)
    return Transformer(spec, channels=6, layers=2, heads=2, token_size=4, frequencies=3).double()
