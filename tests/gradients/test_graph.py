import copy
import itertools

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from planting import assert_caught
from principia.gradients import Tape, Var, backward, concat, grad, to_networkx
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit
from principia.networks.mlp import MLP

KEY = "gradients/graph"


def normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("given = totals[source] + given", "given = given + 0 * totals[source]", "any_graph"),
        ("lambda g: -g * quotient / y", "lambda g: g * quotient / y", "order_matters"),
        ("(b, torch.neg, 1)", "(b, torch.clone, 1)", "order_matters"),
        ("lambda g: x.mT @ g", "lambda g: x @ g", "order_matters"),
        ("index_add(0, places,", "index_copy(0, places,", "order_matters"),
        ("g.narrow(dim, start, end - start)", "g.narrow(dim, 0, end - start)", "any_graph"),
        ("scatter(dim, place,", "scatter(dim, 0 * place,", "order_matters"),
        ("given = given.sum_to_size(", "given = (given / 2).sum_to_size(", "any_graph"),
        ("if dim is None else self.shape[dim])", "if dim is None else 1)", "order_matters"),
        ("torch.tensor(np.asarray(value))", "torch.tensor(value)", "order_matters"),
        ("return self._beside(other) / self", "return self / other", "order_matters"),
        ("found = backward(f(*inputs))", "found = backward(f(*inputs[::-1]))", "sums_over_paths"),
        ("g * (1 - y * y), 2", "g * (1 - y), 2", "sums_over_paths"),
        ("k) for edge in node.edges)", "k) for edge in node.edges[:1])", "sums_over_paths"),
        ("ops[\"forward\"] += work * size", "ops[\"forward\"] += work", "linear_cost"),
        ("Edge(source, pull, each * size)", "Edge(source, pull, each * size * 3)", "linear_cost"),
        ("uses[edge.source] += 1", "uses[edge.source] = 1", "order_matters"),
        ("def sum(self, dim: int | None = None, keepdim: bool = False",
         "def sum(self, dim: int | None = None, keepdim: bool = True", "any_graph"),
        ("def mean(self, dim: int | None = None, keepdim: bool = False",
         "def mean(self, dim: int | None = None, keepdim: bool = True", "any_graph"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("g * (1 - y * y), 2", "g * (1 - y), 2", "sums_over_paths", ["reverse mode"]),
        ("k) for edge in node.edges)", "k) for edge in node.edges[:1])", "sums_over_paths",
         ["paths"]),
        ("value=node.value, gradient", "value=-node.value, gradient", "sums_over_paths",
         ["nodes"]),
        ("Edge(source, pull, each * size)", "Edge(source, pull, each * size * 3)", "linear_cost",
         ["networks"]),
        ("(b, torch.neg, 1)", "(b, torch.neg, 0)", "linear_cost", ["counted by hand"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.value + b.value, 1, (self", "self.value + b.value, 2, (self"),
        ("x.numel() // max(y.numel(), 1), pull", "x.numel(), pull"),
        ("x.reshape(shape), 0, (self", "x.reshape(shape), 1, (self"),
        ("x[key], 0, (self, pull, 1)", "x[key], 0, (self, pull, 0)"),
        ("(b, lambda g: g * x, 1)", "(b, lambda g: g * x, 2)"),
        ("-g * quotient / y, 2)", "-g * quotient / y, 1)"),
        ("given.numel() * (given.shape != source.value.shape)", "given.numel()"),
    ],
)
def test_claims_count_as_one_counts_by_hand(old, new):
    assert_caught(KEY, old, new, "linear_cost")


A, B, C = normal(3, 4), normal(4, seed=1), normal(2, 4, 3, seed=2)
FUNCTIONS = {
    "broadcast": (lambda a, b: ((a + b) * (a - b) / (b * b + 1)).sum(), A, B),
    "outer product": (lambda a, b: (a.reshape(3, 4, 1) * b).tanh().sum(), A, B),
    "batches of matrices": (lambda a, c: (a @ c).tanh().sum(), A, C),
    "constants on the left": (lambda a: (2 / (1 - (A * a - 3).exp())).sum(), A),
    "matrix on the left": (lambda a: (A.T @ -a).tanh().sum(), A),
    "negative axes": (lambda a: (a.sum(-1) * a.mean(-1)).sum() + a.sum(-2, keepdim=True).mean(), A),
    "means": (lambda a: a.mean() * a.mean(0).exp().sum() + a.mean(1, keepdim=True).sum(), A),
    "slices": (lambda a: (a[1:, ::2] * a[0, 1] - a[-1, None, :2]).sum(), A),
    "rows": (lambda a: (a[torch.tensor([0, 0, 2])].exp() * a[[1, 1, 1]]).sum(), A),
    "mask": (lambda a: (a[A > 0] * a[A > 0]).sum() + a[..., 0].sum(), A),
    "relu, log": (lambda a: ((a * a).log() * a.relu()).sum(), A),
    "shared, one entry": (lambda b: (b * b * b[:1]).sum().reshape(1), B),
    "unused": (lambda a, b: (a * a).sum(), A, B),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_torch(name):
    f, *values = FUNCTIONS[name]
    theirs = torch.func.grad(lambda *given: f(*given).sum(), argnums=tuple(range(len(values))))
    for ours, exact, value in zip(grad(f)(*values), theirs(*values), values, strict=True):
        assert ours.shape == value.shape
        torch.testing.assert_close(ours, exact, rtol=1e-12, atol=1e-12)


def test_largest_and_joined_entries_are_those_of_torch():
    def ours(a, b):
        parts = [a[:, :1], b.reshape(4, 1)[:3], torch.ones(3, 2)]
        return (concat(parts, dim=-1).max(1, keepdim=True) * a).sum() + a.max() * a.max(0).sum()

    def theirs(a, b):
        parts = [a[:, :1], b.reshape(4, 1)[:3], torch.ones(3, 2)]
        largest = torch.cat(parts, dim=-1).max(1, keepdim=True).values
        return (largest * a).sum() + a.max() * a.max(0).values.sum()

    exact = torch.func.grad(theirs, argnums=(0, 1))(A, B)
    for found, truth in zip(grad(ours)(A, B), exact, strict=True):
        torch.testing.assert_close(found, truth)
    with_tie = Var(Tape(), [2.0, 2.0])
    assert backward(with_tie.max())[with_tie].sum() == 1  # to one of them, not to both


def test_gradient_is_the_difference_quotient_of_scipy():
    def f(x):
        a, b = x[:2], x[2:]
        return ((a * b).tanh() + (b * b + 1).log() / (a.exp() + 1)).sum()

    x = normal(4, seed=3)
    slopes = approx_fprime(x.numpy(), lambda x: float(f(torch.tensor(x))), 1e-7)
    np.testing.assert_allclose(grad(f)(x)[0], slopes, atol=1e-6)


def test_numbers_integers_and_single_precision_become_double():
    for value in (2, 2.0, np.float32(2), torch.tensor(2), torch.tensor(2.0, requires_grad=True)):
        x = Var(Tape(), value)
        y = x * x
        assert not y.value.requires_grad
        assert backward(y)[x].dtype == torch.float64
        assert backward(y)[x] == 4
    assert Var(Tape(), 0.1).value.item() == Var(Tape(), [0.1]).value.item() == 0.1
    x = Var(Tape(), shared := np.ones(2))
    shared[0] = 5
    assert x.value.tolist() == [1, 1]
    with torch.inference_mode():
        assert grad(lambda x: (x * x).sum())(torch.ones(2))[0].tolist() == [2, 2]


def test_constants_cost_nothing_backward():
    tape = Tape()
    x = Var(tape, normal(5, 4))
    y = (normal(3, 5) @ x + torch.ones(4)).sum()
    found = backward(y)
    assert tape.ops["backward"] == 3 * 5 * 4
    assert set(found) == {node for node in tape.nodes if node.op != "constant"}
    assert sum(node.constant for node in tape.nodes) == 2


def test_multiply_adds_of_products_are_half_the_flops_of_torch():
    x, W, V = normal(7, 50), normal(20, 7).requires_grad_(), normal(5, 20).requires_grad_()
    with FlopCounterMode(display=False) as forward:
        total = (V @ (W @ x)).sum()
    with FlopCounterMode(display=False) as back:
        total.backward()
    tape = Tape()
    out = (Var(tape, V) @ (Var(tape, W) @ x)).sum()
    backward(out)
    assert tape.ops["forward"] == forward.get_total_flops() / 2 + 5 * 50  # and the sum
    assert tape.ops["backward"] == back.get_total_flops() / 2


def test_deep_and_wide_graphs_need_no_recursion():
    x = Var(Tape(), 1.0)
    y = x
    for _ in range(5000):
        y = y + 0.5
    assert backward(y)[x] == 1
    many = concat([x.reshape(1)] * 3000)
    assert backward(many.sum())[x] == 3000


def test_every_variable_is_visited_once_although_there_are_many_paths():
    tape = Tape()
    x = y = Var(tape, 1.0)
    for _ in range(60):  # 2^60 paths
        y = y + y
    assert backward(y)[x] == 2.0**60
    assert tape.ops["backward"] == 60
    assert backward(y)[x] == 2.0**60  # nothing is left behind from the first time


def test_gradients_belong_to_the_caller():
    tape = Tape()
    a, b = Var(tape, A), Var(tape, A + 1)
    found = backward((a + b).sum())
    found[a] *= 7
    assert (found[b] == 1).all()
    assert (found[a] == 7).all()


def test_graph_of_networkx_has_every_use():
    tape = Tape()
    x, w = Var(tape, 2.0), Var(tape, 3.0)
    y = (x * x + w * x).tanh()
    graph = to_networkx(tape, backward(y))
    assert nx.is_directed_acyclic_graph(graph)
    assert [one["op"] for _, one in sorted(graph.nodes(data=True))] == [
        "leaf", "leaf", "*", "*", "+", "tanh"
    ]
    assert len(list(nx.all_simple_edge_paths(graph, 0, 5))) == 3
    assert nx.dag_longest_path_length(graph) == 3
    slope = 1 - np.tanh(10) ** 2
    assert graph.nodes[0]["gradient"].item() == pytest.approx(7 * slope)
    assert to_networkx(tape).nodes[0]["gradient"] is None


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_training_on_the_tape_is_training_with_torch(activation):
    module = page(KEY).load("experiments")
    ours = MLP([4, 6, 5, 3], activation=activation, rng=Seed(0).torch()).double()
    theirs, x = copy.deepcopy(ours), normal(40, 4)
    y = torch.arange(40) % 3
    for model, objective in ((ours, module._on_tape), (theirs, Supervised(F.cross_entropy))):
        adam = torch.optim.Adam(model.parameters(), lr=0.01)
        fit(model, (x, y), objective, adam, epochs=4, batch_size=10, validation=(x, y),
            seed=Seed(0))
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_the_comparison_with_torch_sees_a_wrong_gradient():
    module = page(KEY).load("experiments")
    mlp, batch = MLP([4, 3], rng=Seed(0).torch()).double(), (normal(10, 4), torch.arange(10) % 3)
    gaps = []
    for factor in (1, 1 + 1e-6):
        matched = module._Matched(50)
        matched.prepare(batch, torch.Generator())
        module._on_tape(mlp, batch, torch.Generator())
        mlp.layers[0].weight.grad *= factor
        matched.before_step(mlp)
        again = module._Matched(50)
        again.load_state_dict(matched.state_dict())
        gaps.append(float(again.gap(torch.zeros(1), torch.zeros(1))))
    assert gaps[0] < 1e-15 < 1e-8 < gaps[1]


def test_listed_order_is_no_order_either():
    claim = page(KEY).claim("order_matters")
    assert claim.measure(0, order="listed backward").refuted
    assert claim.measure(0, order="depth first").refuted


def test_picture_fills_the_graph_step_by_step():
    mlp = MLP([2, 3, 2], activation="tanh", rng=Seed(0).torch()).double()
    figure = page(KEY).load("experiments")._film(mlp, normal(4, 2), torch.arange(4) % 2)
    lengths = [sum(map(len, step.args[0]["text"][0])) for step in figure.layout.sliders[0].steps]
    assert all(a < b for a, b in itertools.pairwise(lengths))  # every step tells one number more
    labels = [step.label for step in figure.layout.sliders[0].steps]
    assert [labels[0], labels[-1]] == ["value 1", "derivative 20"]
    assert list(figure.data[1].text) == list(figure.layout.sliders[0].steps[-1].args[0]["text"][0])


def test_bad_input_is_told_in_one_sentence():
    x, other = Var(Tape(), A), Var(Tape(), A)
    with pytest.raises(UsageError, match=r"out must be a Var with one entry; got Var\(leaf, shape "
                       r"\(3, 4\)\)\. Only a number has a gradient: reduce it"):
        backward(x)
    for operation in (lambda: x + other, lambda: x @ other, lambda: concat([x, other])):
        with pytest.raises(UsageError, match=r"Var: the other side must be on the same tape; got "
                           r"Var\(leaf, shape \(3, 4\)\)\. Record both on one tape"):
            operation()
    with pytest.raises(UsageError, match=r"both sides of @ must be matrices; got \[\(3, 4\), \(4,"):
        x @ B
    with pytest.raises(UsageError, match="Var: value must be a number or a tensor; got 'three'"):
        Var(Tape(), "three")
    for bad in (1j, np.array([1j]), torch.tensor(1j)):
        with pytest.raises(UsageError, match="Var: value must be real; got "):
            Var(Tape(), bad)
    with pytest.raises(UsageError, match="concat: parts must be one or more, with a Var among"):
        concat([A, A])


def test_a_value_changed_in_place_is_noticed():
    weight, data = normal(3, 3), normal(3, 3, seed=1)
    for changed in (weight, data):
        x = Var(Tape(), weight)
        y = (data @ x).sum()
        backward(y)
        changed += 1
        with pytest.raises(UsageError, match=r"the value of Var\((leaf|constant), shape \(3, 3\)\) "
                           "must be as it was recorded; it was changed in place"):
            backward(y)
    x = Var(Tape(), weight.float())  # a copy: what happens to the original does not matter
    y = x.sum()
    weight += 1
    assert (backward(y)[x] == 1).all()
