"""Races of the training loop and of backpropagation by hand: `python -m benchmarks training`."""

import functools

import torch
import torch.nn.functional as F

from benchmarks.race import Race
from principia.gradients.backprop import backprop
from principia.lab.data.digits import digits
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit
from principia.networks import MLP

torch.set_num_threads(1)

EPOCHS, BATCH = 20, 64
x, y, _, _ = digits()
x = x.flatten(1)


def network() -> MLP:
    return MLP([64, 128, 10], rng=torch.Generator().manual_seed(0))


def ours():
    model = network()
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(model, (x, y), Supervised(F.cross_entropy), adam, epochs=EPOCHS, batch_size=BATCH)
    return model


def bare_loop():
    """The same batches by the shortest loop that one would write."""
    model = network()
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        rng = Seed(0).child(f"epoch {epoch}").torch()
        for rows in torch.randperm(len(x), generator=rng).split(BATCH):
            adam.zero_grad()
            F.cross_entropy(model(x[rows]), y[rows]).backward()
            adam.step()
    return model


loop = Race(
    f"fit, MLP 64-128-10 on digits, batch {BATCH}, {EPOCHS} epochs / a bare loop of PyTorch",
    ours,
    bare_loop,
    lambda one, other: all(map(torch.equal, one.parameters(), other.parameters())),
)

deep = MLP([64, 256, 256, 10], rng=torch.Generator().manual_seed(0))
batch, labels = x[:256], y[:256]


def by_hand():
    for _ in range(50):
        grads = backprop(deep, batch, labels, F.cross_entropy)[1]
    return list(grads.values())


def by_autograd():
    for _ in range(50):
        deep.zero_grad()
        F.cross_entropy(deep(batch), labels).backward()
    return [one.grad for one in deep.parameters()]


recursion = Race(
    "backprop by hand, MLP 64-256-256-10, batch 256 / autograd",
    by_hand,
    by_autograd,
    lambda ours, theirs: all(map(functools.partial(torch.allclose, atol=1e-6), ours, theirs)),
)
