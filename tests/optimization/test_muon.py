import copy

import pytest
import torch
from scipy.linalg import polar
from torch import nn

from planting import assert_caught
from principia.lab.params import UsageError
from principia.lab.seeds import Seed
from principia.networks import MLP
from principia.optimization import Muon, orthogonalize, split_parameters
from principia.optimization.experiments.muon import _Together

KEY = "optimization/muon"


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=Seed(seed).torch(), dtype=dtype)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("(U * (sigma > rounding)[..., None, :]) @ Vh", "(U * sigma[..., None, :].sqrt()) @ Vh",
         "rms_step_is_shape_free"),
        ("(1.5, -0.5, 0.0, 30)", "(1.4, -0.5, 0.0, 30)", "cubic_converges"),
        ("tall = X.shape[-2] > X.shape[-1]", "tall = X.shape[-2] < X.shape[-1]; X = X[:, :4]",
         "cubic_converges"),
        ("X = X / torch.linalg.matrix_norm(X, keepdim=True).clamp(min=1)", "X = X * 1.0",
         "quintic_range"),
        ("lambda rows, columns: math.sqrt(rows / columns)",
         "lambda rows, columns: math.sqrt(columns / rows)", "rms_step_is_shape_free"),
        ("M, alpha=mu) if", "M) if", "torch_muon_agrees"),
        ("alpha=-length", "alpha=length", "rare_directions_amplified"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("3.4445, -4.7750, 2.0315, 5)", "3.4445, -4.7750, 2.3015, 5)", "quintic_range",
         ["highest", "singular vectors stay"]),
        ("torch._foreach_mul_(M, mu)", "pass", "torch_muon_agrees",
         ["quintic, 128 rows", "quintic, 32 rows", "cosine", "nesterov, quintic, 128 rows",
          "nesterov, quintic, 32 rows", "nesterov, cosine"]),
        ("for p in uses[-1:]}", "for p in uses[:1]}", "torch_muon_agrees",
         ["matrices of a network"]),
        ("high\")] = 0.95", "high\")] = 0.9", "torch_muon_agrees", ["defaults"]),
        ("lambda rows, columns: 1.0", "lambda rows, columns: 2.0", "rms_step_is_shape_free",
         ["spectral norm of every scale"]),
        ("(1.5, -0.5, 0.0, 30)", "(1.5, -0.5, 0.0, 31)", "cubic_converges",
         ["polynomials of singular values"]),
        ("(sigma > rounding)", "(sigma > 0 * rounding)", "update_is_orthogonal",
         ["directions that are there"]),
        ("return ((U * (sigma", "return ((2 * U * (sigma", "steepest_in_spectral_norm",
         ["feasible"]),
        ("sqrt(rows /", "sqrt(rows *", "torch_muon_agrees", ["shortest", "nesterov, shortest"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("shape", [(5, 5), (9, 4), (4, 9), (1, 7)])
def test_it_is_the_orthogonal_factor_of_scipys_polar_decomposition(shape):
    M = normal(*shape)
    torch.testing.assert_close(orthogonalize(M), torch.from_numpy(polar(M.numpy())[0]))


def test_the_quintic_is_torchs_but_for_its_precision():
    M = normal(6, 6, dtype=torch.float32)  # so small that no processor has its own bfloat16 product
    W = nn.Parameter(torch.zeros(6, 6))
    W.grad = M.clone()
    torch.optim.Muon([W], lr=1.0, weight_decay=0.0).step()
    assert (W.detach() + orthogonalize(M, "quintic")).norm() < 0.1


@pytest.mark.parametrize("method", ["svd", "cubic", "quintic"])
def test_nothing_is_made_of_nothing_and_scale_does_not_matter(method):
    M = normal(3, 6, 4, dtype=torch.float32)
    M[1] = 0
    M[2, :, 1] = M[2, :, 0]  # rank 3
    found = orthogonalize(M, method)
    assert torch.equal(found[1], torch.zeros(6, 4))
    assert torch.linalg.svdvals(found[2])[-1] < 1e-2
    for scale in (1e-30, 1e30):
        torch.testing.assert_close(orthogonalize(scale * M[0], method), found[0], rtol=0, atol=1e-4)
    half = orthogonalize(M[0].bfloat16(), method)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), found[0], rtol=0, atol=0.05)


def test_a_matrix_among_others_is_treated_as_if_alone():
    M = normal(2, 3, 7, 5)
    for method in ("svd", "cubic", "quintic"):
        alone = torch.stack([orthogonalize(one, method) for one in M.flatten(0, 1)])
        torch.testing.assert_close(orthogonalize(M, method).flatten(0, 1), alone)


def descend(model, optimizer, steps):
    x = normal(20, 6, seed=1)
    for _ in range(steps):
        optimizer.step(lambda: (optimizer.zero_grad(), model(x).square().sum().backward()))


@pytest.mark.parametrize("together", [False, True])
def test_a_resumed_run_is_the_same_to_the_bit(together):
    def made(model):
        matrices, rest = split_parameters(model)
        muon = Muon(matrices, lr=0.1, nesterov=True)
        return _Together(muon, torch.optim.AdamW(rest, lr=0.1)) if together else muon

    whole = MLP([6, 8, 8, 2], rng=Seed(0).torch()).double()
    optimizer = made(whole)
    descend(whole, optimizer, 5)
    half, state = copy.deepcopy(whole), copy.deepcopy(optimizer.state_dict())
    descend(whole, optimizer, 5)
    resumed = made(half)
    resumed.load_state_dict(state)
    descend(half, resumed, 5)
    for one, other in zip(half.parameters(), whole.parameters(), strict=True):
        assert torch.equal(one, other)


def test_optimizers_together_are_the_same_as_each_alone():
    one, other = (MLP([6, 8, 8, 2], rng=Seed(0).torch()).double() for _ in range(2))
    matrices, rest = split_parameters(one)
    together = _Together(Muon(matrices), torch.optim.AdamW(rest))
    torch.optim.lr_scheduler.LambdaLR(together, lambda step: 0.5)
    matrices, rest = split_parameters(other)
    alone = Muon(matrices, lr=0.01), torch.optim.AdamW(rest, lr=0.0005)
    descend(one, together, 3)
    x = normal(20, 6, seed=1)
    for _ in range(3):
        other.zero_grad()
        other(x).square().sum().backward()
        for optimizer in alone:
            optimizer.step()
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q)


