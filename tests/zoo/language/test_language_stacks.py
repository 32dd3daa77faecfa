"""Stacked language models equal torch's modules and train as each would alone."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from wsl.zoo import ForwardDefinition
from wsl.zoo.language._initial import INITIALISATIONS, initial_row
from wsl.zoo.language._plan import LanguagePlan
from wsl.zoo.language._recipe import LanguageHyperparameters
from wsl.zoo.language._recurrent_stack import RecurrentStack
from wsl.zoo.language._train import NetworkText, evaluate, initial_rows, network_text, train_networks
from wsl.zoo.language._transformer_stack import TransformerStack
from wsl.zoo.training import OPTIMIZERS, StackedDropout

V, L, DRAWS = 11, 6, 150
NETS = {
    f"{cell}-{layers}": ForwardDefinition(
        f"wsl.models:Char{cell}", {"vocabulary": V, "embedding": 3, "hidden": 5, "layers": layers}
    )
    for cell in ("RNN", "LSTM", "GRU")
    for layers in (1, 2)
} | {
    f"Transformer-{activation}": ForwardDefinition(
        "wsl.models:CharTransformer",
        {"vocabulary": V, "length": L, "d_model": 8, "heads": 2, "blocks": 2, "activation": activation},
    )
    for activation in ("gelu", "relu")
}
every_net = pytest.mark.parametrize("forward", NETS.values(), ids=list(NETS))


def stack_of(forward):
    return (TransformerStack if "Transformer" in forward.factory else RecurrentStack)(forward)


def sequences(*shape, seed=0):
    return torch.randint(V, (*shape, L + 1), generator=torch.Generator().manual_seed(seed))


def random_rows(stack, networks=3):
    count = sum(np.prod(shape) for shape in stack.shapes.values())
    generator = torch.Generator().manual_seed(1)
    return torch.randn(networks, int(count), generator=generator, dtype=torch.float64) / 2


def module_of(forward, row):
    module = forward.build().to(row.dtype)
    vector_to_parameters(row, module.parameters())
    return module


def error(stack, one, other):
    """The largest difference, but of key biases: softmax does not see them, so that rounding trains them."""
    parts = stack.tensors((one - other).detach()[None])
    for name in parts:
        if name.endswith("in_proj_bias"):
            parts[name].unflatten(1, (3, -1))[:, 1] = 0
    return max(part.abs().max() for part in parts.values())


def plans(forward, **changes):
    """Five networks that differ in everything but the batch size."""
    names, found = list(OPTIMIZERS), []
    for model in range(5):
        drawn = {
            "learning_rate": 0.01 * (model + 1),
            "weight_decay": 0.01 * model,
            "dropout": [0.0, 0.25, 0.5][model % 3],
            "optimizer": names[model % len(names)],
            "initialisation": INITIALISATIONS[model % 3],
            "initial_scale": 1 + model / 3,
            "train_fraction": 1 - 0.2 * model,
            "batch_size": 4,
            "steps": 7 if model < 2 else 5,
        } | changes
        found.append(
            LanguagePlan(model, 11, forward, LanguageHyperparameters(**drawn), (0, 2, drawn["steps"]))
        )
    return found


@every_net
def test_stacked_networks_equal_the_modules(forward):
    stack = stack_of(forward)
    rows, given = random_rows(stack), sequences(3, 4)
    outputs = stack.logits(stack.tensors(rows), stack.arrange(given[..., :-1]))
    for row, tokens, found in zip(rows, given, outputs, strict=True):
        module = module_of(forward, row)
        assert list(module.state_dict()) == list(stack.shapes)
        wanted = module(tokens[:, :-1])
        order = stack.arrange(torch.arange(4 * L).view(1, 4, L)).flatten()
        assert (found - wanted.flatten(0, 1)[order]).abs().max() <= 1e-12
        assert found.std() > 0.1


@every_net
def test_gradients_equal_those_of_the_modules(forward):
    stack = stack_of(forward)
    rows, given = random_rows(stack), sequences(3, 4)
    found = stack.gradient(rows, given, StackedDropout([0.0] * 3, [[i] for i in range(3)]))
    for row, tokens, gradient in zip(rows, given, found, strict=True):
        module = module_of(forward, row)
        F.cross_entropy(module(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
        wanted = parameters_to_vector([parameter.grad for parameter in module.parameters()])
        assert (gradient - wanted).abs().max() <= 1e-13
        assert gradient.abs().max() > 1e-3


@every_net
def test_training_together_equals_training_alone(forward):
    stack, given = stack_of(forward), sequences(30)
    networks = plans(forward)
    together = train_networks(stack, networks, given, dtype=torch.float64)
    assert [len(found) for found in together] == [3] * 5
    for plan, found in zip(networks, together, strict=True):
        (alone,) = train_networks(stack, [plan], given, dtype=torch.float64)
        for one, other in zip(found, alone, strict=True):
            assert error(stack, one, other) <= 1e-10
        assert (found[0] - found[-1]).abs().max() > 1e-3


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
@pytest.mark.parametrize("name", ["LSTM-1", "GRU-2", "Transformer-gelu"])
def test_training_equals_the_loop_of_torch(optimizer, name):
    forward, given = NETS[name], sequences(30)
    plan = plans(forward, optimizer=optimizer, dropout=0.0)[3]
    stack = stack_of(forward)
    found = train_networks(stack, [plan], given, dtype=torch.float64)[0]
    drawn, text = plan.hyperparameters, network_text(plan, 30)
    module = module_of(forward, initial_rows(stack, [plan])[0].double())
    rate, decay = drawn.learning_rate, drawn.weight_decay
    peer = {
        "sgd": lambda p: torch.optim.SGD(p, rate, weight_decay=decay),
        "momentum": lambda p: torch.optim.SGD(p, rate, 0.9, weight_decay=decay),
        "adam": lambda p: torch.optim.Adam(p, rate, weight_decay=decay),
        "rmsprop": lambda p: torch.optim.RMSprop(p, rate, weight_decay=decay),
    }[optimizer](module.parameters())
    for step in range(drawn.steps + 1):
        if step in plan.stored:
            copy = found[plan.stored.index(step)]
            assert error(stack, copy, parameters_to_vector(module.parameters())) <= 1e-9
        batch = given[torch.from_numpy(text.next_batch(drawn.batch_size))]
        peer.zero_grad()
        F.cross_entropy(module(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()).backward()
        peer.step()


@every_net
def test_dropout_is_that_of_the_modules_in_the_mean(forward):
    stack, given = stack_of(forward), sequences(1, 4).expand(2, -1, -1)
    rows = random_rows(stack, 1).expand(2, -1).contiguous()
    tokens = stack.arrange(given[..., :-1])
    dropout = StackedDropout([0.0, 0.5], [[0], [1]])
    many = torch.stack([stack.features(stack.tensors(rows), tokens, dropout) for _ in range(DRAWS)])
    plain = stack.features(stack.tensors(rows), tokens)
    assert torch.equal(many[:, 0], plain[:1].expand(DRAWS, -1, -1))
    module = type(forward.build())(**forward.arguments, dropout=0.5).double()
    vector_to_parameters(rows[0], module.parameters())
    read = []
    module.head.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].detach()))
    for _ in range(DRAWS):
        module(given[0, :, :-1])
    order = stack.arrange(torch.arange(4 * L).view(1, 4, L)).flatten()
    wanted = torch.stack(read).flatten(1, 2)[:, order]
    for moment in (torch.mean, torch.std):
        difference = (moment(many[:, 1], 0) - moment(wanted, 0)).abs().mean()
        assert difference <= 0.16 * moment(wanted, 0).abs().mean()
    assert many[:, 1].std(0).mean() > 0.1


@pytest.mark.parametrize("initialisation", INITIALISATIONS)
def test_initial_weights_have_the_spread_of_torchs(initialisation):
    forward = ForwardDefinition("wsl.models:CharTransformer", {"vocabulary": 60, "length": 50, "d_model": 64})
    for definition in (
        forward,
        ForwardDefinition("wsl.models:CharGRU", {"vocabulary": 60, "embedding": 40, "hidden": 50}),
    ):
        module = definition.build()
        shapes = {name: tuple(tensor.shape) for name, tensor in module.named_parameters()}
        row = initial_row(shapes, initialisation, 2.0, torch.Generator().manual_seed(0))
        parts = row.split([int(np.prod(shape)) for shape in shapes.values()])
        for (name, wanted), part in zip(module.named_parameters(), parts, strict=True):
            if "norm" in name:
                assert torch.equal(part, wanted.detach().flatten())
            elif initialisation == "default":
                assert part.std() == pytest.approx(2 * wanted.std().item(), rel=0.3, abs=1e-9), name
            elif "embedding" in name or (wanted.ndim > 1 and initialisation == "normal"):
                assert part.std() == pytest.approx(0.04, rel=0.1), name
            elif "bias" in name:
                assert (part == 0).all()
            elif name == "rnn.weight_hh_l0":
                for gate in part.view(3, 50, 50):
                    torch.testing.assert_close(gate @ gate.T, 4 * torch.eye(50), atol=1e-4, rtol=0)


def test_networks_see_each_of_their_sequences_once_before_any_twice():
    text = NetworkText(20, 0.5, np.random.default_rng(3))
    assert len(text.rows) == 10
    seen = np.concatenate([text.next_batch(4) for _ in range(5)])
    first, second = np.split(seen, 2)
    assert sorted(first) == sorted(second) == sorted(text.rows)
    assert first.tolist() != second.tolist()
    assert len(NetworkText(20, 1e-9, np.random.default_rng(3)).next_batch(7)) == 7


@pytest.mark.parametrize("name", ["LSTM-2", "Transformer-relu"])
def test_evaluation_equals_the_module(name):
    forward, given = NETS[name], sequences(500)
    stack = stack_of(forward)
    rows = random_rows(stack, 5)
    rows[1, 0] = float("nan")
    given[0, 0] = 0  # the character whose embedding that is
    loss, accuracy = evaluate(stack, rows, given)
    assert np.isnan(loss[1])
    outputs = module_of(forward, rows[4])(given[:, :-1])
    wanted = given[:, 1:]
    assert loss[4] == pytest.approx(
        F.cross_entropy(outputs.flatten(0, 1), wanted.flatten()).item(), abs=1e-12
    )
    assert accuracy[4] == pytest.approx((outputs.argmax(-1) == wanted).double().mean().item())
    assert accuracy[1] < accuracy[4] or accuracy[1] < 1


def test_a_network_that_diverges_leaves_the_others_alone():
    forward, given = NETS["LSTM-1"], sequences(30)
    networks = plans(forward, optimizer="sgd", dropout=0.0)
    broken = plans(forward, optimizer="sgd", dropout=0.0, learning_rate=1e300)
    stack = stack_of(forward)
    mixed = train_networks(stack, [networks[0], broken[1], *networks[2:]], given, dtype=torch.float64)
    plain = train_networks(stack, networks, given, dtype=torch.float64)
    for number, (some, others) in enumerate(zip(mixed, plain, strict=True)):
        for one, other in zip(some, others, strict=True):
            assert number == 1 or (one - other).abs().max() <= 1e-10
    assert not mixed[1][-1].isfinite().all()
