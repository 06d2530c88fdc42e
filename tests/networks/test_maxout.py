import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import nn

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.runs.models import load_model, save_model
from principia.networks.maxout import (
    KHinge,
    Maxout,
    MaxoutMLP,
    avu_max,
    difference_of_maxes,
    half_spaces,
    hinge_decomposition,
    mirror,
    point_reflection,
)
from principia.networks.mlp import MLP

KEY = "networks/maxout"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def signed_sum(values, terms):
    return sum(sign * values[:, rows].amax(dim=1) for sign, rows in terms)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("unflatten(-1, (-1, self.pieces)).amax(dim=-1)",
         "unflatten(-1, (self.pieces, -1)).amax(dim=-2)", "maxout_universal"),
        ("hull.equations[:, -2] > 1e-10", "hull.equations[:, -2] < -1e-10", "hinge_decomposition"),
        ("(pair if weight > 0 else pair[::-1])", "pair", "difference_of_maxes"),
        ("plus[0, -1] = bias", "plus[0, -1] = -bias", "difference_of_maxes"),
        ("(_pruned(np.vstack([plus, minus])), minus)", "(plus, minus)", "difference_of_maxes"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("F.linear(x, self.w, self.b).amax", "F.linear(x, self.w).amax", "two_max_identity",
         ["a piece 0 makes a ReLU"]),
        ("F.linear(x, self.w, self.b).argmax", "F.linear(x, self.w).argmax", "hinge_is_convex",
         ["gradient is the slope of the largest piece"]),
        ("x = self.dropout(layer(x))", "x = self.dropout(layer(x)).relu() + 1", "two_max_identity",
         ["a network of such units is the ReLU network", "dropout", "as drawn, formula"]),
        (".unflatten(-1, (-1, self.pieces)).amax(dim=-1)",
         ".unflatten(-1, (self.pieces, -1)).amax(dim=-2)", "two_max_identity",
         ["a layer of them, of blocks"]),
        ("self.out = MLP(sizes[-2:], rng=rng).layers[0]",
         "self.out = MLP(sizes[-2:], rng=rng).layers[0]; self.out.weight.data *= 2",
         "two_max_identity", ["as drawn, weights"]),
        ("nn.Dropout(dropout)", "nn.Dropout(0.9 * dropout)", "two_max_identity", ["dropout"]),
        ("b.argmax()", "b.argmin()", "hinge_decomposition", ["special positions"]),
        (" - 1 > PRUNED_DIM", " - 1 < PRUNED_DIM", "difference_of_maxes",
         ["pieces nowhere the largest"]),
        ("largest * (w / largest)", "largest * (w / largest**1.0001)", "avu_mirror",
         ["whatever the length of w"]),
        ("if sign := 1 - around[face]", "if sign := 1", "hinge_decomposition",
         ["decomposition", "a ReLU network"]),
        ("(a + b + (a - b).abs()) / 2", "(a + b + (a + b).abs()) / 2", "nesting_depth",
         ["odd part of max(x, y, 0) is not"]),
        ("x - 2 * distance", "x - distance", "avu_mirror",
         ["midpoint on the hyperplane", "g keeps its value",
          "the two maps differ along the plane"]),
        ("mirror(torch.zeros_like(w), w, b) - x", "mirror(x, w, b)", "avu_point_symmetry",
         ["all midpoints are one point"]),
        ("return form > 0, form == 0, form < 0", "return form >= 0, form == 0, form < 0",
         "half_space_partition", ["sides", "one part for each point"]),
        ("layer.bias is None", "True", "difference_of_maxes", ["2-3-3-1"]),
        ("np.zeros(len(weight)) if", "np.ones(len(weight)) if", "difference_of_maxes", ["3-4-1"]),
        ("zeros_like", "ones_like", "avu_point_symmetry", ["point_reflection keeps g"]),
        ("widths[:-1", "widths[:", "nesting_depth", ["depth"]),
        (" form ==", " form !=", "half_space_partition", ["zeros of the form"]),
        ("number <", "number <=", "difference_of_maxes", ["2-3-3-1"]),
        ("minus = np.zeros", "minus = np.ones", "difference_of_maxes",
         ["1-4-4-1"]),
        ("sign := 1 -", "sign := 1 +", "hinge_decomposition", ["signs, and pieces beyond n + 1"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(("n", "K"), [(1, 2), (1, 9), (2, 8), (3, 7), (4, 9), (5, 7), (6, 7)])
def test_decomposition_of_random_maxima(n, K):
    for seed in range(5):
        W, b, x = draw(K, n, seed=seed), draw(K, seed=seed + 9), 5 * draw(2000, n, seed=seed + 99)
        terms, values = hinge_decomposition(W, b), x @ W.mT + b
        torch.testing.assert_close(signed_sum(values, terms), values.amax(dim=1))
        assert max(len(rows) for _, rows in terms) <= n + 1
        assert {abs(sign) for sign, _ in terms} == {1}
        assert sum(sign for sign, _ in terms) == 1  # where all pieces are one constant


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("heights", ["zero", "norm", "integers"])
def test_decomposition_of_tied_pieces(n, heights):
    W = torch.tensor(list(itertools.product([-1.0, 0.0, 1.0], repeat=n)), dtype=torch.float64)[:41]
    integers = torch.randint(-1, 2, (len(W),), generator=generator(n)).double()
    b = {"zero": 0 * integers, "norm": -W.abs().sum(dim=1), "integers": integers}[heights]
    values = 5 * draw(2000, n) @ W.mT + b
    found = signed_sum(values, hinge_decomposition(W, b))
    torch.testing.assert_close(found, values.amax(dim=1), rtol=1e-9, atol=1e-9)


def test_decomposition_in_a_subspace_and_of_parallel_pieces():
    line = torch.tensor([[1.0, 1], [2, 2], [3, 3], [0, 0]], dtype=torch.float64)
    b, x = torch.tensor([0, 1, 0.5, 0], dtype=torch.float64), draw(500, 2)
    terms = hinge_decomposition(line, b)
    values = x @ line.mT + b
    torch.testing.assert_close(signed_sum(values, terms), values.amax(dim=1))
    assert max(len(rows) for _, rows in terms) == 2  # one direction only
    assert hinge_decomposition(torch.ones(3, 2), torch.tensor([1.0, 3.0, 2.0])) == [(1, (1,))]


@pytest.mark.parametrize(
    "sizes", [(1, 1), (1, 5, 1), (2, 4, 3, 1), (3, 4, 3, 1), (6, 3, 3, 1), (1, 3, 3, 3, 1)]
)
@pytest.mark.parametrize("bias", [True, False])
def test_a_network_is_the_difference_of_its_maxes_and_no_piece_is_idle(sizes, bias):
    net = MLP(sizes, bias=bias, rng=generator(1)).double()
    plus, minus = difference_of_maxes(net)
    x = 4 * draw(3000, sizes[0])
    torch.testing.assert_close(plus(x) - minus(x), net(x)[:, 0])
    for hinge in (plus, minus):  # a linear program finds where a piece is the largest
        w, b = hinge.w.detach().numpy(), hinge.b.detach().numpy()
        if sizes[0] > 4 or len(w) > 60 or not bias:
            continue
        for k in range(len(w)):
            found = linprog(
                np.append(np.zeros(sizes[0]), -1),
                A_ub=np.column_stack([w - w[k], np.arange(len(w)) != k]), b_ub=b[k] - b,
                bounds=[(None, None)] * sizes[0] + [(None, 1)],
            )
            assert found.status in (0, 3)
            assert found.x is None or found.x[-1] > -1e-9


def test_layers_are_what_torch_computes():
    layer = Maxout(5, 4, pieces=3, rng=generator()).double()
    x = draw(2, 7, 5)
    linear = nn.functional.linear(x, layer.rows.weight, layer.rows.bias)
    theirs = nn.functional.max_pool1d(linear.reshape(14, 1, 12), 3).reshape(2, 7, 4)
    assert torch.equal(layer(x), theirs)
    hinges = [KHinge(w, b)(x) for w, b in zip(layer.rows.weight.split(3), layer.rows.bias.split(3),
                                              strict=True)]
    torch.testing.assert_close(layer(x), torch.stack(hinges, dim=-1))
    assert torch.autograd.gradcheck(layer, x.requires_grad_())
    net = MaxoutMLP([5, 4, 3], pieces=3, rng=generator()).double()
    assert torch.equal(net(x), net.out(net.hidden[0](x)))
    linear = MaxoutMLP([5, 3], rng=generator())
    assert torch.equal(linear(x.float()), linear.out(x.float()))


def test_dropout_only_trains_and_weights_come_from_the_generator(tmp_path):
    first, again = (MaxoutMLP([6, 50, 2], dropout=0.5, rng=generator(3)) for _ in range(2))
    assert all(map(torch.equal, first.parameters(), again.parameters()))
    assert first.hidden[0].rows.weight.abs().max() <= 6**-0.5
    x = draw(40, 6).float()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert not torch.equal(first(x), first(x))
    first.eval()
    assert torch.equal(first(x), first(x))
    save_model(tmp_path, first, {})
    assert torch.equal(load_model(tmp_path)[0](x), first(x))


@pytest.mark.parametrize("k", [1, 2, 3, 7, 33])
def test_nested_absolute_values_find_the_largest(k):
    x = draw(3, 50, k)
    torch.testing.assert_close(avu_max(k)(x)[..., 0], x.amax(dim=-1))
    assert len(avu_max(k)) == np.ceil(np.log2(k))


def test_mirror_is_a_householder_reflection():
    w, x = draw(4), draw(100, 4, seed=1)
    householder = torch.eye(4).double() - 2 * torch.outer(w, w) / (w @ w)
    torch.testing.assert_close(mirror(x, w, 0.0), x @ householder)
    torch.testing.assert_close(point_reflection(x, w, 0.0), -x)
    for twice in (mirror, point_reflection):
        torch.testing.assert_close(twice(twice(x, w, 0.7), w, 0.7), x)
    sides = half_spaces(w, 0.7, x)
    assert all(map(torch.equal, half_spaces(w, 0.7, mirror(x, w, 0.7)), sides[::-1]))


def test_without_kinks_an_absolute_value_is_half_the_misprinted_story():
    evidence = page(KEY).claim("hinge_decomposition").measure(0, size="ceil(log2(n + 1))")
    name, worst = next(pair for pair in evidence.leaves if not pair[1].holds)
    assert name == "least squares over hinges"
    assert abs(worst.measured - worst.expected) > 0.499  # as of |x| alone, on a grid of 2001


def test_quick_experiment_keeps_a_model_and_draws():
    run = Run()
    outcome = page(KEY).experiments()["maxout_vs_relu"](run)
    assert outcome.reached, outcome.missed
    assert set(outcome.figures) == {"units", "moons"}
    assert isinstance(run.model, MaxoutMLP)
    assert run.curves["units"][-1]["loss"] < 0.05  # of three functions with values up to 4


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError, match=r"Maxout: pieces must be an integer in \[1, inf\); got 0"):
        Maxout(3, 2, pieces=0)
    with pytest.raises(UsageError, match=r"pieces must be a divisor of the 10 rows .*; got 3"):
        Maxout.from_rows(torch.ones(10, 2), torch.ones(10), pieces=3)
    with pytest.raises(UsageError, match=r"KHinge: w and b must be .* k >= 1; got '\(0, 2\)"):
        KHinge(torch.ones(0, 2), torch.ones(0))
    with pytest.raises(UsageError, match="MaxoutMLP: sizes must be two or more values"):
        MaxoutMLP([3])
    with pytest.raises(UsageError, match=r"net must be of at most 100000 pieces; got \d{6}"):
        difference_of_maxes(MLP([9, 8, 8, 8, 1], rng=generator()))
    for bad in (MLP([2, 1], activation="tanh", rng=generator()), MLP([2, 2], rng=generator())):
        with pytest.raises(UsageError, match="net must be a ReLU network with one affine output"):
            difference_of_maxes(bad)
    with pytest.raises(UsageError, match=r"at most 100000 simplices; got '200 pieces, up to \d+'"):
        hinge_decomposition(torch.ones(200, 7), torch.ones(200))
    cyclic = (50_003, 2, 2 * 50_003 - 4), (449, 3, 449 * 446 // 2)  # polytopes have most facets
    for K, n, most in cyclic:
        with pytest.raises(UsageError, match=rf"got '{K} pieces, up to {most}'"):
            hinge_decomposition(torch.ones(K, n), torch.ones(K))
    with pytest.raises(UsageError, match="avu_max: x must be of width 4"):
        avu_max(4)(torch.ones(5))
    with pytest.raises(UsageError, match="w must be a finite vector other than 0"):
        mirror(torch.ones(2), torch.zeros(2), 1.0)
