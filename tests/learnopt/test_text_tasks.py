"""Language models of characters: their text, and that the stack computes what the network does."""

from dataclasses import dataclass

import pytest
import torch
from torch.func import functional_call
from torch.nn import functional as F

from wsl.learnopt import Adam, advance, start
from wsl.learnopt.tasks import CharacterRnn, CharacterTransformer
from wsl.zoo.language import TextSource

SEEDS = torch.tensor([3, 8, 3])


@dataclass(frozen=True)
class Alphabet(TextSource):
    """Letters in turn: each says which one follows."""

    def load(self):
        return "abcdefgh" * 100


def make(kind):
    if kind == "transformer":
        return CharacterTransformer(Alphabet(), d_model=8, length=9, batch_size=4)
    return CharacterRnn(Alphabet(), hidden=8, embedding=4, gated=kind == "lstm", length=9, batch_size=4)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "transformer"])
def test_the_stack_is_each_network(kind):
    task = make(kind).to(dtype=torch.float64)
    params, batch = task.init(SEEDS), task.batch(SEEDS, torch.tensor([0, 1, 5]))
    values, grads = task.values_and_grads(params, batch)
    for lane in range(3):
        own = {name: value[lane].clone().requires_grad_() for name, value in params.items()}
        logits = functional_call(task.module, own, (batch[0][lane],))
        loss = F.cross_entropy(logits.transpose(1, 2), batch[1][lane])
        torch.testing.assert_close(values[lane], loss.detach())
        for grad, wanted in zip(grads.values(), torch.autograd.grad(loss, list(own.values())), strict=True):
            torch.testing.assert_close(grad[lane], wanted)
    leaves = {name: value.requires_grad_() for name, value in params.items()}  # by another way
    again, grads_again = task.values_and_grads(leaves, batch)
    torch.testing.assert_close(values, again.detach())
    torch.testing.assert_close(grads, {name: grad.detach() for name, grad in grads_again.items()})
    torch.testing.assert_close(task.values(leaves, batch), again)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "transformer"])
def test_unrolled_steps_can_be_differentiated(kind):
    task, rule = make(kind).to(dtype=torch.float64), Adam(0.01)
    loss = advance(task, rule, start(task, rule, SEEDS[:2], 10), 3).losses[-1].sum()
    (found,) = torch.autograd.grad(loss, [rule.log_rate])

    def moved(by):
        other = Adam(0.01)
        with torch.no_grad():
            other.log_rate += by
            return advance(task, other, start(task, other, SEEDS[:2], 10), 3).losses[-1].sum()

    torch.testing.assert_close(found, (moved(1e-4) - moved(-1e-4)) / 2e-4, rtol=1e-5, atol=0)


@pytest.mark.parametrize("kind", ["rnn", "transformer"])
def test_training_lowers_the_loss(kind):
    task, rule = make(kind), Adam(0.03)
    with torch.no_grad():
        losses = advance(task, rule, start(task, rule, SEEDS, 1000), 60).losses
    assert (losses[-1] < 0.5 * losses[0]).all()
    assert "hidden" in str(task.spec)


def test_pieces_are_from_the_split_and_say_what_follows():
    task = make("rnn")
    read, following = task.batch(SEEDS, torch.tensor([0, 1, 5]))
    assert read.shape == following.shape == (3, 4, 9)
    assert torch.equal(following, (read + 1) % 8)
    task.data["test"] = torch.zeros_like(task.data["test"])
    assert not task.batch(SEEDS, SEEDS, "test")[0].any()
    begins = {
        int(piece[0]) for step in range(20) for piece in task.batch(SEEDS, SEEDS * 0 + step)[0].flatten(0, 1)
    }
    assert begins == set(range(8))


def test_sizes_of_the_default_tasks():
    recurrent, transformer = CharacterRnn(), CharacterTransformer()
    assert recurrent.module.rnn.hidden_size == 64
    assert len(transformer.module.blocks) == 2
    assert len(recurrent.vocabulary) > 90
    loss = recurrent.values(recurrent.init(SEEDS), recurrent.batch(SEEDS, SEEDS))
    assert (loss - torch.tensor(float(len(recurrent.vocabulary))).log()).abs().max() < 0.3
