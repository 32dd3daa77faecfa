"""What encoders must not see, the order of hidden neurons and the other networks, and what they must see."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from known_topologies import TOPOLOGIES
from small_networks import CNN, MLP, NETWORKS, SPECS, TRANSFORMER, largest_difference
from suite import Suite
from torch import Tensor

from wsl.encoders import Encoder, WeightFeatures
from wsl.graph import graph_layout
from wsl.nn import EquivariantHead, InvariantHead
from wsl.spec import WeightSpec
from wsl.testing import assert_equivariant, assert_invariant, random_specs, random_weights

EVERY_SPEC = pytest.mark.parametrize("spec", SPECS, ids=["mlp", "cnn", "transformer"])
# Hypothesis warns of methods that subclasses share; without a database of failures it does no harm.
SHARED = [HealthCheck.differing_executors]


def assert_moves_along(encoder: Encoder, *, scale: bool = False) -> None:
    """Features and what heads make of them are permuted with the weights, or do not change, to 1e-9."""
    spec, seen = encoder.spec, []

    def encode(weights: dict[str, Tensor]) -> WeightFeatures:
        seen.append(encoder(weights))
        return seen[-1]

    assert_equivariant(encode, spec, atol=1e-9, trials=1, scale=scale)
    heads = EquivariantHead(spec, encoder.channels, scale=1.0), InvariantHead(spec, encoder.channels, 3)
    for head, check in zip(heads, (assert_equivariant, assert_invariant), strict=True):
        again = iter(seen)  # the weights and the action are drawn from the same seed
        check(lambda _, head=head, again=again: head.double()(next(again)), spec, atol=1e-9, trials=1)


class SymmetrySuite(Suite):
    """Equivariance and its opposite.

    Flags: ``equivariant`` (else a test of its own must show that it is not), and ``sees_order``: whether the
    order of inputs, outputs and kernel positions is seen.
    """

    equivariant = True
    sees_order = True

    def _moves_along(self, encoder: Encoder) -> None:
        if self.equivariant:
            assert_moves_along(encoder.double())

    @settings(max_examples=10, suppress_health_check=SHARED)
    @given(data=st.data())
    def test_moves_along_with_the_weights(self, data: st.DataObject) -> None:
        self._moves_along(self.seeded(data.draw(random_specs(self.kinds, max_size=4))))

    @pytest.mark.parametrize("name", TOPOLOGIES)
    def test_moves_along_on_every_topology(self, name: str) -> None:
        self._moves_along(self.seeded(TOPOLOGIES[name]))

    @pytest.mark.parametrize("name", NETWORKS)
    def test_moves_along_with_traced_networks(self, name: str) -> None:
        self._moves_along(self.seeded_traced(name))

    @settings(max_examples=10, suppress_health_check=SHARED)
    @given(data=st.data())
    def test_shapes(self, data: st.DataObject) -> None:
        spec = data.draw(random_specs(self.kinds, max_size=4))
        encoder = self.seeded(spec).double()
        features = encoder(random_weights(spec, 2))
        assert {k: tuple(v.shape) for k, v in features.nodes.items()} == {
            name: (2, size, encoder.channels) for name, size in graph_layout(spec).sizes.items()
        }
        assert {k: tuple(v.shape) for k, v in features.tensors.items()} == {
            ref.key: (2, *ref.block.view, encoder.channels) for ref in spec.blocks
        }
        update = EquivariantHead(spec, encoder.channels).double()(features)
        assert spec.check_weights(update) == 2

    @EVERY_SPEC
    def test_alone_as_in_a_batch(self, spec: WeightSpec) -> None:
        encoder, weights = self.seeded(spec).double(), random_weights(spec, 4)
        pool = InvariantHead(spec, encoder.channels, 3).double()
        for training in (True, False):
            encoder.train(training)
            together = encoder(weights)
            for b in (0, 3):
                alone = encoder({name: tensor[b : b + 1] for name, tensor in weights.items()})
                row = WeightFeatures(
                    {key: together.tensors[key][b : b + 1] for key in together.tensors},
                    {key: together.nodes[key][b : b + 1] for key in together.nodes},
                )
                assert largest_difference(alone, row) < 1e-12
                assert (pool(alone) - pool(together)[b]).abs().max() < 1e-12

    @EVERY_SPEC
    def test_every_weight_is_read(self, spec: WeightSpec) -> None:
        """By features, and by what a classifier makes of them."""
        encoder, weights = self.seeded(spec).double(), random_weights(spec, 1)
        pool = InvariantHead(spec, encoder.channels, 3).double()
        before = encoder(weights)
        for name in weights:
            changed = {**weights, name: weights[name].clone()}
            changed[name].view(-1)[-1] += 0.1
            after = encoder(changed)
            assert largest_difference(after, before) > 1e-6, name
            assert (pool(after) - pool(before)).abs().max() > 1e-7, name

    @pytest.mark.parametrize(
        ("spec", "name", "dim"),
        [
            (MLP, "fc1.weight", 2),
            (MLP, "fc3.weight", 1),
            (MLP, "fc3.bias", 1),
            (TRANSFORMER, "embed.weight", 2),
            (CNN, "conv2.weight", 3),
            (CNN, "conv2.weight", 4),
        ],
        ids=["inputs", "outputs", "bias", "embedding", "rows of kernels", "columns of kernels"],
    )
    def test_what_is_not_exchangeable(self, spec: WeightSpec, name: str, dim: int) -> None:
        """Inputs, outputs and kernel positions have an order, which a classifier sees."""
        encoder, weights = self.seeded(spec).double(), random_weights(spec, 1)
        pool = InvariantHead(spec, encoder.channels, 3, ordered=0).double()
        flipped = {**weights, name: weights[name].flip(dim)}
        difference = (pool(encoder(weights)) - pool(encoder(flipped))).abs().max()
        assert difference > 1e-6 if self.sees_order else difference < 1e-12