def test_groups_have_their_own_settings_and_missing_or_zero_gradients_move_nothing():
    moved, still, zero, slow = (nn.Parameter(torch.zeros(3, 3)) for _ in range(4))
    groups = [{"params": [moved, still, zero]}, {"params": [slow], "lr": 0.01}]
    optimizer = Muon(groups, lr=0.1, method="svd")
    moved.grad, zero.grad, slow.grad = 5 * torch.eye(3), torch.zeros(3, 3), 7 * torch.eye(3)
    assert optimizer.step() is None
    torch.testing.assert_close(moved.detach(), -0.1 * torch.eye(3))
    torch.testing.assert_close(slow.detach(), -0.01 * torch.eye(3))
    for one in (still, zero):
        assert torch.equal(one.detach(), torch.zeros(3, 3))


def test_a_convolution_is_a_matrix_of_its_filters():
    kernel, flat = nn.Parameter(normal(8, 3, 2, 2)), nn.Parameter(normal(8, 12))
    kernel.grad = normal(8, 3, 2, 2, seed=1)
    flat.grad = kernel.grad.flatten(1)
    before = kernel.detach().clone(), flat.detach().clone()
    Muon([kernel, flat]).step()
    moves = kernel.detach() - before[0], flat.detach() - before[1]
    torch.testing.assert_close(moves[0].flatten(1), moves[1])


def test_embeddings_heads_gains_and_biases_are_not_for_muon():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(9, 4)
            self.inner = nn.Sequential(nn.Conv1d(4, 4, 3), nn.LayerNorm([4, 7]), nn.Linear(4, 4))
            self.head = nn.Linear(4, 9)
            self.head.weight = self.embedding.weight

    model = Tied()
    matrices, rest = split_parameters(model)
    assert [id(p) for p in matrices] == [id(model.inner[0].weight), id(model.inner[2].weight)]
    assert {id(p) for p in matrices + rest} == {id(p) for p in model.parameters()}
    assert len(matrices) + len(rest) == len(list(model.parameters()))
    assert split_parameters(nn.Linear(3, 2))[0] == []


def test_a_refused_group_is_not_kept():
    optimizer = Muon([nn.Parameter(torch.ones(2, 2))])
    with pytest.raises(UsageError, match=r"got shape \(3,\)"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(3))]})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda W: Muon([nn.Parameter(torch.ones(128))]),
         r"Muon: every parameter must be a matrix; got shape \(128,\). Use split_parameters."),
        (lambda W: Muon([W], lr=0.0), r"Muon: lr must be in \(0, inf\); got 0.0"),
        (lambda W: Muon([W], momentum=1.0), r"Muon: momentum must be in \[0, 1\); got 1.0"),
        (lambda W: Muon([W], scale="adam"), "Muon: scale must be one of 'rms', 'torch', 'none'"),
        (lambda W: orthogonalize(W, "qr"), "orthogonalize: method must be one of 'svd', 'cubic'"),
        (lambda W: orthogonalize(W, steps=0), r"orthogonalize: steps must be an integer in \[1"),
    ],
)
def test_bad_input_gets_a_sentence(wrong, sentence):
    with pytest.raises(UsageError, match=sentence):
        wrong(nn.Parameter(torch.ones(2, 2)))
