import copy
import inspect

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import Lasso, Ridge
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm
from torch.optim.lr_scheduler import OneCycleLR

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit
from principia.networks.mlp import MLP
from principia.optimization.sgd import ParallelMLP
from principia.regression.lasso import ProximalSGD, soft_threshold_
from principia.regularization.weight_decay import (
    ProximalL1,
    decay,
    decay_groups,
    l1_penalty,
    shrinkage,
)

KEY = "regularization/weight_decay"
SGD_IS_L2, ZEROS = "sgd_decay_is_l2", "l1_gives_exact_zeros"


def draw(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=rng, dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("return (1 - lr * mu) * theta - lr * gradient",
         "return (1 - mu) * theta - lr * gradient", SGD_IS_L2),
        ("return (1 - lr * mu) * theta - lr * gradient",
         "return (1 - lr * mu) * theta - gradient", SGD_IS_L2),
        ("0.0 if p in free else float(given)", "float(given)", SGD_IS_L2),
        ("float(given.get(name, 0.0))", "float(max(given.values()))", SGD_IS_L2),
        ("name: strength, **rate}", "name: strength / 2, **rate}", SGD_IS_L2),
        ('{} if lr is None else {"lr": lr}', "{}", SGD_IS_L2),
        ("return torch.cholesky_solve(H, factor)",
         "return torch.cholesky_solve(torch.eye(H.shape[-1]).to(H), factor)",
         "l2_shrinks_by_eigenvalue"),
        ("torch.diag_embed(d))", "torch.diag_embed(d.mean(dim=-1, keepdim=True).expand_as(d)))",
         "unequal_decay_does_not_diagonalize"),
        ('soft_threshold_(moved, group["lr"] * group["lam"])',
         'soft_threshold_(moved, group["lam"])', ZEROS),
        ("loss = self.base.step(closure)  #", "loss = None  #", ZEROS),
        ("strength * p.abs().sum()", "strength * p.square().sum()", ZEROS),
        ("strength * p.abs().sum()", "2 * strength * p.abs().sum()", ZEROS),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("return (1 - lr * mu) * theta - lr * gradient",
         "return (1 - mu) * theta - lr * gradient", "adam_decay_is_not_l2",
         ["beside Adam it is AdamW"]),
        ("torch.diag_embed(d))", "torch.diag_embed(2 * d))", "decay_suppresses_noise",
         ["Monte Carlo"]),
        ('soft_threshold_(moved, group["lr"] * group["lam"])',
         'soft_threshold_(moved, group["lam"])', "l1_gives_exact_zeros",
         ["groups, momentum, a restart"]),
        ("strength * p.abs().sum()", "strength * p.square().sum()", "l1_gives_exact_zeros",
         ["price of many layers", "subgradient: near"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_every_misprint_is_refuted():
    for form in ("printed", "printed, second line"):
        assert page(KEY).claim(SGD_IS_L2).observe(0, {"form": form}).verdict == "refuted"


def test_a_maximum_is_shrunk_too_where_the_decay_is_stronger():
    assert shrinkage(torch.tensor([[-1.0]]), 3.0).item() == -0.5


def test_step_is_torchs():
    theta, gradient = draw(2, 7)
    p = nn.Parameter(theta.clone())
    p.grad = gradient.clone()
    torch.optim.SGD([p], lr=0.3, weight_decay=0.7).step()
    torch.testing.assert_close(decay(theta, gradient, lr=0.3, mu=0.7), p.detach())


def test_groups_hold_each_trained_parameter_once_and_only_weights_decay():
    model = nn.Sequential(
        nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm([4, 4]), nn.Conv1d(4, 2, 3),
        nn.BatchNorm1d(2), nn.Linear(2, 1, bias=False),
    )
    model[5].weight.requires_grad_(False)
    decayed, free = decay_groups(model, 0.1)
    weights = {model[0].weight, model[1].weight, model[3].weight}
    assert set(decayed["params"]) == weights
    assert len(decayed["params"]) + len(free["params"]) == len(list(model.parameters())) - 1
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    torch.optim.AdamW(decay_groups(model, {"1.bias": 0.5}), lr=1e-3)  # torch refuses doubles
    tied = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
    tied[1].weight = tied[0].weight
    assert sum(len(one["params"]) for one in decay_groups(tied, 0.1)) == 3


@pytest.mark.parametrize("decayed_by", [decay_groups, l1_penalty])
def test_biases_and_gains_of_any_number_of_axes_are_left_alone(decayed_by):
    rng = torch.Generator().manual_seed(0)
    normalized = [weight_norm(nn.Linear(4, 3)), weight_norm(nn.Conv2d(2, 3, 2))]
    with pytest.warns(FutureWarning, match="weight_norm"):
        normalized.append(nn.utils.weight_norm(nn.Linear(4, 3)))
    parallel = ParallelMLP([3, 4, 2], copies=5, rng=rng)
    model = nn.ModuleList([*normalized, parallel])
    weights = {
        *(one.parametrizations.weight.original1 for one in normalized[:2]), normalized[2].weight_v,
        *(layer.weight for layer in parallel.layers),
    }
    if decayed_by is decay_groups:
        found = {p for group in decay_groups(model, 0.1) if group["weight_decay"] for p in
                 group["params"]}
    else:
        l1_penalty(model, 0.1).backward()
        found = {p for p in model.parameters() if bool(p.grad.any())}
    assert found == weights
    assert parallel.layers[0].bias.ndim == normalized[0].parametrizations.weight.original0.ndim + 1
    named = decay_groups(model, {"3.layers.0.bias": 0.1})  # by name anything may decay
    decaying = [set(group["params"]) for group in named if group["weight_decay"]]
    assert decaying == [{parallel.layers[0].bias}]


def test_shrinkage_is_ridge_and_what_scipy_minimizes():
    X, y = draw(40, 6), draw(40, seed=1)
    H = X.mT @ X / 40
    H = (H + H.mT) / 2
    best = torch.linalg.lstsq(X, y[:, None]).solution[:, 0]
    ridge = Ridge(alpha=40 * 0.3, fit_intercept=False).fit(X.numpy(), y.numpy()).coef_
    np.testing.assert_allclose(shrinkage(H, 0.3) @ best, ridge, atol=1e-10)
    d, H_, b = draw(6, seed=2).exp(), H.numpy(), best.numpy()
    found = minimize(
        lambda w: (w - b) @ H_ @ (w - b) / 2 + (d.numpy() * w * w).sum() / 2, np.zeros(6),
        options={"gtol": 1e-10},
    ).x
    np.testing.assert_allclose(shrinkage(H, d) @ best, found, atol=1e-6)
    both = shrinkage(torch.stack([H, 2 * H]), 0.3)  # batches, and the scale of H and mu together
    torch.testing.assert_close(both, torch.stack([shrinkage(H, 0.3), shrinkage(H, 0.15)]))
    torch.testing.assert_close(shrinkage(H, 0.0), torch.eye(6).double())
    many = draw(4, 6, seed=3).exp()  # several strengths for one H, and each H with its own
    torch.testing.assert_close(shrinkage(H, many), torch.stack([shrinkage(H, d) for d in many]))
    own = shrinkage(torch.stack([H, 2 * H]), many[:2])
    torch.testing.assert_close(own, torch.stack([shrinkage(H, many[0]), shrinkage(2 * H, many[1])]))


@pytest.mark.parametrize(
    ("kind", "options"),
    [(torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adam, {}), (torch.optim.AdamW, {}),
     (torch.optim.RMSprop, {}), (torch.optim.Adagrad, {}), (torch.optim.NAdam, {}),
     (torch.optim.RAdam, {"weight_decay": 0.1}), (torch.optim.Adamax, {})],
)
def test_any_optimizer_steps_and_then_torchs_soft_threshold(kind, options):
    start, target = draw(2, 6)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    proximal = ProximalL1([ours], kind, lam=0.5, lr=0.05, **options)
    plain = kind([theirs], lr=0.05, **options)
    for _ in range(20):
        for p, optimizer in ((ours, proximal), (theirs, plain)):
            optimizer.zero_grad()
            (p - target).square().sum().backward()
            optimizer.step()
        theirs.data = F.softshrink(theirs.data, 0.025)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("momentum", "times"), [(0.0, 1), (0.9, 10)])
def test_the_limit_is_scikit_learns_lasso(momentum, times):
    X, y = draw(60, 12), draw(60, seed=1)
    y = y + 2 * X[:, 0] - X[:, 1]
    w = nn.Parameter(torch.zeros(12).double())
    optimizer = ProximalL1([w], torch.optim.SGD, lam=0.2 * times, lr=0.1 / times, momentum=momentum)
    for _ in range(600):
        optimizer.zero_grad()
        ((X @ w - y).square().mean() / 2).backward()
        optimizer.step()
    lasso = Lasso(alpha=0.2, fit_intercept=False, tol=1e-12, max_iter=100_000)
    lasso = lasso.fit(X.numpy(), y.numpy()).coef_
    np.testing.assert_allclose(w.detach(), lasso, atol=1e-8)
    assert ((w == 0).numpy() == (lasso == 0)).all()
    assert 0 < (lasso == 0).sum() < 12


def test_plain_steps_are_those_of_the_lasso_page():
    start, gradient = draw(2, 50)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    ours.grad = theirs.grad = gradient
    ProximalL1([ours], torch.optim.SGD, lam=2.0, lr=0.3).step()
    ProximalSGD([theirs], lr=0.3, l1=2.0).step()
    torch.testing.assert_close(ours, theirs)


def test_the_threshold_in_place_is_torchs_for_one_tensor_or_several():
    first, second = draw(7), draw(3, 4, seed=1).T  # not contiguous
    expected = [F.softshrink(one, 0.3) for one in (first, second)]
    soft_threshold_(first, 0.3)
    soft_threshold_([second], 0.3)
    assert torch.equal(first, expected[0])
    assert torch.equal(second, expected[1])


def test_no_decay_is_never_the_chosen_one(monkeypatch):
    module = page(KEY).load("experiments")
    monkeypatch.setattr(module, "_trained", lambda run, name, data, method, epochs: [None] * 5)
    # without decay the error is smallest; of the others that of the second is
    monkeypatch.setattr(module, "_errors", lambda nets, x, y: torch.tensor(
        [0.1, 0.4, 0.2, 0.3, 0.5], dtype=torch.float64)[:, None].expand(-1, x.shape[1]))
    monkeypatch.setattr(module, "_single", lambda nets: nn.Identity())
    outcome = page(KEY).experiments()["noisy_labels_mlp"](Run(Seed(0), "quick"), pairs=2)
    for method in ("sgd", "adam_l2", "adamw"):
        assert outcome.metrics[f"digits_{method}_error"] == pytest.approx(0.2)
        assert outcome.metrics[f"digits_{method}_gain"] == pytest.approx(-0.1)


def test_saved_copied_and_scheduled_optimizers_go_on_exactly():
    target = draw(8)

    def made():
        p = nn.Parameter(draw(8, seed=1))
        optimizer = ProximalL1([p], torch.optim.Adam, lam=2.0, lr=0.05)
        return p, optimizer, OneCycleLR(optimizer, 0.1, total_steps=30)

    def go(p, optimizer, schedule, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            (p - target).square().sum().backward()
            optimizer.step()
            schedule.step()

    p, optimizer, schedule = made()
    go(p, optimizer, schedule, 10)
    q, other, later = made()
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    later.load_state_dict(schedule.state_dict())
    q.data.copy_(p.data)
    assert other.param_groups is other.base.param_groups
    assert other.base.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"] != 0.05
    twin = copy.deepcopy(optimizer)
    assert twin.base is not optimizer.base
    assert twin.param_groups[0] is twin.base.param_groups[0]
    go(p, optimizer, schedule, 15)
    go(q, other, later, 15)
    assert torch.equal(p, q)
    assert (p == 0).any()


def test_closures_and_groups():
    w, b = nn.Parameter(draw(5)), nn.Parameter(draw(2, seed=1))
    optimizer = ProximalL1([w], torch.optim.SGD, lam=100.0, lr=0.1)
    optimizer.add_param_group({"params": [b], "lam": 0.0})

    def closure():
        optimizer.zero_grad()
        loss = w.square().sum() + b.square().sum()
        loss.backward()
        return loss.detach()

    expected = float(closure())
    before = b.detach().clone()
    assert float(optimizer.step(closure)) == expected
    assert (w == 0).all()
    torch.testing.assert_close(b.detach(), 0.8 * before)
    far = nn.Parameter(draw(5))
    quasi = ProximalL1([far], torch.optim.LBFGS, lam=100.0, lr=0.1)

    def risk():
        quasi.zero_grad()
        far.square().sum().backward()
        return far.square().sum()

    quasi.step(risk)
    assert (far == 0).all()


def test_networks_become_sparse_and_keep_their_biases():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(200, 10, generator=rng)
    mlp = MLP([10, 20, 1], rng=rng)
    groups = decay_groups(mlp, 0.02, lr=0.05, name="lam")
    assert [group["lam"] for group in groups] == [0.02, 0.0]
    objective = Supervised(F.mse_loss)
    fit(mlp, (x, x[:, :1]), objective, ProximalL1(groups, torch.optim.SGD), epochs=60)
    first, bias = mlp.layers[0].weight, mlp.layers[0].bias
    assert (first[:, 1:] == 0).float().mean() > 0.5
    assert (first[:, 0] != 0).any()
    assert (bias != 0).all()
    assert float(F.mse_loss(mlp(x), x[:, :1]).detach()) < 0.1


def test_penalty_counts_weights_alone_or_what_is_named():
    mlp = MLP([3, 4, 2], rng=torch.Generator().manual_seed(0))
    first, bias, second, _ = mlp.parameters()
    penalty = l1_penalty(mlp, 0.5)
    torch.testing.assert_close(penalty, 0.5 * (first.abs().sum() + second.abs().sum()))
    penalty.backward()
    torch.testing.assert_close(second.grad, 0.5 * second.detach().sign())
    torch.testing.assert_close(l1_penalty(mlp, {"layers.0.bias": 2.0}), 2 * bias.abs().sum())


def test_bad_input_is_told_in_one_sentence():
    theta = torch.ones(3)
    sentence = r"decay: lr\*weight_decay must be < 1; got 1\.5\. Weights would change sign\."
    with pytest.raises(UsageError, match=sentence):
        decay(theta, theta, lr=1.5, mu=1.0)
    with pytest.raises(UsageError, match=r"decay: mu must be in \[0, inf\); got -0\.1"):
        decay(theta, theta, lr=0.1, mu=-0.1)
    mlp, H = MLP([2, 3, 1], rng=torch.Generator()), torch.eye(2)
    with pytest.raises(UsageError, match=r"decay_groups: lr\*weight_decay must be < 1; got 2"):
        decay_groups(mlp, 2.0, lr=1.0)
    for call, knob in ((decay_groups, "mu"), (l1_penalty, "strengths")):
        sentence = rf"{call.__name__}: {knob} must be in \[0, inf\); got (-1|nan)"
        for bad in (-1.0, float("nan"), {"layers.0.weight": -1.0}):
            with pytest.raises(UsageError, match=sentence):
                call(mlp, bad)
        with pytest.raises(UsageError, match=sentence):
            call(nn.BatchNorm1d(2), -1.0)  # also where nothing has it
        with pytest.raises(UsageError, match=r"'layer\.0\.weight'\. Did you mean 'layers\.0\.wei"):
            call(mlp, {"layer.0.weight": 1.0})
    with pytest.raises(UsageError, match=r"shrinkage: mu must be in \[0, inf\); got -1"):
        shrinkage(H, -1.0)
    for shape in ((3,), (5, 3), (2, 3)):
        sentence = r"shrinkage: mu must be of a shape that broadcasts to \(2,\); got 'shape"
        with pytest.raises(UsageError, match=sentence):
            inspect.unwrap(shrinkage)(H, torch.ones(shape))
    with pytest.raises(UsageError, match=r"shrinkage: H must be symmetric; got .* A Hessian is"):
        shrinkage(torch.tensor([[1.0, 0.5], [0.0, 1.0]]), 0.1)
    with pytest.raises(UsageError, match=r"H \+ mu must be positive definite; .* raise mu"):
        shrinkage(torch.tensor([[1.0, 0.0], [0.0, -1.0]]), 0.5)
    p = nn.Parameter(theta)
    with pytest.raises(UsageError, match=r"ProximalL1: lam must be in \[0, inf\); got -1"):
        ProximalL1([{"params": [p], "lam": -1.0}], torch.optim.SGD, lr=0.1)
    optimizer = ProximalL1([p], torch.optim.SGD, lam=1.0, lr=0.1)
    q = nn.Parameter(torch.ones(2))
    for options in ({"lam": -1.0}, {"lam": float("inf")}, {"lr": -0.1}, {"lr": float("nan")}):
        sentence = rf"ProximalL1: {next(iter(options))} must be in \[0, inf\); got "
        with pytest.raises(UsageError, match=sentence):
            optimizer.add_param_group({"params": [q], **options})
        with pytest.raises(UsageError, match=sentence):
            ProximalL1([{"params": [q], **options}], torch.optim.SGD, lr=0.1)
    assert len(optimizer.param_groups) == 1
    with pytest.raises(UsageError, match="base_optimizer must be one with a learning rate"):
        ProximalL1([p], lambda params: _Rateless(params, {}), lam=1.0)


class _Rateless(torch.optim.Optimizer):
    def step(self, closure=None):
        return None
