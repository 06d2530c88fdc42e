"""Races of the convolution chapter: the operation, training of networks, and what they serve."""

import scipy.signal
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks._loops import SAME_STEPS, compare_loops
from principia.convolution import LeNet5, LocallyConnected2d, ResNet, WaveNet, generate
from principia.convolution.convolve import convolve as convolved
from principia.lab.data.digits import digits
from principia.lab.data.mnist import mnist
from principia.lab.racing import race, within
from principia.lab.runs.exporting import onnx_bytes

TAPS = 500
PICTURES, INPUTS, OUTPUTS, KERNEL = 64, 16, 32, 3
SUMS = within(1e-4, why="float32 sums of 144 products in another order")


@race(
    samples=(1_000, 10_000, 100_000, 1_000_000),
    agree=within(1e-4, why="sums of 500 products in float32"),
)
def convolve(samples):
    """Convolve a signal in float32 with a kernel of 500 places."""
    rng = torch.Generator().manual_seed(0)
    return torch.randn(samples, generator=rng), torch.randn(TAPS, generator=rng)


convolve.ours(convolved)


@convolve.peer("scipy.signal.oaconvolve", package="scipy")
def _(f, h):
    return scipy.signal.oaconvolve(f.numpy(), h.numpy())


@convolve.peer(
    "scipy.signal.fftconvolve", package="scipy",
    slower="On 1,000 samples the product takes less than the questions that ours asks first: which "
    "axes, which types, which method.",
)
def _(f, h):
    return scipy.signal.fftconvolve(f.numpy(), h.numpy())


@convolve.peer("torch.nn.functional.conv1d", package="torch", up_to=100_000)
def _(f, h):
    return F.conv1d(f.view(1, 1, -1), h.flip(0).view(1, 1, -1), padding=len(h) - 1).flatten()


@race(side=(8, 16, 32), agree=SUMS)
def locally_connected(side):
    """Compute a locally connected layer of 32 maps on 64 pictures of 16 channels."""
    rng = torch.Generator().manual_seed(0)
    conv = nn.utils.skip_init(nn.Conv2d, INPUTS, OUTPUTS, KERNEL)
    for one in conv.parameters():
        one.data = torch.randn(one.shape, generator=rng) / 12
    # the same weights at all places, which nobody but the convolution makes use of
    local = LocallyConnected2d.from_convolution(conv, side)
    return torch.randn(PICTURES, INPUTS, side, side, generator=rng), local, conv


@locally_connected.ours
@torch.no_grad()
def _(x, local, conv):
    return local(x)


@locally_connected.peer("a loop over positions", package="torch")
@torch.no_grad()
def _(x, local, conv):
    rows, columns = local.weight.shape[:2]
    weight, bias = local.weight.flatten(3), local.bias
    y = x.new_empty(len(x), OUTPUTS, rows, columns)
    for i in range(rows):
        for j in range(columns):
            window = x[:, :, i : i + KERNEL, j : j + KERNEL].flatten(1)
            y[:, :, i, j] = torch.addmm(bias[i, j], window, weight[i, j].T)
    return y


@locally_connected.peer(
    "torch.nn.Conv2d, all places alike", package="torch",
    slower="It shares its weights and need not copy the windows: the floor, not the same layer.",
)
@torch.no_grad()
def _(x, local, conv):
    return conv(x)


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
