import math

import pytest
import torch
from scipy.special import factorial2
from scipy.stats import norm
from torch.nn import functional

from planting import assert_caught
from principia.connectionism import DenseMemory, ModernHopfield, capacity, error_probability
from principia.lab.params import UsageError

KEY = "connectionism/dense_memory"
SIGNS = torch.tensor([[1, 1, -1], [1, -1, 1]])


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("bend = (above - below) / 2", "bend = (above + below) / 2", "quadratic_is_hopfield"),
        ("self.patterns + x * bend", "self.patterns - x * bend", "quadratic_is_hopfield"),
        ("self.field(x) >= 0", "self.field(x) > 0", "quadratic_is_hopfield"),
        ("return -values.sum", "return values.sum", "quadratic_is_hopfield"),
        ("(1 - math.cosh(2))", "(1 + math.cosh(2))", "exponential_capacity"),
        ("scale=self.beta)", "scale=None)", "update_is_attention"),
        ("return 0.5 * query", "return query", "energy_descends"),
        ("dim=-1) / self.beta", "dim=-1)", "energy_descends"),
        ("range(1, 2 * degree - 2, 2)", "range(1, 2 * degree, 2)", "polynomial_error"),
        ("/ (2 * _odd_factorial", "/ (_odd_factorial", "polynomial_capacity"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("scale=self.beta)", "scale=1.1 * self.beta)", "retrieval_sharpens",
         ["log error falls at the gap"]),
        ("scale=self.beta)", "scale=None)", "retrieval_sharpens", ["blunt: the mean"]),
        ("scale=self.beta)", "scale=1.1 * self.beta)", "update_is_attention",
         ["one update", "three updates"]),
        ("dim=-1) / self.beta", "dim=-1)", "update_is_attention", ["energy"]),
        ("beta: PositiveFloat = 1.0", "beta: PositiveFloat = 2.0", "update_is_attention",
         ["by default beta is 1"]),
        ("patterns.detach()", "patterns", "update_is_attention", ["gradients to what is stored"]),
        ("return -values.sum", "return values.sum", "field_is_energy_difference", ["energies"]),
        ("            x = self(x)", "            self(x)", "field_is_energy_difference",
         ["recall updates again and again"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def signs(seed, *shape):
    return 2.0 * torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(seed)) - 1


def normals(seed, *shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "settings", [{"degree": 2}, {"degree": 3}, {"degree": 6}, {"interaction": "exp"}], ids=str
)
def test_field_is_the_energy_that_a_flip_costs(settings):
    memory, x = DenseMemory(signs(0, 7, 9), **settings), signs(1, 2, 3, 9)
    energies = [
        torch.stack([memory.energy(x.index_fill(-1, torch.tensor(i), value)) for i in range(9)], -1)
        for value in (-1, 1)
    ]
    cost = energies[0] - energies[1]
    if memory.interaction == "exp":
        cost = cost / (x.double() @ memory.patterns.T).amax(-1, keepdim=True).exp()
    torch.testing.assert_close(memory.field(x), cost, rtol=1e-9, atol=1e-12)


def test_exponential_update_compares_two_logsumexps_where_the_energy_overflows():
    patterns, x = signs(2, 300, 1000), signs(3, 20, 1000)
    others = (x @ patterns.T).double()[:, :, None] - (x[:, None] * patterns)  # (B, K, n)
    up, down = (torch.logsumexp(others + sign * patterns, 1) for sign in (1, -1))
    memory = DenseMemory(patterns, interaction="exp")
    assert torch.equal(memory(x), torch.where(up >= down, 1.0, -1.0))


def test_large_batches_are_cut_into_pieces_without_a_trace():
    patterns, x = signs(4, 9000, 12), signs(5, 2, 50, 12)
    memory = DenseMemory(patterns)
    each = torch.stack([memory.field(one) for one in x.flatten(0, 1)]).view(x.shape)
    assert torch.equal(memory.field(x), each)


def test_recall_repeats_the_update():
    dense, modern = DenseMemory(signs(6, 20, 16)), ModernHopfield(normals(7, 5, 4), beta=0.7)
    for memory, x in ((dense, signs(8, 10, 16)), (modern, normals(9, 10, 4))):
        assert torch.equal(memory.recall(x, steps=3), memory(memory(memory(x))))


@pytest.mark.parametrize("beta", [0.3, 2.0])
def test_equals_multihead_attention(beta):
    patterns, query = normals(10, 12, 6), normals(11, 9, 6)
    attention = torch.nn.MultiheadAttention(6, 1, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():  # its own scale is 1/sqrt(d)
        eye = torch.eye(6, dtype=torch.float64)
        attention.in_proj_weight.copy_(torch.cat([beta * math.sqrt(6) * eye, eye, eye]))
        attention.out_proj.weight.copy_(eye)
        expected = attention(query[None], patterns[None], patterns[None])[0][0]
    torch.testing.assert_close(ModernHopfield(patterns, beta=beta)(query), expected)


def test_attention_at_its_usual_scale_is_beta_of_one_over_root_d():
    patterns, query = normals(12, 12, 9), normals(13, 4, 9)
    keys = patterns[None]
    expected = functional.scaled_dot_product_attention(query[None], keys, keys)[0]
    torch.testing.assert_close(ModernHopfield(patterns, beta=1 / 3)(query), expected)
    explicit = torch.softmax(query @ patterns.T / 3, dim=1) @ patterns
    torch.testing.assert_close(expected, explicit)


def test_update_is_a_gradient_step_of_length_one():
    memory, query = ModernHopfield(normals(14, 8, 5), beta=1.3), normals(15, 7, 5).requires_grad_()
    (gradient,) = torch.autograd.grad(memory.energy(query).sum(), query)
    torch.testing.assert_close(memory(query), query - gradient)
    assert torch.autograd.gradcheck(memory, (query,))


@pytest.mark.parametrize("degree", [2, 3, 4, 6])
def test_formulas_agree_with_scipy_and_with_each_other(degree):
    noise = 5000 * factorial2(2 * degree - 3) / 80 ** (degree - 1)
    assert error_probability(80, 5000, degree) == pytest.approx(norm.sf(noise**-0.5), rel=1e-12)
    most = int(capacity(10**6, degree))  # there a bit errs with the tail of sqrt(2 ln n)
    tail = norm.sf(math.sqrt(2 * math.log(10**6)))
    assert error_probability(10**6, most, degree) == pytest.approx(tail, rel=1e-3)


def test_memories_survive_saving():
    patterns = signs(16, 5, 8)
    copy = DenseMemory(-patterns)
    copy.load_state_dict(DenseMemory(patterns).state_dict())
    assert torch.equal(copy.patterns, patterns.double())


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: ModernHopfield(torch.eye(3), beta=0.0), r"beta must be in \(0, inf\); got 0.0"),
        (lambda: ModernHopfield(torch.eye(3), beta=-1.0), "ModernHopfield: beta must be"),
        (lambda: ModernHopfield(torch.eye(3)[:0]), "patterns must be a matrix of one row or more"),
        (lambda: ModernHopfield(torch.eye(3))(torch.ones(2, 4)), r"query must be of shape"),
        (lambda: DenseMemory(torch.eye(3)), r"patterns must be an array of -1 and \+1 only"),
        (lambda: DenseMemory(SIGNS, degree=1), r"DenseMemory: degree must be an integer"),
        (lambda: DenseMemory(SIGNS)(torch.zeros(3)), r"x must be an array of -1 and \+1 only"),
        (lambda: DenseMemory(SIGNS)(torch.ones(4)), r"DenseMemory: x must be of shape \(..., 3\)"),
        (lambda: error_probability(100, 10, 1), r"degree must be an integer in \[2, 60\]; got 1"),
        (lambda: capacity(1, 2), r"capacity: n must be an integer in \[2, inf\); got 1"),
    ],
)
def test_bad_input_is_told_in_one_sentence(build, sentence):
    with pytest.raises(UsageError, match=sentence):
        build()
