"""Steps that write into memory or alias it, loop over tokens, or run recurrent operators and autograd."""

import torch
from torch import Tensor

from programs.program import Program, Steps, even


def written(p: Program, a: Tensor, b: Tensor) -> Tensor:
    y = a.new_zeros(*a.shape[:2], a.shape[-1] + 2)
    y[..., 1:-1] = a
    y[:, 0].add_(1.0)
    y[..., 0] = a[..., -1]
    return y


def written_view(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """A view is written; the whole is read."""
    y = a.clone(memory_format=torch.contiguous_format)
    y.transpose(1, 2)[:, :2].mul_(2.0)
    y.view(-1)[::3].zero_()
    return y + a


def written_heads(p: Program, a: Tensor, b: Tensor) -> Tensor:
    y = torch.empty_like(a)
    heads = y.unflatten(-1, (2, -1))
    heads[:, :, 0] = torch.tanh(a.chunk(2, -1)[0])
    heads[:, :, 1].copy_(b.chunk(2, -1)[1])
    return y


def aliased(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """Two names of one memory; the second is written after the first was read."""
    first = a * 1.0
    second = first.view(first.shape)
    read = torch.tanh(first)
    second[..., : a.shape[-1] // 2].add_(b[..., : a.shape[-1] // 2])
    return first + read


def in_place(p: Program, a: Tensor, b: Tensor) -> Tensor:
    return torch.zeros_like(a).copy_(a).mul_(b).add_(1.0).tanh_()


def masked_write(p: Program, a: Tensor, b: Tensor) -> Tensor:
    y = a.clone()
    y[b > 0] = 0.5
    y[..., 0] += 1.0
    return y


def put(p: Program, a: Tensor, b: Tensor) -> Tensor:
    y = a.clone()
    y[:, torch.tensor([0, 2])] = b[:, 1:3]
    y.index_add_(1, torch.tensor([1, 1]), b[:, :2])
    return y


def destination(p: Program, a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty_like(a)
    torch.mul(a, b, out=out)
    return out


def scan(p: Program, a: Tensor, b: Tensor) -> Tensor:
    state, weight = a.new_zeros(a.shape[0], a.shape[-1]), p.weight(a.shape[-1], a.shape[-1])
    states = []
    for token in a.unbind(1):
        state = torch.tanh(token + state @ weight.t())
        states.append(state)
    return torch.stack(states, 1)


def cell(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """A cell of one of three kinds, over all tokens; the states are written into a tensor."""
    channels, kind = a.shape[-1], p.draw.randrange(3)
    gates = (4, 3, 1)[kind]
    parameters = [
        p.weight(gates * 5, channels),
        p.weight(gates * 5, 5),
        p.weight(gates * 5),
        p.weight(gates * 5),
    ]
    state = memory = a.new_zeros(a.shape[0], 5)
    states = a.new_empty(*a.shape[:2], 5)
    for t in range(a.shape[1]):
        if kind == 0:
            state, memory = torch.lstm_cell(a[:, t], (state, memory), *parameters)
        else:
            state = (torch.gru_cell if kind == 1 else torch.rnn_tanh_cell)(a[:, t], state, *parameters)
        states[:, t] = state
    return states


def recurrent(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """Two layers of a GRU or an RNN in one operator."""
    kind = p.draw.randrange(2)
    gates, sizes = (3, 1)[kind], (a.shape[-1], 4)
    parameters = [
        p.weight(*shape)
        for size in sizes
        for shape in ((gates * 4, size), (gates * 4, 4), (gates * 4,), (gates * 4,))
    ]
    start = a.new_zeros(2, a.shape[0], 4)
    call = (torch.gru, torch.rnn_relu)[kind]
    return call(a, start, parameters, True, 2, 0.0, False, False, True)[0]


def gradient(p: Program, a: Tensor, b: Tensor) -> Tensor:
    """What autograd says of a small network inside."""
    with torch.enable_grad():
        x = a.detach().requires_grad_()
        energy = torch.tanh(x @ p.weight(a.shape[-1], 4)).square().sum() + (x.softmax(-1) * b).sum()
        (found,) = torch.autograd.grad(energy, x)
    return found


def mapped(p: Program, a: Tensor, b: Tensor) -> Tensor:
    return torch.vmap(lambda x, y: torch.outer(x.sum(0), y.sum(0)) @ x.mean(0) + x)(a, b)


STEPS: Steps = {
    "written": written,
    "written_view": written_view,
    "written_heads": even(written_heads),
    "aliased": aliased,
    "in_place": in_place,
    "masked_write": masked_write,
    "put": put,
    "destination": destination,
    "scan": scan,
    "cell": cell,
    "recurrent": recurrent,
    "gradient": gradient,
    "mapped": mapped,
}
