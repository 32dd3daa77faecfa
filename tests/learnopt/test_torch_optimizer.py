"""Functional optimizers as torch's: the same moves in plain loops and in Lightning, resumption, groups."""

import copy
import pickle

import lightning.pytorch as pl
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.optim import lr_scheduler as schedulers

import wsl
from wsl.learnopt import (
    SGD,
    Adam,
    AdamW,
    Celo2Optimizer,
    DeepSetsOptimizer,
    GraphOptimizer,
    Muon,
    Optimizer,
    SmallFCOptimizer,
    TorchOptimizer,
    UNFOptimizer,
)

QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "use_distributed_sampler": False,
}
STEPS = 30


class Nosy(Optimizer):
    """Moves every weight by all weights, by all gradients and by the loss: nothing may be mixed up."""

    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(0.05, dtype=torch.float64))

    def init(self, params):
        return {"seen": {name: torch.zeros_like(value) for name, value in params.items()}}

    def update(self, grads, state, params, step, loss):
        total = sum(
            grad.flatten(1).tanh().sum(1) + 0.01 * params[n].flatten(1).sum(1) for n, grad in grads.items()
        )
        seen = {name: 0.9 * state["seen"][name] + grad for name, grad in grads.items()}
        scale = self.rate * (1 + 0.1 * total.tanh() + 0.01 * torch.nan_to_num(loss)) / (1 + 0.1 * step)
        new = {n: p - scale.view(-1, *[1] * (p.ndim - 1)) * seen[n] for n, p in params.items()}
        return new, {"seen": seen}


def learned(kind):
    """With an output that is not small."""
    torch.manual_seed(3)
    return kind(wsl.trace(network(), batches()[0][0]), gain=0.5).double()


RULES = {
    "unf": lambda: learned(UNFOptimizer),
    "celo2": lambda: learned(Celo2Optimizer),
    "sgd": lambda: SGD(0.1, 0.9),
    "adam": lambda: Adam(0.01),
    "muon": lambda: Muon(0.02),
    "nosy": Nosy,
}


def network():
    torch.manual_seed(0)
    layers = [nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 2)]
    return nn.Sequential(*layers).double()


def batches():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(STEPS, 12, 5, generator=generator, dtype=torch.float64)
    return list(zip(inputs, inputs[..., :2].sin(), strict=True))


def train(module, optimizer, part):
    for inputs, targets in part:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(module(inputs), targets)
        loss.backward()
        optimizer.step()


def functional(rule, module, closure=True):
    """The parameters after all batches, by the functional form alone."""
    module = copy.deepcopy(module)
    params = {name: value.detach()[None] for name, value in module.named_parameters()}
    state = rule.init(params)
    for number, (inputs, targets) in enumerate(batches()):
        leaves = {name: value[0].clone().requires_grad_() for name, value in params.items()}
        loss = nn.functional.mse_loss(functional_call(module, leaves, (inputs,)), targets)
        grads = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
        told = loss.detach()[None] if closure else torch.full((1,), torch.nan, dtype=torch.float64)
        with torch.no_grad():
            stacked = {name: grad[None] for name, grad in grads.items()}
            params, state = rule.update(stacked, state, params, torch.tensor([number]), told)
    return {name: value[0] for name, value in params.items()}


def assert_close(module, wanted, limit=1e-12):
    for name, value in module.named_parameters():
        assert (value - wanted[name]).abs().max() <= limit, name


@pytest.mark.parametrize("name", RULES)
def test_a_plain_loop_makes_the_moves_of_the_functional_form(name):
    rule, module = RULES[name](), network()
    wanted = functional(rule, module, closure=False)
    train(module, TorchOptimizer(rule, module, batches()[0][0]), batches())
    assert_close(module, wanted)
    assert (module[0].weight - network()[0].weight).abs().max() > 1e-3


class Regression(pl.LightningModule):
    def __init__(self, rule):
        super().__init__()
        self.net, self.rule = network(), rule

    def training_step(self, batch, _):
        return nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return TorchOptimizer(self.rule, self.net, batches()[0][0])


class Decay(Regression):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, STEPS)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def fit(task, part=STEPS, epochs=1, path=None):
    loader = torch.utils.data.DataLoader(batches()[:part], batch_size=None)
    trainer = pl.Trainer(max_epochs=epochs, **QUIET)
    trainer.fit(task, loader, ckpt_path=path, weights_only=True)
    return task.net


