import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import nn

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.networks.activations import AVU
from principia.networks.mlp import MLP
from principia.networks.regions import (
    activation_pattern,
    arrangement_cells,
    count_patterns,
    folding_network,
    montufar_bound,
    regions_1d,
    regions_2d,
    zaslavsky,
)

KEY = "networks/regions"
BOX = (-2.0, 3.0, -2.0, 2.0)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def network(*sizes, seed=0, **options):
    return MLP(sizes, rng=generator(seed), **options).double()


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("for i in range(min(m, n) + 1)", "for i in range(min(m, n))", "zaslavsky"),
        ("** (n * (L - 1))", "** (n * L)", "montufar"),
        ("-gain * j, (-1) ** j", "-gain * j, (-1) ** (j + 1)", "montufar"),
        ("np.packbits((z > 0)", "np.packbits((z < 0)", "affine_on_cells"),
        ("x), dim=1).unique(dim=0)", "x), dim=1)", "affine_on_cells"),
        ("left / (left - right)", "left / (left + right)", "montufar"),
        ("fresh & (side * z >= 0)", "fresh & (z >= 0)", "zaslavsky"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("- W.sum(dim=1) / 2", "- W.sum(dim=1)", "lower_not_upper",
         ["three units have 4^L, no constant times 3^L"]),
        ("signs[signs[:, -1] > 0, :-1]", "signs[:, :-1]", "general_position",
         ["two parallel", "concurrent", "all through 0", "fewer"]),
        ("z.abs() > TOUCHING * terms", "z.abs() > 0 * terms", "montufar", ["smallest area"]),
        ("z.where(z > 0, bend * z)", "z.where(z > 0, z)", "affine_at_infinity",
         ["beyond the last corner"]),
        (".where(pattern[:, known:], bend)", ".where(~pattern[:, known:], bend)",
         "affine_on_cells", ["layers are affine on polygons"]),
        ("& (side * z >= 0)", "& (side * z > 0)", "general_position", ["polygons fill the box"]),
        ("z.abs() > TOUCHING * terms", "z.abs() > 0 * terms", "general_position", ["polygons"]),
        ("return torch.from_numpy(signs[", "return ~torch.from_numpy(signs[", "general_position",
         ["polygons or cells"]),
        ("frame.abs() @ reach", "frame @ reach", "montufar", ["smallest area"]),
        ("(x * v - u * y)", "(x * v - u)", "montufar", ["the polygons fill the box"]),
        ("np.packbits((z > 0)", "np.packbits((z > 1)", "affine_on_cells",
         ["patterns of the polygons", "pieces of a line, one pattern"]),
        ("earlier[1], earlier[2])", "earlier[1], 0.5)", "affine_on_cells",
         ["pieces of a line, affine"]),
        ("t = torch.cat([t, t[cuts]", "t = torch.cat([1.1 * t, t[cuts]", "affine_on_cells",
         ["pieces of a line, ends"]),
        ("(z[1:] * z[:-1] < 0)", "(z[1:] * z[:-1] < 99)", "affine_on_cells",
         ["pieces of a line, another one behind a corner"]),
        ("** (n * (L - 1))", "** (n * (L - 2))", "montufar", ["montufar_bound"]),
        ("-gain * j, (-1) ** j", "-gain * j, (-1) ** (j + 1)", "montufar", ["zigzag"]),
        ("(x * v - u * y)", "(x * v + u * y)", "affine_on_cells", ["the polygons fill the box"]),
        ("-gain * j", "-gain", "depth_vs_width", ["growth a layer"]),
        ("np.packbits((z > 0)", "np.packbits((z >= 0)", "affine_on_cells",
         ["on a hyperplane a unit is off"]),
        (".abs() >", ".abs() <=", "depth_vs_width", ["one layer"]),
        ("torch.zeros_like(split)", "torch.ones_like(split)", "affine_on_cells",
         ["one polygon a pattern"]),
        ("            hook.remove()", "            pass", "affine_on_cells",
         ["the network is left as it was"]),
        ("torch.linspace(-1, 1, m)", "torch.linspace(-1, 0, m)", "montufar",
         ["crossings on a line"]),
        (" -1] > 0", " -1] > 1", "shallow_growth", ["up to m = n", "at m = n + 1"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_zaslavsky_obeys_deletion_and_restriction():
    for m, n in itertools.product(range(2, 12), range(2, 8)):
        assert zaslavsky(m, n) == zaslavsky(m - 1, n) + zaslavsky(m - 1, n - 1)


@pytest.mark.parametrize("special", ["generic", "parallel", "concurrent", "constant"])
def test_cells_are_the_patterns_that_a_linear_program_finds_feasible(special):
    planes = torch.randn(6, 4, generator=generator(), dtype=torch.float64)
    W, b = planes[:, :3], planes[:, 3]
    if special == "parallel":
        W[:3] = W[0]
    elif special == "concurrent":
        b[:] = 0
    elif special == "constant":
        W[2] = 0
    feasible = set()
    for pattern in itertools.product((False, True), repeat=6):
        sign = np.where(pattern, -1.0, 1.0)  # A x <= -1 after scaling: homogeneous in (x, scale)
        A = sign[:, None] * np.column_stack([W, b])
        A = np.vstack([A, [0, 0, 0, -1]])
        found = linprog(np.zeros(4), A, -np.ones(7), bounds=(None, None))
        if found.status == 0:
            feasible.add(pattern)
    cells = {tuple(row) for row in arrangement_cells(W, b).tolist()}
    assert cells == feasible
    assert len(cells) <= zaslavsky(6, 3)


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "avu"])
def test_polygons_are_what_autograd_and_samples_see(activation):
    net = network(2, 9, 7, 5, 3, activation=activation, seed=3)
    found = regions_2d(net, BOX)
    assert float(found.areas.min()) > 0
    inside = found.centers
    jacobians = torch.func.vmap(torch.func.jacrev(net))(inside)
    torch.testing.assert_close(found.weight, jacobians)
    torch.testing.assert_close(net(inside), (jacobians @ inside[..., None])[..., 0] + found.bias)
    left, right, bottom, top = BOX
    x = torch.rand(50_000, 2, generator=generator(), dtype=torch.float64)
    x = x * torch.tensor([right - left, top - bottom]) + torch.tensor([left, bottom])
    assert count_patterns(net, x) <= len(found)
    packed = torch.cat(activation_pattern(net, torch.cat([inside, x])), dim=1)
    _, groups, counts = packed.unique(dim=0, return_inverse=True, return_counts=True)
    assert len(counts) == len(found)  # no sample has a pattern that no polygon has
    share = (counts[groups[: len(found)]] - 1) / len(x)  # Monte Carlo of the areas
    exact = found.areas / found.areas.sum()
    assert bool(((share - exact).abs() <= 5 * (exact / len(x)).sqrt() + 5 / len(x)).all())


def test_a_plane_of_a_larger_space():
    net, points = network(5, 8, 8, 4), torch.randn(3, 5, generator=generator(1)).double()
    found = regions_2d(net, (-1, 2, -1, 2), plane=points)
    x = points[0] + found.centers @ (points[1:] - points[0])
    maps = (found.weight @ found.centers[..., None])[..., 0] + found.bias
    torch.testing.assert_close(net(x), maps)
    bits = np.unpackbits(torch.cat(activation_pattern(net, x), dim=1).numpy(), axis=1)
    np.testing.assert_array_equal(bits, found.pattern.numpy())
    # the edge from p to q is the way from s = 0 to s = 1
    corners = regions_1d(net, points[0], points[1])
    middles = (corners[1:] + corners[:-1]) / 2
    assert count_patterns(net, middles) == len(middles)
    below = regions_2d(net, (0, 1, -1e-7, 1e-7), plane=points)
    assert len(below) == len(middles)


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "avu"])
def test_pieces_on_a_line_are_the_kinks_of_the_function(activation):
    net = network(1, 10, 10, 2, activation=activation, seed=1)
    corners = regions_1d(net, -3, 3)[:, 0]
    assert corners[0] == -3
    assert corners[-1] == 3
    x = torch.linspace(-3, 3, 200_001, dtype=torch.float64)[:, None]
    bends = (net(x).diff(n=2, dim=0).abs() > 1e-9).any(dim=1).nonzero()[:, 0] + 1
    gap = (x[bends, 0][:, None] - corners).abs().amin(dim=1)
    assert float(gap.max()) < 4e-5  # every kink of the function is a corner
    assert count_patterns(net, x) <= len(corners) - 1


