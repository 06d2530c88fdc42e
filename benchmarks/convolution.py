"""Races of the convolution chapter: LeNet in training, and once it is exported."""

import logging
import warnings

import torch
import torch.nn.functional as F

from benchmarks.lab import SAME_STEPS, Batches, momentum, weights
from principia.convolution.lenet import LeNet5
from principia.lab.data.mnist import mnist
from principia.lab.racing import race, within
from principia.lab.runs.exporting import onnx_bytes
from principia.lab.training import Supervised, fit


def network():
    return LeNet5(rng=torch.Generator().manual_seed(0))


@race(pictures=(2_000, 10_000), agree=SAME_STEPS)
def lenet_training(pictures):
    """Train LeNet-5 on MNIST: 1 epoch, batches of 64, SGD with momentum."""
    x, y = mnist("train")
    return F.pad(x[:pictures], (2, 2, 2, 2))[:, None], y[:pictures], 64


@lenet_training.ours
def _(x, y, batch_size):
    model = network()
    fit(model, (x, y), Supervised(F.cross_entropy), momentum(model), epochs=1,
        batch_size=batch_size)
    return weights(model)


@lenet_training.peer(
    "a bare PyTorch loop", package="torch",
    slower="Ours also reads the loss of each step, to stop at the one that diverges.",
)
def _(x, y, batch_size):
    model = network()
    optimizer = momentum(model)
    for inputs, targets in Batches(x, y, batch_size):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    return weights(model)


@lenet_training.peer("Lightning", package="lightning")
def _(x, y, batch_size):
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
            max_epochs=1, accelerator="cpu", devices=1, logger=False, barebones=True,
        )
        trainer.fit(module, Batches(x, y, batch_size))
    return weights(module.model)


@race(pictures=(1, 16, 1024), agree=within(1e-4, why="float32, sums in another order"))
def onnx_inference(pictures):
    """Read MNIST with LeNet-5, exported to ONNX and run by its runtime."""
    import onnxruntime

    net, x = network().eval(), F.pad(mnist("test")[0][:pictures], (2, 2, 2, 2))[:, None]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    exported = onnx_bytes(net, x[:1])
    session = onnxruntime.InferenceSession(exported, options, providers=["CPUExecutionProvider"])
    return session, net, x


@onnx_inference.ours
def _(session, net, x):
    return session.run(None, {"x": x.numpy()})[0]


@onnx_inference.peer("torch, eager", package="torch")
@torch.inference_mode()
def _(session, net, x):
    return net(x)
