"""What races of training loops share: the batches, the optimizer, and three loops.

Each trains a network that it is given, with the same steps on the same batches, and returns its
weights; the statistics of batch normalization are left out.
"""

import logging
import warnings

import torch
import torch.nn.functional as F

from principia.lab.racing import within
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit

SLOWER = (
    "Ours also reads the loss of each step, to stop at the one that diverges, and keeps the last "
    "finite weights of each epoch, which tells most where steps are short."
)
SAME_STEPS = within(
    1e-2, why="the same steps on the same batches; rounding in float32 grows over hundreds of them"
)


class Batches:
    """The batches that fit takes, in its order: an expert's loader for tensors in memory."""

    def __init__(self, x, y, batch_size):
        self.x, self.y, self.batch_size, self.epoch = x, y, batch_size, 0

    def __len__(self):
        return -(-len(self.x) // self.batch_size)

    def __iter__(self):
        rng = Seed(0).child(f"epoch {self.epoch}").torch()
        self.epoch += 1
        for rows in torch.randperm(len(self.x), generator=rng).split(self.batch_size):
            yield self.x.index_select(0, rows), self.y.index_select(0, rows)


def momentum(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def weights(model):
    return torch.cat([one.detach().flatten() for one in model.parameters()])


def by_fit(model, x, y, epochs, batch_size):
    fit(model, (x, y), Supervised(F.cross_entropy), momentum(model), epochs=epochs,
        batch_size=batch_size)
    return weights(model)


def by_bare_loop(model, x, y, epochs, batch_size):
    optimizer, batches = momentum(model), Batches(x, y, batch_size)
    for _ in range(epochs):
        for inputs, targets in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
    return weights(model)


def by_lightning(model, x, y, epochs, batch_size):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

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
            max_epochs=epochs, accelerator="cpu", devices=1, logger=False, barebones=True,
        )
        trainer.fit(module, Batches(x, y, batch_size))
    return weights(module.model)


def compare_loops(loop, network):
    """Let a race of the training loop have its sides; its problem is (x, y, size, epochs, batch).

    Args:
        loop: The race.
        network: Makes the network of (x, size).
    """
    def side(train):
        return lambda x, y, size, epochs, batch_size: train(
            network(x, size), x, y, epochs, batch_size
        )

    loop.ours(side(by_fit))
    loop.peer("a bare PyTorch loop", package="torch", slower=SLOWER)(side(by_bare_loop))
    loop.peer("Lightning", package="lightning")(side(by_lightning))
