"""Races of the convolution chapter: layers that torch lacks."""

import torch
from torch import nn

from principia.convolution import LocallyConnected2d
from principia.lab.racing import race, within

PICTURES, INPUTS, OUTPUTS, KERNEL = 64, 16, 32, 3
SUMS = within(1e-4, why="float32 sums of 144 products in another order")


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