@pytest.mark.parametrize("name", ["unf", "adam", "nosy"])
def test_so_does_a_fit_of_lightning(name):
    rule = RULES[name]()
    net = fit(Regression(rule))
    assert_close(net, functional(rule, network()))
    assert (net[1].running_mean - network()[1].running_mean).abs().max() > 0.01


def test_a_fit_that_is_resumed_is_the_unbroken_one_bit_for_bit(tmp_path):
    whole, half = fit(Decay(Nosy()), 10, 3), Decay(Nosy())
    fit(half, 10, 1)
    half.trainer.save_checkpoint(tmp_path / "c.ckpt")
    again = fit(Decay(Nosy()), 10, 3, tmp_path / "c.ckpt")
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


@pytest.mark.parametrize("name", RULES)
def test_a_loop_resumed_from_files_is_the_unbroken_one_bit_for_bit(name, tmp_path):
    whole = network()
    train(whole, TorchOptimizer(RULES[name](), whole, batches()[0][0]), batches())
    module = network()
    optimizer = TorchOptimizer(RULES[name](), module, batches()[0][0])
    train(module, optimizer, batches()[:13])
    torch.save((module.state_dict(), optimizer.state_dict()), tmp_path / "c.pt")
    again = network()
    weights, state = torch.load(tmp_path / "c.pt", weights_only=True)
    again.load_state_dict(weights)
    resumed = TorchOptimizer(RULES[name](), again, batches()[0][0])
    resumed.load_state_dict(state)
    train(again, resumed, batches()[13:])
    for key, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[key])


def test_a_state_of_another_rule_is_refused():
    module = network()
    first, other = (TorchOptimizer(SGD(rate, 0.9), module, batches()[0][0]) for rate in (0.1, 0.2))
    with pytest.raises(ValueError, match=r"one of another optimizer or module: .* SGD .* began with"):
        other.load_state_dict(first.state_dict())


def test_a_closure_gives_the_loss_and_gradients():
    rule, module = Nosy(), network()
    optimizer = TorchOptimizer(rule, module, batches()[0][0])
    for inputs, targets in batches():

        def closure(inputs=inputs, targets=targets):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(module(inputs), targets)
            loss.backward()
            return loss

        assert optimizer.step(closure).item() > 0
    assert_close(module, functional(rule, network()))


def test_groups_have_rates_and_decays_of_their_own():
    module, whole = network(), network()
    groups = [
        {"params": module[0].parameters(), "lr": 0.0},
        {"params": [module[3].weight], "lr": 0.5, "weight_decay": 0.1},
        {"params": module[5].parameters()},
    ]
    before = copy.deepcopy(module.state_dict())
    train(module, TorchOptimizer(SGD(0.1), module, batches()[0][0], groups), batches()[:1])
    train(whole, TorchOptimizer(SGD(0.1), whole, batches()[0][0]), batches()[:1])
    for name in ("0.weight", "0.bias", "1.weight", "3.bias"):  # not moved, or in no group
        assert torch.equal(module.state_dict()[name], before[name])
    assert torch.equal(module[5].weight, whole[5].weight)
    halfway = (before["3.weight"] + whole[3].weight) / 2 - 0.05 * before["3.weight"]
    assert (module[3].weight - halfway).abs().max() < 1e-15


def test_what_is_frozen_or_has_no_gradient_stays_and_counts_as_still():
    module = network()
    module[0].requires_grad_(False)
    before = copy.deepcopy(module.state_dict())
    optimizer = TorchOptimizer(AdamW(0.01), module, batches()[0][0])
    nn.functional.mse_loss(module(batches()[0][0]), batches()[0][1]).backward()
    module[5].bias.grad = None
    optimizer.step()
    moved = {name for name, value in module.named_parameters() if not torch.equal(value, before[name])}
    assert moved == {"1.weight", "1.bias", "3.weight", "3.bias", "5.weight"}
    module[0].requires_grad_()
    train(module, optimizer, batches()[1:2])
    assert not torch.equal(module[0].weight, before["0.weight"])


def test_groups_may_come_later():
    module = network()
    optimizer = TorchOptimizer(SGD(0.1, 0.9), module, batches()[0][0], module[5].parameters())
    train(module, optimizer, batches()[:1])
    assert torch.equal(module[3].weight, network()[3].weight)
    optimizer.add_param_group({"params": module[3].parameters(), "lr": 0.1})
    train(module, optimizer, batches()[1:2])
    assert not torch.equal(module[3].weight, network()[3].weight)
    assert [group["lr"] for group in optimizer.param_groups] == [1.0, 0.1]


