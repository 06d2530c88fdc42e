import numpy as np
import pytest
import torch
from scipy import special, stats

from planting import assert_caught
from principia.connectionism import (
    Hopfield,
    crosstalk,
    flip_probability,
    is_memorized,
    mean_field_overlap,
    overlap,
)
from principia.lab.params import UsageError

KEY = "connectionism/hopfield"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("(x * (self.b - field)).sum(-1) / 2", "(x * (self.b - field)).sum(-1)", "field_rule"),
        ("field += (new - old)", "field -= (new - old)", "energy_never_rises"),
        ("if zero_diagonal:", "if False:", "hebb_zero_diagonal"),
        ("(field >= -tie)", "(field > tie)", "stability_is_one_sided"),
        ("others @ X - (s - 1) * X", "others @ X - s * X", "crosstalk_gaussian"),
        ("* pattern.double()", "* -pattern.double()", "retrieval_overlap"),
        ("math.sqrt(2 / math.pi) * math.exp(-y * y)", "math.exp(-y * y)", "critical_load"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("@ self.W - self.b", "@ self.W + self.b", "field_rule", ["energy, pair by pair"]),
        ("block].triu(1)", "block].tril(-1)", "energy_never_rises", ["recall takes the same way"]),
        (".div_(self.n)", ".div_(self.n - 1)", "stability_is_one_sided",
         ["field = own share + crosstalk"]),
        ("(torch.where(field >= 0, 1.0,", "(torch.where(field > 0, 1.0,", "flip_probability",
         ["memorized"]),
        ("(n - 1) / (s - 1)))) if", "n / s))) if", "flip_probability", ["measured"]),
        ("-math.sqrt((n - 1) / (s - 1))", "-math.sqrt((n - 1) / (2 * s))", "capacity_constant",
         ["in nets"]),
        ("s > 1 else 0.0", "s > 1 else 0.5", "flip_probability", ["a pattern alone"]),
        ("* pattern.double()", "* -pattern.double()", "inverse_and_mixtures",
         ["and have half of each pattern"]),
        ("+ self.b.abs()", "+ self.b", "stability_is_one_sided", ["a field of 0 gives +1"]),
        ("W = (W + W.T) / 2", "W = (W + W) / 2", "projection_rule", ["no asymmetry"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def signs(seed, *shape):
    return np.random.default_rng(seed).choice([-1.0, 1.0], size=shape)


def couplings(seed, n):
    square = np.random.default_rng(seed).normal(size=(n, n))
    return (square + square.T) * (1 - np.eye(n))


def recall_unit_by_unit(W, b, x, orders):
    x = x.copy()
    for order in orders:
        for i in order:
            x[i] = 1.0 if W[i] @ x - b[i] >= 0 else -1.0
    return x


@pytest.mark.parametrize("n", [5, 128, 300])  # one block, exactly one, several
def test_recall_is_the_loop_over_units(n):
    W, b, x = couplings(1, n), np.random.default_rng(2).normal(size=n), signs(3, 6, n)
    net = Hopfield(n)
    net.W, net.b = torch.tensor(W), torch.tensor(b)
    rng = torch.Generator().manual_seed(4)
    orders = [torch.randperm(n, generator=rng).numpy() for _ in range(3)]
    run = net.recall(torch.tensor(x), max_sweeps=3, rng=torch.Generator().manual_seed(4))
    expected = [recall_unit_by_unit(W, b, one, orders) for one in x]
    np.testing.assert_array_equal(run.states.numpy(), expected)
    fixed = net.recall(torch.tensor(x), max_sweeps=2)
    expected = [recall_unit_by_unit(W, b, one, [range(n)] * 2) for one in x]
    np.testing.assert_array_equal(fixed.states.numpy(), expected)


def test_a_state_goes_its_way_whatever_its_batch():
    net = Hopfield(300)
    net.W, x = torch.tensor(couplings(5, 300)), torch.tensor(signs(6, 8, 300))
    together = net.recall(x, rng=torch.Generator().manual_seed(0))
    for k in range(8):
        alone = net.recall(x[k : k + 1], rng=torch.Generator().manual_seed(0))
        assert torch.equal(alone.states[0], together.states[k])
        assert alone.sweeps[0] == together.sweeps[k]
        length = alone.energies.shape[1]
        torch.testing.assert_close(alone.energies[0], together.energies[k, :length])


def test_recall_ends_where_no_unit_moves():
    net = Hopfield(200)
    net.W, x = torch.tensor(couplings(7, 200)), torch.tensor(signs(8, 10, 200))
    run = net.recall(x)
    assert (run.sweeps < 50).all()
    assert torch.equal(torch.where(net.field(run.states) >= 0, 1.0, -1.0).double(), run.states)
    assert (run.energies.diff(dim=1) <= 1e-9).all()


def test_energy_is_the_double_sum():
    W, b, x = couplings(9, 7), signs(10, 7) / 3, signs(11, 7)
    net = Hopfield(7)
    net.W, net.b = W, b
    double = -sum(W[i, j] * x[i] * x[j] for i in range(7) for j in range(7) if i != j) / 2
    assert float(net.energy(torch.tensor(x))) == pytest.approx(double + b @ x)


def test_ties_give_plus_one_in_both_precisions():
    x = torch.tensor(signs(12, 61, 99))  # fields of stored bits are often exactly 0
    field = (x.T @ x).fill_diagonal_(0).matmul(x.T).T  # 99 times the field, in integers
    assert (field == 0).any()
    for dtype in (torch.float64, torch.float32):
        step = Hopfield(99, dtype=dtype).store(x).recall(x, order="sync", max_sweeps=1)
        assert torch.equal(step.states.double(), torch.where(field >= 0, 1.0, -1.0).double())


def test_projection_rule_holds_correlated_patterns():
    x = np.where(np.random.default_rng(13).random((20, 60)) < 0.8, 1.0, -1.0)
    kept = Hopfield(60).store(torch.tensor(x), rule="projection", zero_diagonal=False)
    np.testing.assert_allclose(kept.W.numpy(), np.linalg.pinv(x) @ x, atol=1e-10)
    cut = Hopfield(60).store(torch.tensor(x), rule="projection")
    assert not cut.W.diagonal().any()
    assert (cut.recall(torch.tensor(x)).sweeps == 0).all()
    assert (Hopfield(60).store(torch.tensor(x)).recall(torch.tensor(x)).sweeps > 0).all()


def test_crosstalk_is_the_double_sum():
    x = signs(14, 4, 9)
    loop = np.zeros((4, 9))
    for t in range(4):
        for i in range(9):
            for r in set(range(4)) - {t}:
                loop[t, i] += sum(x[r, i] * x[r, j] * x[t, j] for j in range(9) if j != i) / 9
    np.testing.assert_allclose(crosstalk(torch.tensor(x)).numpy(), loop, atol=1e-12)


def test_memorized_means_that_recall_leaves_it():
    x = torch.tensor(signs(15, 18, 101))
    left = Hopfield(101).store(x).recall(x).sweeps == 0
    assert is_memorized(x).tolist() == left.tolist()
    assert 0 < int(left.sum()) < 18


@pytest.mark.parametrize(("n", "s"), [(400, 40), (100, 20), (1000, 200)])
def test_flip_probability_is_the_tail_of_a_binomial(n, s):
    terms = (n - 1) * (s - 1)  # signs against n - 1: ties flip every other bit
    law = stats.binom(terms, 0.5)
    against = (terms + n - 1) / 2
    tail = law.sf(np.floor(against)) + (law.pmf(against) / 2 if against.is_integer() else 0)
    assert flip_probability(n, s) == pytest.approx(tail, rel=5e-3)
    assert flip_probability(n, 1) == 0


@pytest.mark.parametrize("load", [*np.geomspace(1e-12, 0.1379, 30), 0.1380, 0.2, 1.0, 50.0, 1e9])
def test_mean_field_overlap_solves_its_equation_at_any_load(load):
    m = mean_field_overlap(float(load))
    if load > 0.13791:
        assert m == 0
        return
    y = float(special.erfinv(m)) if m < 1 - 1e-9 else np.sqrt(0.5 / load)
    r = 1.0 if m >= 1 - 1e-9 else (m / y) ** 2 / (2 * load)
    noise = np.sqrt(2 / (np.pi * load * r)) * np.exp(-y * y)
    assert r == pytest.approx((1 - noise) ** -2, rel=1e-5)
    assert m > 0.96


def test_states_and_couplings_travel():
    net = Hopfield(20).store(torch.tensor(signs(16, 3, 20)))
    copy = Hopfield(20)
    copy.load_state_dict(net.state_dict())
    assert torch.equal(copy.W, net.W)
    assert not list(net.parameters())
    x = torch.tensor(signs(17, 5, 20))
    assert torch.equal(net.float().recall(x).states.double(), copy.recall(x).states)
    assert float(overlap(x[0], -x[0])) == -1


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        (lambda net: net.store(torch.tensor([[1.0, 0.5, 1.0]])),
         "Hopfield.store: patterns must be an array of -1 and \\+1 only; got tensor"),
        (lambda net: net.store(torch.zeros(0, 3)), "patterns must be an array of -1 and \\+1 only"),
        (lambda net: net.store(torch.ones(1, 4)), r"of shape \(any, 3\); got \(1, 4\)"),
        (lambda net: net.recall(torch.zeros(1, 3)), "Hopfield.recall: x must be an array of"),
        (lambda net: net.recall(torch.ones(1, 3), order="asynk"), "Did you mean 'async'"),
        (lambda net: net.update(torch.ones(1, 3), torch.tensor([1, 1])), "units must be different"),
        (lambda net: setattr(net, "W", torch.ones(3, 3).triu(1)),
         "Hopfield: W must be symmetric with zero diagonal; got tensor"),
        (lambda net: setattr(net, "W", torch.eye(3)), "W must be symmetric with zero diagonal"),
        (lambda net: setattr(net, "W", torch.zeros(2, 2)), r"of shape \(3, 3\); got \(2, 2\)"),
        (lambda net: setattr(net, "b", torch.zeros(2)), r"b must be of shape \(3,\); got \(2,\)"),
        (lambda net: Hopfield(0), "Hopfield: n must be an integer in"),
        (lambda net: mean_field_overlap(0.0), r"load must be in \(0, inf\); got 0.0"),
        (lambda net: flip_probability(10, 0), "s must be an integer in"),
    ],
)
def test_bad_input_is_told_in_one_sentence(mistake, sentence):
    with pytest.raises(UsageError, match=sentence):
        mistake(Hopfield(3))
