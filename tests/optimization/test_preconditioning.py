import copy

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.lab.params import UsageError
from principia.lab.training import Supervised, fit
from principia.optimization import (
    LogisticRisk,
    Newton,
    PreconditionedGD,
    Quadratic,
    Saddle,
    descend,
    fisher_information,
    natural_gradient,
    relative_conditioning,
)

KEY = "optimization/preconditioning"


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def closure_of(optimizer, loss):
    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    return closure


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("move = -lr * self", "move = -lr / 2 * self", "natural_gradient_is_newton"),
        ("H + damping.diag()", "H", "natural_gradient_is_newton"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("[g / A for g", "[g * A for g", "preconditioned_step_limit", ["diagonal and function"]),
        ("torch.cat(rows).mT, A)", "torch.cat(rows).mT, A.mT)", "preconditioned_step_limit",
         ["factor of a step", "η = 1.9 converges"]),
        ("for one in (H, A)), eigvals", "for one in (A, H)), eigvals", "preconditioned_step_limit",
         ["relative_conditioning"]),
        ("way = rest + size / last * way", "way = rest", "newton_cg_is_newton", ["theory"]),
        ("return s if turn else g", "return s if turn else -g", "newton_cg_is_newton",
         ["where the curvature is not positive"]),
        ("if not curvature > 0", "if not curvature >= 0", "newton_cg_is_newton",
         ["where the curvature is not positive"]),
        ("dense: NonNegativeInt = 2000", "dense: NonNegativeInt = 1000", "newton_cg_is_newton",
         ["up to 2,000 in any units"]),
        ("(vectors * values.abs()) @", "(vectors * values) @", "newton_is_drawn_to_saddles",
         ["ends at a minimum"]),
        ("softmax_jacobian(logits_of(z))", "logits_of(z).softmax(1).diag_embed()",
         "natural_gradient_is_newton", ["its definition"]),
        ("torch.cat(rows).mT, A)", "torch.cat(rows).mT, A.mT)", "whitening_is_preconditioning",
         ["predictions with A = E[xx'] on raw inputs"]),
        ("self._walk(closure, loss, params, move, float(g @ move))", "pass", "newton_cg_is_newton",
         ["the step of the Taylor page"]),
        ("inner: PositiveInt = 250", "inner: PositiveInt = 240", "newton_cg_is_newton",
         ["inner steps by default"]),
        ('alpha=-group["lr"]', 'alpha=-group["lr"] / 2', "preconditioned_step_limit",
         ["parameters of several shapes"]),
        ("ARMIJO, HALVINGS = 1e-4, 40", "ARMIJO, HALVINGS = 2e-4, 39", "search_brings_newton_home",
         ["the first half that is worth it", "none is worth it"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_newton_goes_the_way_of_scipy_on_logistic_risk():
    X = normal(80, 6)
    risk = LogisticRisk(X, (X[:, 0] + normal(80, seed=1) > 0).long(), l2=0.05)
    reference = minimize(lambda w: float(risk.value(torch.from_numpy(w))), np.zeros(6), tol=1e-12)
    for options in ({}, {"dense": 0}, {"search": True}, {"mode": "saddle_free"}):
        twin = risk.at(torch.zeros(1, 6))
        descend(twin, Newton(twin.parameters(), **options), 8)
        np.testing.assert_allclose(twin.theta.detach()[0], reference.x, atol=1e-4)
        torch.testing.assert_close(twin.theta.detach()[0], risk.minimizer)


def test_a_search_brings_newton_home_from_where_it_diverges():
    def loss(x):
        return (1 + x**2).sqrt().sum()  # Newton's step is x -> -x³

    ends = {}
    for search in (True, False):
        x = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
        optimizer = Newton([x], search=search)
        for _ in range(12 if search else 3):
            optimizer.step(closure_of(optimizer, lambda x=x: loss(x)))
        ends[search] = x.item()
    assert ends[True] == pytest.approx(0, abs=1e-8)
    assert ends[False] == pytest.approx(-(2.0**27))


def test_a_resumed_run_is_the_same_to_the_bit():
    X = normal(50, 4)
    whole = LogisticRisk(X, (X[:, 0] > 0).long(), l2=0.1)
    for kind, options in ((Newton, {"lr": 0.5}), (PreconditionedGD, {"lr": 1.0})):
        whole = whole.at(torch.zeros(1, 4))
        optimizer = kind(whole.parameters(), **options)
        descend(whole, optimizer, 2)
        half, state = whole.at(whole.theta), copy.deepcopy(optimizer.state_dict())
        descend(whole, optimizer, 2)
        resumed = kind(half.parameters(), lr=0.1)
        resumed.load_state_dict(state)
        descend(half, resumed, 2)
        assert torch.equal(half.theta, whole.theta)


def test_groups_have_their_own_settings_and_unused_parameters_stay():
    a, b, still = (nn.Parameter(torch.ones(2, dtype=torch.float64)) for _ in range(3))
    half = [{"params": [a, still]}, {"params": [b], "lr": 0.5, "damping": 3.0}]
    optimizer = Newton(half)
    optimizer.step(closure_of(optimizer, lambda: (a**2 + 1.5 * b**2).sum()))
    torch.testing.assert_close(a.detach(), torch.zeros(2, dtype=a.dtype))
    torch.testing.assert_close(b.detach(), torch.full_like(b, 0.75).detach())  # 1 - 0.5 · 3/(3 + 3)
    assert torch.equal(still.detach(), torch.ones_like(still))

    a, b, still = (nn.Parameter(torch.ones(2)) for _ in range(3))
    a.grad, b.grad = torch.tensor([1.0, 4.0]), torch.tensor([1.0, 4.0])
    groups = [{"params": [a, still]}, {"params": [b], "lr": 0.1}]
    PreconditionedGD(groups, lr=1.0, preconditioner=torch.tensor([1.0, 4.0])).step()
    assert a.tolist() == [0.0, 0.0]
    assert b.tolist() == pytest.approx([0.9, 0.9])
    assert still.tolist() == [1.0, 1.0]


def test_several_backward_passes_of_a_closure_add_up():
    x = nn.Parameter(normal(3))
    optimizer = Newton([x])

    def closure():
        optimizer.zero_grad()
        ((x - 1) ** 2).sum().backward()
        (3 * (x - 5) ** 2).sum().backward()

    optimizer.step(closure)
    torch.testing.assert_close(x.detach(), torch.full((3,), 4.0, dtype=x.dtype))  # (1 + 3·5) / 4


def test_newton_trains_through_fit_and_solves_least_squares_at_once():
    x = normal(40, 3)
    y = x @ normal(3, 1, seed=1) + 2
    model = nn.Linear(3, 1).double()
    fit(model, (x, y), Supervised(F.mse_loss), Newton(model.parameters()), steps=1, batch_size=40)
    torch.testing.assert_close(model(x), y)


def test_a_network_keeps_its_gradients_and_leaves_no_graph_behind():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    x, optimizer = normal(10, 2), Newton(model.parameters(), damping=1.0, dense=0)
    closure = closure_of(optimizer, lambda: model(x).square().mean())
    before = closure().item()
    optimizer.step(closure)
    assert closure().item() < before
    assert all(p.grad is not None and not p.grad.requires_grad for p in model.parameters())


def test_relative_ends_are_those_of_random_quotients():
    root, other = normal(4, 4), normal(4, 4, seed=1)
    A, H = root @ root.mT + torch.eye(4), other @ other.mT
    v = normal(200_000, 4, seed=2)
    quotient = torch.einsum("ni,ij,nj->n", v, H, v) / torch.einsum("ni,ij,nj->n", v, A, v)
    a, b = relative_conditioning(A, H)
    assert a <= quotient.min() <= a + 0.05 * b
    assert 0.95 * b <= quotient.max() <= b


def test_fisher_information_is_the_mean_of_squared_scores_of_drawn_labels():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 3)).double()
    x = normal(1, 2)
    fisher = fisher_information(model, x)
    p = model(x).softmax(1)[0]
    scores = [torch.autograd.grad(-p[k].log(), list(model.parameters()), retain_graph=True)
              for k in range(3)]
    flat = torch.stack([torch.cat([one.flatten() for one in each]) for each in scores])
    draws = torch.multinomial(p.detach(), 40_000, True, generator=torch.Generator().manual_seed(0))
    sampled = flat[draws].mT @ flat[draws] / len(draws)
    spread = float(flat.square().sum(dim=1).max())
    torch.testing.assert_close(sampled, fisher, atol=5 * spread / 200, rtol=0)
    torch.testing.assert_close(flat.mT @ (p.detach()[:, None] * flat), fisher)


def test_a_natural_step_does_not_depend_on_the_parametrization():
    x, y = normal(30, 2), torch.arange(30) % 2
    line, stretched = nn.Linear(2, 1).double(), nn.Linear(2, 1).double()
    with torch.no_grad():
        line.weight.zero_(), line.bias.zero_(), stretched.weight.zero_(), stretched.bias.zero_()
    scale = torch.tensor([100.0, 0.01], dtype=x.dtype)
    here, there = natural_gradient(line, x, y), natural_gradient(stretched, x * scale, y)
    torch.testing.assert_close(here["weight"], there["weight"] * scale)
    torch.testing.assert_close(here["bias"], there["bias"])


def parameter(size=2):
    return nn.Parameter(torch.ones(size, dtype=torch.float64))


def stepped(loss, size=2, **options):
    x = parameter(size)
    optimizer = Newton([x], **options)
    optimizer.step(closure_of(optimizer, lambda: loss(x)))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: relative_conditioning(-torch.eye(2), torch.eye(2)),
         "relative_conditioning: A must be positive definite; got smallest eigenvalue -1."),
        (lambda: PreconditionedGD([parameter()], preconditioner=torch.tensor([1.0, -2.0])),
         "PreconditionedGD: preconditioner must be positive definite; got smallest eigenvalue -2."),
        (lambda: PreconditionedGD([parameter()], preconditioner=torch.ones(2, 2)),
         r"must be a lower triangular factor; .* Pass torch.linalg.cholesky\(A\)"),
        (lambda: PreconditionedGD([parameter(3)], preconditioner=torch.ones(2)),
         "must be of the size of the last axis of each parameter; got '2 for"),
        (lambda: PreconditionedGD([parameter()], lr=0.0), "PreconditionedGD: lr must be"),
        (lambda: stepped(lambda x: x.sum() ** 2),
         r"Newton: Hessian must be invertible; got smallest \|eigenvalue\| .*\. Set damping\."),
        (lambda: stepped(lambda x: x.sum()), "Newton: closure must be .* without a graph"),
        (lambda: stepped(lambda x: x.log().sum() / 0), "Newton: gradient must be finite"),
        (lambda: stepped(lambda x: -(x**2).sum(), search=True),
         "Newton: step must be downhill with search=True"),
        (lambda: stepped(lambda x: (x**2).sum(), mode="saddle_free", dense=1),
         'Newton: mode must be "plain" for more than dense=1 parameters'),
        (lambda: stepped(lambda x: (x**2).sum(), mode="saddle_free", size=2001),
         'Newton: mode must be "plain" for more than dense=2000 parameters'),
        (lambda: Newton([parameter()], damping=-1.0), r"Newton: damping must be in \[0, inf\)"),
        (lambda: natural_gradient(nn.Linear(2, 3), torch.ones(4, 2), torch.zeros(4).long()),
         "natural_gradient: Fisher information must be invertible"),
    ],
)
def test_bad_input_gets_a_sentence(wrong, sentence):
    with pytest.raises(UsageError, match=sentence):
        wrong()