def test_float_networks_sequences_and_two_linear_layers_in_a_row():
    parts = network(2, 6, 6, 1, seed=4)
    first, second, last = parts.layers
    net = nn.Sequential(first, nn.ReLU(), nn.Linear(6, 6, bias=False).double(), nn.Identity(),
                        second, nn.ReLU(), last, nn.ReLU())
    found = regions_2d(net, BOX)
    torch.testing.assert_close(
        net(found.centers), (found.weight @ found.centers[..., None])[..., 0] + found.bias
    )
    assert found.pattern.shape[1] == 13
    single = network(2, 6, 6, 1, seed=4).float()
    assert len(regions_2d(single, BOX)) == len(regions_2d(parts, BOX))
    bare = nn.Sequential(AVU(), nn.Linear(2, 1), AVU()).double()
    assert len(regions_2d(bare, (-1, 1, -1, 1))) >= 4  # |x| and |y| come first


@pytest.mark.parametrize(("n", "m", "L"), [(2, 4, 3), (2, 5, 2), (2, 7, 2), (2, 2, 4)])
def test_folding_networks_have_the_regions_that_montufar_promises(n, m, L):
    assert len(regions_2d(folding_network(n, m, L), (-1, 2, -1, 2))) >= montufar_bound(n, m, L)


