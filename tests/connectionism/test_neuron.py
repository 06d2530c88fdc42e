import itertools
import time

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch.nn import functional as F

from planting import assert_caught
from principia.connectionism.claims.neuron import pdp_frame
from principia.connectionism.experiments.neuron import threshold_census
from principia.connectionism.neuron import (
    AND,
    NOT,
    McCullochPitts,
    PDPNetwork,
    mcculloch_pitts_functions,
    threshold_functions,
    truth_table,
    two_layer_from_table,
)
from principia.lab.params import UsageError

KEY = "connectionism/neuron"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("self.signs) >= self.threshold", "self.signs) > self.threshold", "logic_gates"),
        ("n // 2 + 1", "(n + 1) // 2", "logic_gates"),
        ("McCullochPitts(-torch.ones(n), 0)", "McCullochPitts(-torch.ones(n), 1)", "logic_gates"),
        ("else (-1, 1)\n", "else (0, 1)\n", "neuron_census"),
        ("(tables << torch.arange", "(tables * torch.arange", "neuron_census"),
        ("(places[..., None] ^ torch.arange(2**n))", "places[..., None]", "xor_needs_two_layers"),
        ("2 * known - 1, known.sum(-1)", "2 * known - 1, known.sum(-1) - 1", "two_layers_suffice"),
        ("torch.ones(1, n), n + 1)", "torch.ones(1, n), n)", "two_layers_suffice"),
        ("after, -slope)", "after, slope)", "pdp_frame"),
        ("2 * (z >= 0).to(z) - 1", "(z >= 0).to(z)", "pdp_frame"),
        ("self.units if state is None", "0 * self.units if state is None", "pdp_frame"),
        ("lambda z: z.sign().clamp(min=0)", "lambda z: z.sign()", "activation_functions"),
        ("self.activation(before, self.prop", "self.activation(self.units, self.prop", "pdp_frame"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("LARGEST_WEIGHT[n] + 1)", "LARGEST_WEIGHT[n])", "xor_needs_two_layers",
         ["the program and the census differ on two inputs", "functions of three and four inputs"]),
        ("2 * known - 1, known.sum(-1)", "2 * known - 1, known.sum(-1) - 1", "xor_needs_two_layers",
         ["two layers"]),
        ("z.cosh() ** -2, -1, 1)", "z.cosh() ** -2, 0, 1)", "activation_functions", ["limits"]),
        ("2 * (z >= 0).to(z) - 1,", "2 * (z > 0).to(z) - 1,", "activation_functions", ["values"]),
        ("self.output(states), after", "self.output(after), after", "pdp_frame",
         ["Hopfield learning"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def solvable(tables):
    """Ask a linear program for weights and a threshold of each table: nothing of ours in it."""
    n = len(tables[0]).bit_length() - 1
    corners = np.array(list(itertools.product((0, 1), repeat=n)))
    for table in tables:
        signs = 2 * np.array(table) - 1
        rows = -signs[:, None] * np.column_stack([corners, np.ones(2**n)])
        found = linprog(np.zeros(n + 1), rows, -np.ones(2**n), bounds=(None, None))
        yield found.status == 0


def test_threshold_functions_are_those_with_a_linear_program_that_is_solvable():
    tables = list(itertools.product((0, 1), repeat=8))
    assert {table for table, yes in zip(tables, solvable(tables), strict=True) if yes} == (
        threshold_functions(3)
    )


def test_enumeration_by_symmetry_equals_enumeration_of_all_weights():
    weights = torch.tensor(list(itertools.product(range(-3, 4), repeat=4)))
    corners = torch.tensor(list(itertools.product((0, 1), repeat=4)))
    sums = weights @ corners.T
    tables = torch.cat([(sums >= t).to(torch.uint8) for t in range(-13, 14)]).unique(dim=0)
    assert frozenset(map(tuple, tables.tolist())) == threshold_functions(4)


def test_census_of_five_inputs_is_the_published_number_within_a_minute():
    start = time.perf_counter()
    assert len(threshold_functions(5)) == 94572  # OEIS A000609
    assert time.perf_counter() - start < 60


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_neurons_are_threshold_units(n):
    assert mcculloch_pitts_functions(n) <= threshold_functions(n)


def test_layer_equals_a_loop_over_its_neurons():
    rng = torch.Generator().manual_seed(0)
    signs = 2 * torch.randint(0, 2, (7, 5), generator=rng) - 1
    thresholds = torch.randint(-2, 3, (7,), generator=rng)
    x = torch.randint(0, 2, (4, 3, 5), generator=rng)
    alone = [McCullochPitts(s, t)(x) for s, t in zip(signs, thresholds, strict=True)]
    assert torch.equal(McCullochPitts(signs, thresholds)(x), torch.stack(alone, dim=-1))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_answers_have_the_type_of_the_inputs_and_nothing_is_learned(dtype):
    gate = AND(3)
    x = torch.tensor([[1, 1, 1], [1, 0, 1]]).to(dtype)
    assert gate(x).dtype == dtype
    assert gate(x).tolist() == [1, 0]
    assert not list(gate.parameters())
    copy = McCullochPitts(-torch.ones(3), 0)
    copy.load_state_dict(gate.state_dict())
    assert copy(x).tolist() == [1, 0]


def test_inputs_are_listed_in_binary_order():
    seen = []
    truth_table(lambda x: seen.extend(x.tolist()) or x[:, 0], 3)
    assert seen == [list(corner) for corner in itertools.product((0, 1), repeat=3)]


def test_two_layers_compute_a_function_of_ten_inputs():
    table = torch.randint(0, 2, (1024,), generator=torch.Generator().manual_seed(1))
    assert torch.equal(truth_table(two_layer_from_table(table), 10), table)


def test_learning_in_the_frame_is_a_gradient_step_of_autograd():
    rng = torch.Generator().manual_seed(2)
    W, x, y = (torch.randn(*s, generator=rng).double() for s in [(4, 4), (6, 4), (6, 4)])
    network = PDPNetwork(
        units=x, output=torch.tanh, connectivity=W, propagation=lambda W, o: o @ W.mT,
        activation=lambda a, net: net, learning=lambda W, o, a, signal: W + 0.1 * signal.mT @ o,
        environment=([(x, y)], F.mse_loss),
    )
    weights = W.clone().requires_grad_()
    F.mse_loss(x.tanh() @ weights.mT, y).backward()
    torch.testing.assert_close(network.learn((x, y)).connectivity, W - 0.1 * weights.grad)
    assert torch.equal(network.connectivity, W)
    torch.testing.assert_close(network.step(), x.tanh() @ W.mT)


def test_learning_in_the_frame_takes_connectivity_with_gradients():
    W = torch.eye(3).requires_grad_()
    network = PDPNetwork(
        units=torch.ones(3), output=torch.tanh, connectivity=W, propagation=lambda W, o: o @ W.mT,
        activation=lambda a, net: net, learning=lambda W, o, a, signal: W + signal.mT @ o,
        environment=([], F.mse_loss),
    )
    learned = network.learn((torch.ones(2, 3), torch.zeros(2, 3))).connectivity
    assert not learned.requires_grad
    assert W.grad is None


def test_each_model_of_the_frame_needs_its_own_activation():
    broken = {name for name, part in pdp_frame(0, activation="identity").parts if part.refuted}
    assert broken == {"delta rule", "perceptron", "McCulloch-Pitts net", "Hopfield recall"}


def test_census_draws_a_half_plane_for_every_function_but_xor_and_its_negation():
    outcome = threshold_census()
    assert outcome.reached, outcome.missed
    drawn = outcome.figures["two_inputs"]
    names = [title.text for title in drawn.layout.annotations]
    white = [name for name, picture in zip(names, drawn.data, strict=True) if 0 in picture.z[0]]
    assert sorted(white) == ["0110", "1001"]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: McCullochPitts(torch.tensor([1, 0]), 1),
         r"McCullochPitts: signs must be an array of -1 and \+1 only; got tensor"),
        (lambda: McCullochPitts(torch.ones(2, 2, 2), 1), r"signs must be of shape \(n,\) or"),
        (lambda: McCullochPitts(torch.ones(3, 2), torch.zeros(2)),
         r"threshold must be one number, or an array of shape \(3,\); got tensor"),
        (lambda: McCullochPitts(torch.ones(2), float("nan")), "threshold must be one number"),
        (lambda: AND(2)(torch.tensor([0.5, 1.0])), r"x must be an array of \+0 and \+1 only"),
        (lambda: AND(2)(torch.tensor([0, 1, 1])), r"x must be of shape \(..., 2\); got \(3,\)"),
        (lambda: AND(0), r"AND: n must be an integer in \[1, inf\); got 0"),
        (lambda: truth_table(NOT(), 2), r"x must be of shape \(..., 1\)"),
        (lambda: truth_table(lambda x: x, 2), "f must be a function with 4 answers to 4 inputs"),
        (lambda: threshold_functions(6), r"n must be an integer in \[1, 5\]; got 6"),
        (lambda: mcculloch_pitts_functions(6), r"n must be an integer in \[1, 5\]; got 6"),
        (lambda: two_layer_from_table(torch.tensor([0, 1, 1])), "of 2, 4, 8, ... entries"),
        (lambda: two_layer_from_table(torch.tensor([0, 2])), r"table must be an array of \+0"),
        (lambda: PDPNetwork(
            units=torch.zeros(2), output=torch.clone, connectivity=torch.zeros(3, 3),
            propagation=torch.mv, activation=torch.add, learning=max, environment=([], F.mse_loss),
        ), r"PDPNetwork: connectivity must be of shape \(2, 2\), as units; got \(3, 3\)"),
    ],
)
def test_bad_input_is_told_in_one_sentence(call, sentence):
    with pytest.raises(UsageError, match=sentence):
        call()
