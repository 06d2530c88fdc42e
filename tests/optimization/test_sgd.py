import numpy as np
import pytest
import torch
from scipy import stats
from scipy.linalg import solve_discrete_lyapunov
from sklearn.metrics import log_loss, zero_one_loss
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.lab.params import UsageError
from principia.networks.mlp import MLP
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Quadratic, noisy
from principia.optimization.sgd import (
    batches,
    empirical_risk,
    gradient_variance,
    per_sample_gradients,
    zero_one_risk,
)

KEY = "optimization/sgd"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def classifier():
    rng = generator()
    model = MLP([5, 7, 3], activation="tanh", rng=rng).double()
    x = torch.randn(20, 5, generator=rng, dtype=torch.float64)
    return model, x, torch.randint(3, (20,), generator=rng)


def flat_gradient(model, loss):
    return torch.cat([one.flatten() for one in torch.autograd.grad(loss, list(model.parameters()))])


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("iter(rows.split(size))", "iter(rows[: n // size * size].split(size))",
         "permutation_sees_each_once"),
        ("rows = labels.argsort(stable=True)", "rows = torch.arange(n)", "sorted_order_unlearns"),
        ("!= y).sum()) / len(y)", "== y).sum()) / len(y)", "sorted_order_unlearns"),
        ("in_dims=(None, 0, 0))(parameters, x, y)", "in_dims=(None, 0, 0))(parameters, x, 1 - y)",
         "minibatch_gradient_is_unbiased"),
        ("rest = gradients - gradients", "rest = gradients - 0 * gradients",
         "variance_falls_as_one_over_batch"),
        ("(rest**2).sum(dim=-1)", "(rest**2).mean(dim=-1)", "variance_falls_as_one_over_batch"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("rows = torch.randperm(n, generator=rng)", "rows = torch.arange(n)",
         "permutation_sees_each_once", ["an order comes again"]),
        ("rows.split(size)", "rows.tensor_split(-(-n // size))", "permutation_sees_each_once",
         ["sizes"]),
        ("rows = labels.argsort(stable=True)", "rows = labels.argsort(descending=True)",
         "permutation_sees_each_once", ["fixed, and class by class"]),
        ("(rest**2).sum(dim=-1)", "(rest**2).mean(dim=-1)", "variance_falls_as_one_over_batch",
         ["with replacement"]),
        ("(theta @ self.X.mT - self.y).square().mean(dim=-1) / 2",
         "(theta @ self.X.mT - self.y).square().mean(dim=-1)", "minibatch_gradient_is_unbiased",
         ["all samples at once"]),
        ("return (theta * self.slopes).sum(dim=-1)", "return (2 * theta * self.slopes).sum(dim=-1)",
         "robbins_monro_window", ["way, and its noise"]),
        ("-(n**-0.5), n**-0.5", "-(m**-0.5), m**-0.5", "sorted_order_unlearns", ["first weights"]),
        ("for layer in self.layers[:-1]:", "for layer in self.layers[:-2]:",
         "sorted_order_unlearns", ["networks side by side, and alone"]),
        ("return float(loss(outputs_of(model, x), y))",
         "return 1 + float(loss(outputs_of(model, x), y))",
         "per_sample_gradients_are_autograds", ["risks, and the mode of the model"]),
        ("(rest**2).sum(dim=-1)", "(rest**2).mean(dim=-1)", "per_sample_gradients_are_autograds",
         ["variance"]),
        ("rows = torch.randint(n, (n,), generator=rng)", "rows = torch.randperm(n, generator=rng)",
         "permutation_sees_each_once", ["seen by free draws"]),
        ("y[None]).sum()", "y[None]).sum() / 2", "minibatch_gradient_is_unbiased",
         ["batches of one"]),
        ("return float(loss(outputs_of(model, x), y))",
         "return float(loss(outputs_of(model, x), y)) / 2", "empirical_risk_is_optimistic",
         ["one set alone"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_per_sample_gradients_are_those_of_autograd_one_by_one():
    model, x, y = classifier()
    rows = per_sample_gradients(model, F.cross_entropy, x, y)
    alone = torch.stack([
        flat_gradient(model, F.cross_entropy(model(x[i : i + 1]), y[i : i + 1])) for i in range(20)
    ])
    torch.testing.assert_close(rows, alone)
    assert not rows.requires_grad
    assert all(one.grad is None for one in model.parameters())


def test_sgd_steps_along_the_mean_of_its_batch():
    model, x, y = classifier()
    rows = per_sample_gradients(model, F.cross_entropy, x, y)
    before = nn.utils.parameters_to_vector(model.parameters()).detach()
    (chosen, *_) = batches(20, 6, rng=generator(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    F.cross_entropy(model(x[chosen]), y[chosen]).backward()
    optimizer.step()
    after = nn.utils.parameters_to_vector(model.parameters()).detach()
    torch.testing.assert_close(after, before - 0.3 * rows[chosen].mean(dim=0))


def test_per_sample_gradients_of_images_and_of_a_normalized_network_in_evaluation_mode():
    # torch's layers draw their weights from the global generator
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))
    model.double().eval()
    x = torch.randn(4, 1, 4, 4, generator=generator(), dtype=torch.float64)
    y = torch.tensor([0, 2, 1, 1])
    mean = flat_gradient(model, F.cross_entropy(model(x), y))
    found = per_sample_gradients(model, F.cross_entropy, x, y).mean(dim=0)
    torch.testing.assert_close(found, mean)


def test_gradient_variance_is_the_trace_of_numpys_covariance():
    gradients = torch.randn(3, 40, 6, generator=generator(), dtype=torch.float64)
    traces = [np.trace(np.cov(one.numpy().T, bias=True)) for one in gradients]
    np.testing.assert_allclose(gradient_variance(gradients), traces)


def test_every_order_deals_what_it_promises():
    labels = torch.tensor([2, 0, 1, 0, 2, 1, 0])
    dealt = {
        order: list(batches(7, 3, order=order, rng=generator(), labels=labels))
        for order in ("permutation", "replacement", "fixed", "sorted")
    }
    for one in dealt.values():
        assert [len(rows) for rows in one] == [3, 3, 1]
    rows = {order: torch.cat(one) for order, one in dealt.items()}
    assert rows["permutation"].sort().values.tolist() == list(range(7))
    assert rows["fixed"].tolist() == list(range(7))
    assert rows["sorted"].tolist() == [1, 3, 6, 2, 5, 0, 4]


@pytest.mark.parametrize("order", ["permutation", "replacement"])
def test_every_sample_has_the_same_chance_at_every_place(order):
    rng = generator(2)
    rows = torch.stack([torch.cat(list(batches(6, 4, order=order, rng=rng))) for _ in range(6000)])
    for place in rows.T:
        assert stats.chisquare(np.bincount(place.numpy(), minlength=6)).pvalue > 1e-6


def test_one_seed_gives_one_order():
    first, again = (torch.cat(list(batches(50, 8, rng=generator(3)))) for _ in range(2))
    assert torch.equal(first, again)


def test_risks_are_those_of_scikit_learn():
    model, x, y = classifier()
    model.train()
    outputs = model(x).detach()
    wrong = zero_one_loss(y, outputs.argmax(dim=1))
    assert zero_one_risk(model, (x, y)) == pytest.approx(wrong)
    loss = log_loss(y, outputs.softmax(dim=1), labels=range(3))
    assert empirical_risk(model, (x, y), F.cross_entropy) == pytest.approx(loss)
    assert loss / np.log(2) >= wrong  # in bits the surrogate is above the errors
    assert model.training


def test_the_ball_solves_lyapunovs_equation():
    H, lr, sigma, runs = np.array([[2.0, 0.5], [0.5, 1.0]]), 0.3, 1.5, 20_000
    shrink = np.eye(2) - lr * H
    exact = solve_discrete_lyapunov(shrink, lr**2 * sigma**2 * np.eye(2))
    lam, Q = (torch.from_numpy(one) for one in np.linalg.eigh(H))
    bowl = Quadratic(lam, rotation=Q).at(torch.zeros(runs, 2))
    cloud = noisy(bowl, sigma, generator())
    descend(cloud, torch.optim.SGD(cloud.parameters(), lr=lr), 100, at=[100])
    theta = cloud.theta.detach().numpy()
    np.testing.assert_allclose(np.cov(theta.T), exact, atol=5 * exact.max() * (2 / runs) ** 0.5)
    formula = lr * sigma**2 / (lam * (2 - lr * lam))
    np.testing.assert_allclose(np.diag(Q.mT.numpy() @ exact @ Q.numpy()), formula)


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError, match=r"batches: size must be an integer in \[1, 5\]; got 6\."):
        batches(5, 6)
    with pytest.raises(UsageError, match=r"batches: size must be an integer in \[1, inf\); got 0"):
        batches(5, 0)
    with pytest.raises(UsageError, match=r"order must be one of 'permutation'.*Did you mean"):
        batches(5, 2, order="permutations")
    with pytest.raises(UsageError, match=r"labels must be of shape \(5,\) for .* got None"):
        batches(5, 2, order="sorted")
    with pytest.raises(UsageError, match=r"labels must be of shape \(5,\) for .* got \(4,\)"):
        batches(5, 2, order="sorted", labels=torch.zeros(4))
    x = torch.zeros(2, 3)
    need = r"^sgd: per-sample gradients need independent samples; got BatchNorm1d "
    with pytest.raises(UsageError, match=need + r"in train mode\. Call \.eval\(\)\.$"):
        per_sample_gradients(nn.Sequential(nn.BatchNorm1d(3)), F.mse_loss, x, x)
    with pytest.raises(UsageError, match=need + r"without running statistics\. Build it"):
        per_sample_gradients(
            nn.BatchNorm1d(3, track_running_stats=False).eval(), F.mse_loss, x, x
        )