def test_three_dimensional_folds_by_sampling():
    x = torch.rand(100_000, 3, generator=generator(), dtype=torch.float64)
    net = folding_network(3, 6, 2)
    assert count_patterns(net, x) >= 0.8 * montufar_bound(3, 6, 2)  # small cells are missed


def test_convolutions_have_patterns():
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 2), AVU())
    patterns = activation_pattern(net, torch.randn(5, 1, 8, 8, generator=generator()))
    assert [tuple(one.shape) for one in patterns] == [(5, 14), (5, 1)]
    assert not any(one._forward_hooks for one in net.modules())  # who looks leaves nothing behind


def test_slopes_are_those_of_float64():
    net = nn.Sequential(nn.Linear(2, 3), nn.LeakyReLU(0.3), nn.Linear(3, 1)).double()
    found = regions_2d(net)
    maps = (found.weight @ found.centers[..., None])[..., 0] + found.bias
    torch.testing.assert_close(net(found.centers), maps, rtol=1e-13, atol=1e-13)


def test_picture_has_one_slider_step_a_depth():
    found = [regions_2d(network(2, 6, *[6] * k, 2), BOX) for k in range(3)]
    figure = page(KEY).load("experiments")._partition_figure(found)
    steps = figure.layout.sliders[0].steps
    assert [step.label for step in steps] == [f"{k}: {len(one)} regions"
                                              for k, one in enumerate(found, start=1)]
    shown = np.array([step.args[0]["visible"] for step in steps])
    assert (shown.sum(axis=0) == 1).all()  # each trace belongs to one depth


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.phi = nn.Linear(1, 2), nn.ReLU()

    def forward(self, x):
        return self.phi(self.layer(x) + 1)


def test_bad_input_is_told_in_one_sentence():
    smooth, net = network(2, 4, 1, activation="tanh"), network(2, 4, 4, 1)
    built = "net must be of linear layers and ReLU, leaky ReLU or AVU modules; got 'Tanh'. Other"
    for owner, call in {
        "activation_pattern": lambda: activation_pattern(smooth, torch.zeros(1, 2).double()),
        "regions_2d": lambda: regions_2d(smooth),
        "regions_1d": lambda: regions_1d(smooth, torch.zeros(2), torch.ones(2)),
    }.items():
        with pytest.raises(UsageError, match=f"{owner}: {built}"):
            call()
    with pytest.raises(UsageError, match=r"net must be .* got 'no such activation'"):
        count_patterns(network(2, 4, 1, activation="identity"), torch.zeros(1, 2).double())
    with pytest.raises(UsageError, match="regions_1d: net must be a chain of linear layers"):
        regions_1d(Shifted(), 0, 1)
    with pytest.raises(UsageError, match="x must have width 2 at layer 1; got width 1"):
        regions_1d(net, 0, 1)
    with pytest.raises(UsageError, match="regions_1d: a and b must be finite points"):
        regions_1d(net, torch.zeros(2), torch.full((2,), torch.inf))
    with pytest.raises(UsageError, match="regions_2d: box must be left < right and bottom < top"):
        regions_2d(net, (1, 0, 0, 1))
    with pytest.raises(UsageError, match="regions_2d: net must be of at most 3 regions; got"):
        regions_2d(net, most=3)
    with pytest.raises(UsageError, match="regions_1d: net must be of at most 9 regions; got"):
        regions_1d(folding_network(1, 4, 3), 0, 1, most=9)
    many = torch.ones(200, 4)
    with pytest.raises(UsageError, match=r"W must be of at most 1000000 cells expected; got "
                                         r"'200 hyperplanes in 4 dimensions: 66018451 cells'"):
        arrangement_cells(many, many[:, 0])
    with pytest.raises(UsageError, match="W, b must be finite, with no row of zeros"):
        arrangement_cells(torch.zeros(2, 2), torch.zeros(2))
    for fold in (folding_network, montufar_bound):
        with pytest.raises(UsageError, match=f"{fold.__name__}: m must be at least n = 3; got 2"):
            fold(3, 2, 2)