def test_products_go_along_the_gradient_where_it_has_no_curvature():
    x = parameter()
    optimizer = Newton([x], dense=0)
    optimizer.step(closure_of(optimizer, lambda: 3 * x[0] + (x[1] - 1) ** 2))
    assert x.tolist() == [-2.0, 1.0]


def test_a_preconditioner_is_kept_as_it_was_given():
    x, diagonal = parameter(), torch.tensor([2.0, 4.0], dtype=torch.float64)
    optimizer = PreconditionedGD([x], lr=1.0, preconditioner=diagonal)
    diagonal.fill_(100.0)
    x.grad = torch.tensor([2.0, 4.0], dtype=x.dtype)
    optimizer.step()
    assert x.tolist() == [0.0, 0.0]


def test_damping_passes_a_singular_hessian_and_saddle_free_goes_down():
    stepped(lambda x: x.sum() ** 2, damping=0.1)
    saddle = Saddle(2).at(torch.tensor([[0.1, 0.2]]))
    trace = descend(saddle, Newton(saddle.parameters(), mode="saddle_free", search=True), 20)
    assert (trace["value"].diff(dim=0) <= 1e-15).all()
    assert trace["value"][-1].item() == pytest.approx(-0.25)


def test_rows_of_a_problem_are_preconditioned_independently():
    bowl = Quadratic([1.0, 9.0]).at(normal(3, 2))
    path = descend(bowl, PreconditionedGD(
        bowl.parameters(), lr=1.0, preconditioner=torch.tensor([1.0, 9.0], dtype=torch.float64)
    ), 1, record=("theta",))["theta"]
    torch.testing.assert_close(path[1], torch.zeros(3, 2, dtype=torch.float64))
