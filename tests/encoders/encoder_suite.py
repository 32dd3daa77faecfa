"""The tests that every encoder must pass: a subclass names the encoder, and gets the whole battery."""

import copy
import pickle
from collections.abc import Collection, Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from known_topologies import TOPOLOGIES
from torch import Tensor, nn

from wsl.encoders import Encoder, WeightFeatures
from wsl.graph import graph_layout
from wsl.nn import EquivariantHead, InvariantHead
from wsl.spec import SpecError, WeightSpec
from wsl.testing import assert_equivariant, assert_invariant, random_specs, random_weights

MLP = WeightSpec.parse(
    """
    axes   h1: 3 hidden relu   h2: 2 hidden relu   x: 2 input   y: 2 output
    fc1.weight   h1 x
    fc1.bias     h1
    fc2.weight   h2 h1
    fc2.bias     h2
    fc3.weight   y h2
    fc3.bias     y
    """
)
CNN = WeightSpec.parse(
    """
    axes   c1: 3 hidden relu   c2: 2 hidden   x: 1 input   y: 2 output
    conv1.weight        c1 x _ _   _=3x3
    conv1.bias          c1
    bn.weight           c1
    bn.bias             c1
    bn.running_mean     c1
    bn.running_var      c1
    conv2.weight        c2 c1 _ _   _=2x3
    conv2.bias          c2
    fc.weight           y (c2 4)
    scales              _   _=2
    """
)
TRANSFORMER = WeightSpec.parse(
    """
    axes   c: 3 hidden   h: 2 hidden   d: 2 hidden   k: 3 hidden gelu   x: 2 input
    embed.weight   c x
    norm.weight    c
    norm.bias      c
    qkv.weight     (h d[h] + h d[h] + h d[h]) c
    qkv.bias       (h d[h] + h d[h] + h d[h])
    out.weight     c (h d[h])
    out.bias       c
    fc.weight      k c _   _=2
    fc.scale       k _   _=2
    back.weight    c k
    temperature    _   _=2
    nodes  x: x   c: c layer_norm   q: (h d)   k: (h d)   p: h softmax   v: (h d)   o: (h d)   c.2: c
    nodes  k.2: k gelu   c.3: c   y: x
    edge:  x c embed.weight
    edge:  - c norm.weight
    edge:  - c norm.bias
    edge:  c q qkv.weight[0]
    edge:  c k qkv.weight[1]
    edge:  c v qkv.weight[2]
    edge:  - q qkv.bias[0]
    edge:  - k qkv.bias[1]
    edge:  - v qkv.bias[2]
    edge:  q p
    edge:  k p
    edge:  p o
    edge:  v o
    edge:  o c.2 out.weight
    edge:  - c.2 out.bias
    edge:  c c.2
    edge:  - c.2 norm.weight
    edge:  c.2 k.2 fc.weight
    edge:  - k.2 fc.scale
    edge:  k.2 c.3 back.weight
    edge:  c.2 c.3
    edge:  c.3 y embed.weight ends=st
    """
)


SPECS = [MLP, CNN, TRANSFORMER]


def largest_difference(a: WeightFeatures, b: WeightFeatures) -> float:
    """The largest difference of two sets of features with the same names and shapes."""
    worst = 0.0
    for left, right in ((a.nodes, b.nodes), (a.tensors, b.tensors)):
        assert left.keys() == right.keys()
        for key in left:
            assert left[key].shape == right[key].shape, key
            worst = max(worst, (left[key] - right[key]).abs().max().item())
    return worst