def test_a_step_without_any_gradient_changes_nothing():
    module = network()
    optimizer = TorchOptimizer(Adam(), module, batches()[0][0])
    optimizer.step()
    assert not optimizer.state_dict()["state"]
    assert torch.equal(module[0].weight, network()[0].weight)


def test_running_statistics_are_the_modules_own():
    module = network().eval()
    optimizer = TorchOptimizer(Nosy(), module, batches()[0][0])
    train(module, optimizer, batches())
    assert torch.equal(module[1].running_mean, torch.zeros(7, dtype=torch.float64))
    assert not module.training and "1.running_mean" in wsl.trace(module, batches()[0][0]).tensors


def test_the_rule_is_a_copy():
    rule, module = SGD(0.1), network()
    optimizer = TorchOptimizer(rule, module, batches()[0][0])
    with torch.no_grad():
        rule.log_rate.fill_(3.0)
    train(module, optimizer, batches()[:1])
    other = network()
    train(other, torch.optim.SGD(other.parameters(), 0.1), batches()[:1])
    assert_close(module, dict(other.named_parameters()))


def test_shared_parameters_move_by_the_mean():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 5)
            self.second.weight = self.first.weight

        def forward(self, inputs):
            return self.second(self.first(inputs).tanh())[:, :2]

    module, other = Shared().double(), Shared().double()
    optimizer = TorchOptimizer(SGD(0.1, 0.9), module, batches()[0][0])
    train(module, optimizer, batches()[:5])
    train(other, torch.optim.SGD(other.parameters(), 0.1, 0.9), batches()[:5])
    assert_close(module, dict(other.named_parameters()))
    assert len(optimizer.param_groups[0]["params"]) == 3


def test_faulty_settings_and_foreign_parameters_are_refused():
    module, inputs = network(), batches()[0][0]
    with pytest.raises(ValueError, match="lr is -1; expected at least 0"):
        TorchOptimizer(SGD(), module, inputs, lr=-1)
    with pytest.raises(ValueError, match="weight_decay is -0.1"):
        TorchOptimizer(SGD(), module, inputs, weight_decay=-0.1)
    with pytest.raises(
        ValueError, match=r"shapes \[\(3, 2\), \(3,\)\] are none of the module.*it has 0.weight"
    ):
        TorchOptimizer(SGD(), module, inputs, nn.Linear(2, 3).parameters())
    with pytest.raises(ValueError, match="more than one parameter group"):
        TorchOptimizer(SGD(), module, inputs).add_param_group({"params": [module[0].weight]})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("kind", [UNFOptimizer, Celo2Optimizer])
def test_a_learned_rule_moves_modules_of_other_types(kind, dtype):
    torch.manual_seed(4)
    inputs = torch.randn(8, 5)
    net = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    rule = kind(wsl.trace(net, inputs))
    moved = []
    for one in (net, copy.deepcopy(net).to(dtype)):
        typed = inputs.to(next(one.parameters()).dtype)
        optimizer = TorchOptimizer(rule, one, typed)
        for _ in range(3):
            optimizer.zero_grad()
            one(typed).square().mean().backward()
            optimizer.step()
        moved.append(nn.utils.parameters_to_vector(one.parameters()))
    assert moved[1].dtype == dtype
    tolerance = 0.02 if dtype == torch.bfloat16 else 1e-5
    assert torch.allclose(moved[0].to(dtype), moved[1], rtol=tolerance, atol=tolerance)


class Scaled(nn.Module):
    """With a single number, and an embedding whose gradient may be sparse."""

    def __init__(self, sparse):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(6, 4, sparse=sparse), nn.Linear(4, 2)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, rows):
        return self.layer(self.embedding(rows)) * self.scale


@pytest.mark.parametrize("sparse", [False, True])
def test_numbers_without_dimensions_and_sparse_gradients(sparse):
    torch.manual_seed(5)
    rows = torch.randint(6, (8,))
    ours, theirs = Scaled(sparse), Scaled(False)
    theirs.load_state_dict(ours.state_dict())
    pairs = [
        (ours, TorchOptimizer(Adam(0.01), ours, rows)),
        (theirs, torch.optim.Adam(theirs.parameters(), 0.01)),
    ]
    for net, optimizer in pairs:
        for _ in range(3):
            optimizer.zero_grad()
            net(rows).square().mean().backward()
            optimizer.step()
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(own, other, atol=1e-6)
    assert ours.scale != 2


