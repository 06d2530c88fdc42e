"""Races of the convolution chapter: a residual network trained by three loops."""

import logging
import warnings

import torch
import torch.nn.functional as F

from benchmarks.lab import Batches
from principia.convolution import ResNet
from principia.lab.data.digits import digits
from principia.lab.racing import race, within
from principia.lab.training import Supervised, fit

SAME_STEPS = within(
    1e-2, why="the same steps on the same batches; rounding in float32 grows over dozens of them"
)
BATCH = 64


@race(pictures=(256, 512, 1024), agree=SAME_STEPS)
def resnet_training(pictures):
    """Train ResNet-8 on the 8 x 8 digits: 2 epochs, batches of 64, SGD with momentum."""
    x, y, _, _ = digits()
    return x[:pictures, None], y[:pictures]


def network():
    return ResNet(1, channels=1, rng=torch.Generator().manual_seed(0))


def momentum(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def weights(model):
    """Give the weights, without the statistics of the batches."""
    return torch.cat([one.detach().flatten() for one in model.parameters()])


@resnet_training.ours
def _(x, y):
    model = network()
    fit(model, (x, y), Supervised(F.cross_entropy), momentum(model), epochs=2, batch_size=BATCH)
    return weights(model)


@resnet_training.peer(
    "a bare PyTorch loop", package="torch",
    slower="Ours also reads the loss of each step, to stop at the one that diverges, and keeps the "
    "last finite weights and statistics of each epoch.",
)
def _(x, y):
    model = network()
    optimizer, batches = momentum(model), Batches(x, y, BATCH)
    for _ in range(2):
        for inputs, targets in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
    return weights(model)


@resnet_training.peer("Lightning", package="lightning")
def _(x, y):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = network()

        def training_step(self, batch, _):
            inputs, targets = batch
            return F.cross_entropy(self.model(inputs), targets)

        def configure_optimizers(self):
            return momentum(self.model)

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    module = Module()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that our loader has no worker processes is its strength
        trainer = lightning.Trainer(
            max_epochs=2, accelerator="cpu", devices=1, logger=False, barebones=True,
        )
        trainer.fit(module, Batches(x, y, BATCH))
    return weights(module.model)