class EncoderSuite:
    """Subclass it as ``TestName``, and implement :meth:`make`.

    Families that read some architectures only say which: ``kinds`` of random specifications, and ``takes``
    of those written by hand (all if ``None``). They must refuse the others that are written by hand.
    """

    equivariant = True
    kinds: Sequence[str] | None = None
    takes: Collection[WeightSpec] | None = None

    def make(self, spec: WeightSpec) -> Encoder:
        """A small encoder, in float32."""
        raise NotImplementedError

    def seeded(self, spec: WeightSpec) -> Encoder:
        torch.manual_seed(0)
        if self.takes is not None and spec not in self.takes and spec in (*SPECS, *TOPOLOGIES.values()):
            with pytest.raises(SpecError):
                self.make(spec)
            pytest.skip("refused, as it should be")
        return self.make(spec)

    # Hypothesis warns of methods that subclasses share; without a database of failures it does no harm.
    @settings(max_examples=20, suppress_health_check=[HealthCheck.differing_executors])
    @given(data=st.data())
    def test_moves_along_with_the_weights(self, data: st.DataObject) -> None:
        spec = data.draw(random_specs(self.kinds, max_size=4))
        encoder = self.seeded(spec).double()
        if self.equivariant:
            assert_equivariant(encoder, spec, atol=1e-9, trials=1)
            head = EquivariantHead(spec, encoder.channels, scale=1.0).double()
            assert_equivariant(nn.Sequential(encoder, head), spec, atol=1e-9, trials=1)
            pool = InvariantHead(spec, encoder.channels, 3).double()
            assert_invariant(nn.Sequential(encoder, pool), spec, atol=1e-9, trials=1)

    @pytest.mark.parametrize("name", TOPOLOGIES)
    def test_moves_along_on_every_topology(self, name: str) -> None:
        spec = TOPOLOGIES[name]
        encoder = self.seeded(spec).double()
        if self.equivariant:
            assert_equivariant(encoder, spec, atol=1e-9, trials=1)
            pool = InvariantHead(spec, encoder.channels, 3).double()
            assert_invariant(nn.Sequential(encoder, pool), spec, atol=1e-9, trials=1)

    @settings(max_examples=20, suppress_health_check=[HealthCheck.differing_executors])
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

    @pytest.mark.parametrize("spec", SPECS, ids=["mlp", "cnn", "transformer"])
    def test_alone_as_in_a_batch(self, spec: WeightSpec) -> None:
        encoder = self.seeded(spec).double()
        weights = random_weights(spec, 5)
        together = encoder(weights)
        for b in range(5):
            alone = encoder({name: tensor[b : b + 1] for name, tensor in weights.items()})
            row = WeightFeatures(
                {key: together.tensors[key][b : b + 1] for key in together.tensors},
                {key: together.nodes[key][b : b + 1] for key in together.nodes},
            )
            assert largest_difference(alone, row) < 1e-12

    @pytest.mark.parametrize("spec", SPECS, ids=["mlp", "cnn", "transformer"])
    def test_every_weight_is_read(self, spec: WeightSpec) -> None:
        encoder = self.seeded(spec).double()
        weights = random_weights(spec, 1)
        before = encoder(weights)
        for name in weights:
            changed = {**weights, name: weights[name].clone()}
            changed[name].view(-1)[-1] += 0.1
            assert largest_difference(encoder(changed), before) > 1e-6, name

    @pytest.mark.parametrize("spec", SPECS, ids=["mlp", "cnn", "transformer"])
    def test_gradients(self, spec: WeightSpec) -> None:
        encoder = self.seeded(spec).double()
        weights = random_weights(spec, 2)
        leaves = [tensor.requires_grad_() for tensor in weights.values()]
        names = list(weights)

        def total(*tensors: Tensor) -> Tensor:
            features = encoder(dict(zip(names, tensors[: len(names)], strict=True)))
            parts = [*features.nodes.values(), *features.tensors.values()]
            return torch.stack([(part * part.cos()).sum() for part in parts]).sum()

        assert torch.autograd.gradcheck(total, leaves, fast_mode=True)
        total(*leaves).backward()
        grads = {name: p.grad for name, p in encoder.named_parameters() if p.requires_grad}
        assert all(grad.isfinite().all() for grad in grads.values() if grad is not None)
        idle = {name for name, grad in grads.items() if grad is None or not grad.any()}
        assert spec != TRANSFORMER or not idle, idle

    def test_zero_weights(self) -> None:
        encoder = self.seeded(CNN)
        weights = {name: torch.zeros(2, *tensor.shape) for name, tensor in CNN.tensors.items()}
        features = encoder(weights)
        assert all(value.isfinite().all() for part in features for value in part.values())

    def test_checkpoint(self) -> None:
        encoder, other = self.seeded(MLP).double(), self.make(MLP).double()
        weights = random_weights(MLP, 2)
        keys = [ref.key for ref in MLP.blocks]
        encoder.set_statistics(dict.fromkeys(keys, 0.1), dict.fromkeys(keys, 0.3))
        assert largest_difference(encoder(weights), other(weights)) > 0
        other.load_state_dict(encoder.state_dict())
        assert largest_difference(encoder(weights), other(weights)) == 0
        for twin in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
            assert largest_difference(encoder(weights), twin(weights)) == 0

    def test_statistics_standardise(self) -> None:
        encoder = self.seeded(MLP).double()
        weights = random_weights(MLP, 2)
        plain = encoder(weights)
        keys = [ref.key for ref in MLP.blocks]
        encoder.set_statistics(dict.fromkeys(keys, 0.5), {**dict.fromkeys(keys, 2.0), "fc3.bias": 0.0})
        moved = {k: v * (1 if k == "fc3.bias" else 2.0) + 0.5 for k, v in weights.items()}
        assert largest_difference(encoder(moved), plain) < 1e-9

    @pytest.mark.parametrize(
        ("mean", "std", "message"),
        [
            ({"fc1.weight": 0.0}, None, "fc1.bias"),
            (None, {"fc1.weight": -1.0}, "negative"),
            ({"fc1.weight": float("nan")}, None, "NaN"),
        ],
    )
    def test_bad_statistics(self, mean: dict | None, std: dict | None, message: str) -> None:
        fine = {ref.key: 1.0 for ref in MLP.blocks}
        if mean is not None and len(mean) == 1 and mean["fc1.weight"] != 0:
            mean = {**fine, **mean}
        std = {**fine, **(std or {})}
        encoder = self.seeded(MLP)
        with pytest.raises(SpecError, match=message):
            encoder.set_statistics(fine if mean is None else mean, std)
        assert not encoder.mean.any() and (encoder.std == 1).all(), "refused, but half of it was kept"

    def test_bad_weights(self) -> None:
        encoder = self.seeded(MLP)
        weights = random_weights(MLP, 2, dtype=torch.float32)
        with pytest.raises(SpecError, match=r"missing fc1\.weight"):
            encoder({k: v for k, v in weights.items() if k != "fc1.weight"})
        with pytest.raises(SpecError, match="extra fc9"):
            encoder({**weights, "fc9": torch.zeros(2, 1)})
        with pytest.raises(SpecError, match=r"fc2\.bias has size 5"):
            encoder({**weights, "fc2.bias": torch.zeros(2, 5)})
        with pytest.raises(SpecError, match=r"fc2\.bias has type torch\.float64"):
            encoder({**weights, "fc2.bias": weights["fc2.bias"].double()})

    def test_no_channels(self) -> None:
        with pytest.raises(ValueError, match="channels=0"):
            type(self.seeded(MLP))(MLP, channels=0)