def test_states_belong_to_settings_and_architecture_and_stay_as_they_were_given():
    inputs = torch.randn(8, 5)

    def made(rule, hidden=4):
        net = nn.Sequential(nn.Linear(5, hidden), nn.ReLU(), nn.Linear(hidden, 3))
        return net, TorchOptimizer(rule, net, inputs)

    def step(net, optimizer):
        net(inputs).square().mean().backward()
        optimizer.step()

    first = made(SGD(0.1, 0.9))
    step(*first)
    state = first[1].state_dict()
    kept = copy.deepcopy(state)
    step(*first)
    other = made(SGD(0.1, 0.9))
    other[1].load_state_dict(state)
    step(*other)
    assert torch.equal(state["state"]["training"]["step"], kept["state"]["training"]["step"])
    for _, wrong in (made(SGD(0.1, 0.9, nesterov=True)), made(SGD(0.1, 0.9), hidden=6)):
        with pytest.raises(ValueError, match="another optimizer or module"):
            wrong.load_state_dict(state)


@pytest.mark.parametrize("kind", [UNFOptimizer, DeepSetsOptimizer, SmallFCOptimizer, Celo2Optimizer])
def test_learned_optimizers_move_numbers_without_dimensions(kind):
    torch.manual_seed(0)
    module, rows = Scaled(False), torch.randint(6, (8,))
    optimizer = TorchOptimizer(kind(wsl.trace(module, rows)), module, rows)
    before = module.scale.item()
    module(rows).square().mean().backward()
    optimizer.step()
    assert module.scale.isfinite() and module.scale.item() != before


def test_copies_are_refused():
    module, x = nn.Linear(3, 2), torch.randn(4, 3)
    optimizer = TorchOptimizer(SGD(0.1), module, x)
    for copied in (copy.deepcopy, copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match="state_dict"):
            copied(optimizer)


def small(dtype=torch.float32):
    torch.manual_seed(6)
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)).to(dtype)


def steps(module, optimizer, count, generator):
    dtype = next(module.parameters()).dtype
    for _ in range(count):
        optimizer.zero_grad()
        module(torch.randn(8, 5, generator=generator).to(dtype)).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("kind", [UNFOptimizer, Celo2Optimizer])
@pytest.mark.parametrize("resumed", [False, True])
def test_a_module_may_be_moved_to_another_type_between_steps(kind, resumed):
    """And back; with one optimizer, or one that goes on from a state of the other type."""
    torch.manual_seed(7)
    rule = kind(wsl.trace(small(), torch.zeros(2, 5)), gain=0.5)
    whole, moved, inputs = small(torch.float64), small(), torch.zeros(2, 5)
    one = TorchOptimizer(rule, whole, inputs.double())
    two = TorchOptimizer(rule, moved, inputs)
    generators = [torch.Generator().manual_seed(8) for _ in range(2)]
    for dtype in (torch.float32, torch.float64, torch.float32):
        moved.to(dtype)
        if resumed:
            kept, two = two.state_dict(), TorchOptimizer(rule, moved, inputs.to(dtype))
            two.load_state_dict(kept)
        steps(whole, one, 2, generators[0])
        steps(moved, two, 2, generators[1])
        if dtype == torch.float64:
            assert (moved[0].weight.float() != moved[0].weight).any(), "computed in float32"
    for value, wanted in zip(moved.parameters(), whole.parameters(), strict=True):
        assert value.dtype == torch.float32 and torch.allclose(value.double(), wanted, atol=1e-5)


@pytest.mark.parametrize("kind", [UNFOptimizer, GraphOptimizer, SmallFCOptimizer])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_rule_of_another_type_trains_a_module(kind, dtype):
    torch.manual_seed(9)
    rule, inputs, trained = kind(wsl.trace(small(), torch.zeros(2, 5)), gain=0.5), torch.zeros(2, 5), []
    for one in (rule, copy.deepcopy(rule).to(dtype)):
        module = small()
        steps(module, TorchOptimizer(one, module, inputs), 3, torch.Generator().manual_seed(1))
        trained.append(nn.utils.parameters_to_vector(module.parameters()))
    assert torch.allclose(*trained, atol=1e-5 if dtype == torch.float64 else 0.01)
    assert trained[1].dtype == torch.float32


