"""A noisy quadratic with the gradient of its meta-loss in closed form, for the tests of estimators."""

import torch
from torch import nn

from wsl.learnopt._random import key_of, normals
from wsl.learnopt.tasks import Task

CURVATURES = torch.tensor([0.2, 1.0, 3.0], dtype=torch.float64)


class NoisyQuadratic(Task):
    """``1/2 sum_i h_i w_i^2 + noise . w`` from ``w`` about ``start``, with noise of each step's own."""

    def __init__(self, noise=0.5, start=1.0, spread=0.3):
        super().__init__(nn.Linear(len(CURVATURES), 1, bias=False).double(), (torch.zeros(2, 3).double(),))
        self.noise, self.mean, self.spread = noise, start, spread

    def init(self, seeds):
        return {"weight": self.mean + self.spread * normals(key_of(seeds, 0), (1, 3), torch.float64)}

    def batch(self, seeds, step, split="train"):
        return self.noise * normals(key_of(seeds, 1, step), (3,), torch.float64)

    def loss(self, params, batch):
        weight = params["weight"][0]
        return (0.5 * CURVATURES * weight**2 + batch * weight).sum()

    def exact(self, log_rate, horizon):
        """The expected meta-loss of gradient descent over a horizon, and its derivative by ``log_rate``.

        The squares follow ``E w^2 <- (1 - a h)^2 E w^2 + a^2 noise^2``.
        """
        log_rate = torch.tensor(log_rate, dtype=torch.float64, requires_grad=True)
        rate = log_rate.exp()
        squares = torch.full_like(CURVATURES, self.mean**2 + self.spread**2)
        total = torch.zeros((), dtype=torch.float64)
        for _ in range(horizon):
            total = total + (0.5 * CURVATURES * squares).sum()
            squares = (1 - rate * CURVATURES) ** 2 * squares + (rate * self.noise) ** 2
        (slope,) = torch.autograd.grad(total / horizon, log_rate)
        return float(total.detach() / horizon), float(slope)
