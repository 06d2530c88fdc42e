"""Races of the networks chapter: how the regions of piecewise-linear networks are counted.

Brute force evaluates the network on a grid, and misses every region that is smaller than a cell of
the grid. So that it can take part at all, the networks are those of a seed with no tiny region. Its
grid is the coarsest, in powers of 2, that finds all regions of these networks; for other small ones
in a square it may be coarser still, and then faster than we are.
"""

import itertools

import numpy as np
import torch
from scipy.optimize import linprog

from principia.lab.racing import race, within
from principia.networks import MLP, arrangement_cells, regions_1d, regions_2d

BOX = (-3.0, 3.0, -3.0, 3.0)
COUNT = within(0, why="integers")


def random_network(sizes, seed):
    """Make a ReLU network with He's weights and biases of variance 1, in float64."""
    rng = torch.Generator().manual_seed(seed)
    net = MLP(sizes, rng=rng).double()
    for layer in net.layers:
        torch.nn.init.normal_(layer.weight, 0, (2 / layer.in_features) ** 0.5, generator=rng)
        torch.nn.init.normal_(layer.bias, 0, 1, generator=rng)
    return net


@race(units=(6, 12, 48, 192), agree=within(0, why="patterns are 0 and 1"))
def arrangement(units):
    """List the patterns of all regions of one hidden layer with two inputs."""
    planes = np.random.default_rng(0).normal(size=(units, 3))
    return planes[:, :2].copy(), planes[:, 2].copy()


@arrangement.ours
def _(W, b):
    return arrangement_cells(torch.from_numpy(W), torch.from_numpy(b))


@arrangement.peer(
    "NumPy, around all crossings", package="numpy",
    slower="It takes general position for granted; ours sorts the angles in which planes cross, "
    "whatever their position, and gets a point inside every region, half of its time.",
)
def _(W, b):
    one, two = np.triu_indices(len(W), 1)  # every region has a corner: there two lines cross
    x = np.linalg.solve(W[np.stack([one, two], 1)], -b[np.stack([one, two], 1), None])[..., 0]
    on = x @ W.T + b > 0
    found, rows = [], np.arange(len(one))
    for sides in itertools.product((False, True), repeat=2):
        on[rows, one], on[rows, two] = sides
        found.append(np.packbits(on, axis=1))
    packed = np.concatenate(found)
    distinct = np.unique(packed.view(f"S{packed.shape[1]}"))  # strings are sorted fast
    bits = np.unpackbits(distinct.view(np.uint8).reshape(-1, packed.shape[1]), axis=1, count=len(W))
    return bits.view(bool)


@arrangement.peer("SciPy, a linear program a pattern", package="scipy", up_to=6)
def _(W, b):
    found = []
    for on in itertools.product((False, True), repeat=len(W)):
        sides = np.where(on, -1.0, 1.0)  # sides (Wx + b) <= -t, with the largest t
        A = np.column_stack([sides[:, None] * W, np.ones(len(W))])
        bounds = [(None, None), (None, None), (None, 1)]
        if linprog([0, 0, -1], A_ub=A, b_ub=-sides * b, bounds=bounds).fun < -1e-9:
            found.append(on)
    return np.array(found)


@race(units=(32, 128, 512), agree=COUNT)
def regions_on_a_line(units):
    """Count the linear pieces of two hidden layers on a way through ten dimensions."""
    net = random_network((10, units, units, 1), 2)
    rng = torch.Generator().manual_seed(102)
    ends = 3 * torch.randn(2, 10, generator=rng, dtype=torch.float64)
    return net, *ends, {32: 2**11, 128: 2**13, 512: 2**15}[units]


@regions_on_a_line.ours
def _(net, a, b, points):
    return np.array(len(regions_1d(net, a, b)) - 1)


@regions_on_a_line.peer(
    "torch, patterns of points on the line", package="torch",
    slower="Reading the layers of a module by hooks and many small tensor calls take us as long as "
    "evaluating a net of 64 units at 2,048 points.",
)
@torch.no_grad()
def _(net, a, b, points):
    x = a + torch.linspace(0, 1, points, dtype=torch.float64)[:, None] * (b - a)
    changes = torch.zeros(points - 1, dtype=torch.bool)
    for layer in net.layers[:-1]:
        z = layer(x)
        on = z > 0
        changes |= (on[1:] != on[:-1]).any(dim=1)
        x = z.relu_()
    return np.array(int(changes.sum()) + 1)


@race(units=(4, 8, 16, 32, 64), agree=COUNT)
def regions_in_a_square(units):
    """Count the linear regions of two hidden layers in a square of the plane."""
    return (random_network((2, units, units, 1), 5),)


@regions_in_a_square.ours
def _(net):
    return np.array(len(regions_2d(net, BOX)))


@regions_in_a_square.peer("torch, patterns of a grid of 1024²", package="torch", up_to=16)
@torch.no_grad()
def _(net):
    axis = torch.linspace(*BOX[:2], 1024, dtype=torch.float64)
    x, patterns = torch.cartesian_prod(axis, axis), torch.zeros(1024**2, dtype=torch.int64)
    for layer in net.layers[:-1]:
        z = layer(x)
        bits = 2.0 ** torch.arange(z.shape[1], dtype=torch.float64)
        patterns = (patterns << z.shape[1]) + ((z > 0).double() @ bits).long()
        x = z.relu_()
    return np.array(len(np.unique(patterns.numpy())))


@regions_in_a_square.peer("SciPy, a linear program a side of a unit", package="scipy", up_to=4)
def _(net):
    # every region so far, by its inequalities and its affine map, is tried on both sides of a unit
    regions = [(np.empty((0, 2)), np.empty(0), np.eye(2), np.zeros(2))]
    for layer in net.layers[:-1]:
        weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
        regions = [
            (A, b, slopes[:, None] * (weight @ F), slopes * (weight @ f + bias))
            for A0, b0, F, f in regions
            for A, b, slopes in sides_of_units(A0, b0, weight @ F, weight @ f + bias)
        ]
    return np.array(len(regions))


def sides_of_units(A, b, F, f):
    """Split the region Ax <= b by the lines Fx + f = 0, one after the other."""
    parts = [(A, b, np.empty(0))]
    for slope, offset in zip(F, f, strict=True):
        parts = [
            one for A, b, on in parts for side in (0.0, 1.0)
            if has_inside(*(one := (
                np.vstack([A, (1 - 2 * side) * slope]), np.append(b, (2 * side - 1) * offset),
                np.append(on, side),
            ))[:2])
        ]
    return parts


def has_inside(A, b):
    """Ask whether a ball fits into Ax <= b and the square."""
    lengths = np.linalg.norm(A, axis=1)
    sides = np.array([[1.0, 0, 1], [-1, 0, 1], [0, 1, 1], [0, -1, 1]])
    A = np.vstack([np.column_stack([A, lengths]), sides])
    b = np.append(b, 3 * np.ones(4))
    bounds = [(None, None), (None, None), (None, 1)]
    return linprog([0, 0, -1], A_ub=A, b_ub=b, bounds=bounds).fun < -1e-9