SCHEDULES = {
    "step": lambda o: schedulers.StepLR(o, 2),
    "exponential": lambda o: schedulers.ExponentialLR(o, 0.5),
    "cosine": lambda o: schedulers.CosineAnnealingLR(o, 5),
    "restarts": lambda o: schedulers.CosineAnnealingWarmRestarts(o, 5),
    "linear": lambda o: schedulers.LinearLR(o, 0.5, total_iters=10),
    "lambda": lambda o: schedulers.LambdaLR(o, lambda step: 0.5**step),
    "in turn": lambda o: schedulers.SequentialLR(
        o, [schedulers.ConstantLR(o), schedulers.ExponentialLR(o, 0.5)], [2]
    ),
    "plateau": lambda o: schedulers.ReduceLROnPlateau(o, patience=0),
    "one cycle": lambda o: schedulers.OneCycleLR(o, 0.3, 10, cycle_momentum=False),
    "cycles": lambda o: schedulers.CyclicLR(o, 0.1, 0.3, 2, cycle_momentum=False),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_of_torch_do_what_they_do_to_torchs_own(name):
    pairs = []
    for make in (
        lambda m: TorchOptimizer(SGD(1.0), m, batches()[0][0], lr=0.1),
        lambda m: torch.optim.SGD(m.parameters(), 0.1),
    ):
        module = network()
        optimizer = make(module)
        schedule = SCHEDULES[name](optimizer)
        for batch in batches()[:6]:
            train(module, optimizer, [batch])
            schedule.step(*([1.0] if name == "plateau" else []))
        pairs.append((module, optimizer.param_groups[0]["lr"]))
    (module, rate), (other, wanted) = pairs
    assert rate == wanted != 0.1
    assert_close(module, dict(other.named_parameters()))


def test_momenta_are_not_cycled():
    optimizer = TorchOptimizer(SGD(1.0, 0.9), network(), batches()[0][0])
    for make in (
        lambda: schedulers.OneCycleLR(optimizer, 0.3, 10),
        lambda: schedulers.CyclicLR(optimizer, 0.1, 1),
    ):
        with pytest.raises(ValueError, match="`cycle_momentum`"):
            make()


def test_a_compiled_module_is_the_module():
    module, compiled = network(), network()
    optimizers = [
        TorchOptimizer(SGD(0.1, 0.9), module, batches()[0][0]),
        TorchOptimizer(SGD(0.1, 0.9), torch.compile(compiled, backend="eager"), batches()[0][0]),
    ]
    train(module, optimizers[0], batches()[:3])
    train(torch.compile(compiled, backend="eager"), optimizers[1], batches()[:3])
    assert_close(compiled, dict(module.named_parameters()))
    optimizers[0].load_state_dict(optimizers[1].state_dict())


def test_gradients_add_up_over_batches_and_scalers_skip_steps():
    inputs, targets = batches()[0]
    module, other = network().eval(), network().eval()
    optimizers = TorchOptimizer(SGD(0.1, 0.9), module, inputs), torch.optim.SGD(other.parameters(), 0.1, 0.9)
    for net, optimizer in zip((module, other), optimizers, strict=True):
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for number in range(4):
            optimizer.zero_grad()
            factor = torch.inf if number == 1 else 1.0
            for half in (slice(0, 6), slice(6, 12)):
                loss = nn.functional.mse_loss(net(inputs[half]), targets[half]) * factor
                scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 2.0
    assert_close(module, dict(other.named_parameters()))
    assert optimizers[0].state_dict()["state"]["training"]["step"].item() == 3


class ByHand(Regression):
    """Two optimizers of one network, in turn, as generative adversarial networks have them."""

    def __init__(self, make):
        super().__init__(None)
        self.automatic_optimization, self.make = False, make

    def training_step(self, batch, index):
        optimizer = self.optimizers()[index % 2]
        optimizer.zero_grad()
        self.manual_backward(nn.functional.mse_loss(self.net(batch[0]), batch[1]))
        self.clip_gradients(optimizer, 0.5)
        optimizer.step()

    def configure_optimizers(self):
        return [self.make(self.net, self.net[0].parameters()), self.make(self.net, self.net[5].parameters())]


def test_a_lightning_module_may_step_by_hand():
    net = fit(ByHand(lambda net, own: TorchOptimizer(SGD(0.1, 0.9), net, batches()[0][0], own)))
    assert_close(net, dict(fit(ByHand(lambda _, own: torch.optim.SGD(own, 0.1, 0.9))).named_parameters()))
