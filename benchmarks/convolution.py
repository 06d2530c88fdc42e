"""Races of the convolution chapter: the operation, training of networks, and what they serve."""

import torch
import torch.nn.functional as F

from benchmarks._loops import SAME_STEPS, compare_loops
from principia.convolution import LeNet5, ResNet, WaveNet, generate
from principia.lab.data.digits import digits
from principia.lab.data.mnist import mnist
from principia.lab.racing import race, within
from principia.lab.runs.exporting import onnx_bytes


@race(pictures=(2_000, 10_000), agree=SAME_STEPS)
def lenet_training(pictures):
    """Train LeNet-5 on MNIST: 1 epoch, batches of 64, SGD with momentum."""
    x, y = mnist("train")
    return F.pad(x[:pictures], (2, 2, 2, 2))[:, None], y[:pictures], pictures, 1, 64


@race(pictures=(256, 512, 1024), agree=SAME_STEPS)
def resnet_training(pictures):
    """Train ResNet-8 on the 8 x 8 digits: 2 epochs, batches of 64, SGD with momentum."""
    x, y, _, _ = digits()
    return x[:pictures, None], y[:pictures], pictures, 2, 64


def lenet(x=None, size=None):
    return LeNet5(rng=torch.Generator().manual_seed(0))


compare_loops(lenet_training, lenet)
compare_loops(
    resnet_training, lambda x, size: ResNet(1, channels=1, rng=torch.Generator().manual_seed(0))
)


@race(pictures=(1, 16, 1024), agree=within(1e-4, why="float32, sums in another order"))
def onnx_inference(pictures):
    """Read MNIST with LeNet-5, exported to ONNX and run by its runtime."""
    import onnxruntime

    net, x = lenet().eval(), F.pad(mnist("test")[0][:pictures], (2, 2, 2, 2))[:, None]
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


@race(samples=(32, 128, 512), agree=within(0, why="equal logits and equal draws"))
def wavenet_generation(samples):
    """Speak samples with a WaveNet of 9 layers and 32 channels, from queues."""
    net = WaveNet(layers=9, rng=torch.Generator().manual_seed(0)).double().eval()
    return net, samples


@wavenet_generation.ours
def _(net, samples):
    return generate(net, samples, rng=torch.Generator().manual_seed(1))


@wavenet_generation.peer("the whole past again for each sample", package="torch")
def _(net, samples):
    return generate(net, samples, rng=torch.Generator().manual_seed(1), cache=False)
