"""Races of the gradients chapter."""

import torch
import torch.nn.functional as F

from principia.gradients.backprop import backprop
from principia.lab.racing import race, within
from principia.networks import MLP

PASSES = 10


@race(width=(32, 128, 512), agree=within(1e-5, why="sums over a batch in float32"))
def backpropagation(width):
    """Find the gradients of a network with two hidden layers on a batch of 256, 10 times."""
    rng = torch.Generator().manual_seed(0)
    model = MLP([64, width, width, 10], rng=rng)
    return model, torch.randn(256, 64, generator=rng), torch.randint(10, (256,), generator=rng)


@backpropagation.ours
def _(model, x, y):
    for _ in range(PASSES):
        gradients = backprop(model, x, y)[1]
    return torch.cat([one.flatten() for one in gradients.values()])


@backpropagation.peer(
    "torch.autograd", package="torch",
    slower="Its derivative of a rectifier passes over memory once; ours three times, as sign, "
    "bound and product, since the recursion is stated for any activation.",
)
def _(model, x, y):
    for _ in range(PASSES):
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
    return torch.cat([one.grad.flatten() for one in model.parameters()])
