"""Small networks with a loss each, for tests of learned optimizers."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

import wsl
from wsl.learnopt import Optimizer, Tensors
from wsl.spec import WeightSpec


class Recurrent(nn.Module):
    """An Elman network that reads a number a step, and says two at the end."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.cells = nn.RNN(1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(x)[0][:, -1])


def mlp(hidden: int = 5) -> tuple[nn.Module, Tensor]:
    layers = [nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, 4), nn.Tanh(), nn.Linear(4, 2)]
    return nn.Sequential(*layers), torch.zeros(1, 3)


def cnn(hidden: int = 3) -> tuple[nn.Module, Tensor]:
    head = [nn.Flatten(), nn.Linear(4 * 2 * 2, 2)]
    layers = [nn.Conv2d(1, hidden, 3), nn.Tanh(), nn.Conv2d(hidden, 4, (1, 3)), nn.Tanh(), nn.AvgPool2d(2)]
    return nn.Sequential(*layers, *head), torch.zeros(1, 1, 6, 8)


def rnn(hidden: int = 4) -> tuple[nn.Module, Tensor]:
    return Recurrent(hidden), torch.zeros(1, 5, 1)


NETWORKS: dict[str, Callable[..., tuple[nn.Module, Tensor]]] = {"mlp": mlp, "cnn": cnn, "rnn": rnn}


class Problem:
    """A network with fixed data in float64, one problem a lane; the specification of its weights."""

    def __init__(self, name: str, lanes: int = 2, hidden: int | None = None) -> None:
        self.module, example = NETWORKS[name](*([] if hidden is None else [hidden]))
        self.spec: WeightSpec = wsl.trace(self.module, (example,))
        self.module.double()
        generator = torch.Generator().manual_seed(0)
        drawn = {"generator": generator, "dtype": torch.float64}
        self.inputs = torch.randn(lanes, 7, *example.shape[1:], **drawn)
        self.targets = torch.randn(lanes, 7, 2, **drawn)
        self.params: Tensors = {
            key: torch.randn(lanes, *tensor.shape, **drawn) / 2 for key, tensor in self.spec.tensors.items()
        }
        self.lanes = lanes

    def gradients(self, params: Tensors) -> tuple[Tensors, Tensor]:
        """Gradients and losses of all lanes."""

        def loss(own: Tensors, inputs: Tensor, targets: Tensor) -> Tensor:
            return (functional_call(self.module, own, (inputs,)) - targets).square().mean()

        grads, losses = vmap(grad_and_value(loss))(params, self.inputs, self.targets)
        return grads, losses

    def train(self, optimizer: Optimizer, params: Tensors, steps: int) -> list[Tensors]:
        """The parameters after every step."""
        state, found = optimizer.init(params), []
        for step in range(steps):
            grads, losses = self.gradients(params)
            at = torch.full((self.lanes,), step)
            params, state = optimizer.update(grads, state, params, at, losses)
            found.append(params)
        return found


def randomise(optimizer: Optimizer, seed: int = 0) -> None:
    """Move all parameters of an optimizer, so that nothing is zero or small by its start."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in optimizer.named_parameters():
            if name.startswith("network"):
                value += 0.3 * torch.randn(value.shape, generator=generator, dtype=value.dtype)
