import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.data.digits import digits
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit
from principia.networks import MLP
from principia.regularization import (
    JointLoss,
    SemiSupervised,
    SemiSupervisedLoss,
    SharedTrunk,
    labelled,
    masked_loss,
    shared_subspace,
)

KEY = "regularization/multitask"
NAN = math.nan


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


def net(*sizes, **options):
    return MLP(list(sizes), rng=rng(), **options).double()


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("features = self.trunk(x)", "features = self.trunk(x).detach()", "trunk_gradient_adds"),
        ("(-2 * s).exp() / 2 * terms", "(-s).exp() / 2 * terms", "trunk_gradient_adds"),
        ("if known.any() else outputs[known].sum()", "", "masked_tasks_are_ignored"),
        ("y.isnan() if y.is_floating_point()", "y == 0 if y.is_floating_point()",
         "masked_tasks_are_ignored"),
        ("math.prod(y.shape[1:])).any(dim=1)", "math.prod(y.shape[1:])).all(dim=1)[:0]",
         "masked_tasks_are_ignored"),
        (".to(x.device) >= self.corruption", ".to(x.device) >= self.corruption / 2",
         "unlabelled_data_finds_the_subspace"),
        ("return self.head(self.encoder(x))", "return self.head(self.encoder(x) ** 2)",
         "unlabelled_data_finds_the_subspace"),
        ("return a @ B.mT", "return separate_fits(X, y)", "shared_subspace_helps"),
        ('"...ti,...tp->...ip", rhs, a', '"...ti,...tp->...ip", rhs, a**2',
         "shared_subspace_helps"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("self.weights.get(k, 1.0) * term", "term", "trunk_gradient_adds",
         ["trunk, fixed weights", "trunk, learned weights", "ln σ"]),
        ("+ s * labelled(named[name]).any()", "+ s", "masked_tasks_are_ignored",
         ["learned weights"]),
        ("total = self.alpha * self", "total = self", "masked_tasks_are_ignored",
         ["few labels, all inputs"]),
        ("driver=\"gelsd\").solution[..., 0]", "driver=\"gelsd\").solution[..., 0] * 1.2",
         "shared_subspace_helps", ["error of separate fits"]),
        ("if sweep < sweeps:", "if sweep <= sweeps:", "shared_subspace_helps",
         ["least squares by hand"]),
        ("return self.decoder(self.encoder(x))", "return self.decoder(self.encoder(1.1 * x))",
         "unlabelled_data_finds_the_subspace", ["loss that is left", "gradient"]),
        ("model.reconstruct(x * kept), x)", "model.reconstruct(x * kept), x * kept)",
         "unlabelled_data_finds_the_subspace", ["loss with holes"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_masked_cross_entropy_is_torchs_own_where_there_is_a_label():
    outputs, y = randn(20, 4), torch.randint(4, (20,), generator=rng())
    y[::3] = -100
    ours = masked_loss(F.cross_entropy, outputs, y)
    torch.testing.assert_close(ours, F.cross_entropy(outputs, y))
    y[:] = -100
    assert F.cross_entropy(outputs, y).isnan()  # this is why there is a masked loss
    assert masked_loss(F.cross_entropy, outputs, y) == 0


def test_rows_are_missing_when_any_of_their_numbers_is():
    y = torch.tensor([[1.0, NAN], [1.0, 2.0], [NAN, NAN]])
    assert labelled(y).tolist() == [False, True, False]
    assert labelled(torch.empty(0, 3)).tolist() == []
    turned = torch.zeros(3, 4, 2).transpose(1, 2)  # not in one piece of memory
    turned[1, 0, 3] = NAN
    assert labelled(turned).tolist() == [True, False, True]


def test_the_gradient_of_the_joint_loss_is_right_for_every_parameter():
    model = SharedTrunk(
        net(3, 5, out_activation="tanh"), {"a": net(5, 2), "b": net(5, 1)}, learn_weights=True
    ).double()
    joint = JointLoss({"a": F.cross_entropy, "b": F.mse_loss}, weights={"a": 0.3})
    batch = randn(6, 3), torch.tensor([0, 1, -100, 1, 0, -100]), randn(6, 1, seed=1)
    batch[2][0] = NAN
    names, values = zip(*model.named_parameters(), strict=True)

    def loss(*values):
        class Called:
            log_sigma = {k: dict(zip(names, values, strict=True))[f"log_sigma.{k}"] for k in "ab"}

            def __call__(self, x):
                return torch.func.functional_call(model, dict(zip(names, values, strict=True)), x)

        return joint(Called(), batch, rng())

    assert torch.autograd.gradcheck(loss, values)


def test_learned_weights_settle_where_the_variance_is_the_loss():
    """The minimum over sigma of l / (2 sigma^2) + ln sigma is at sigma^2 = l."""
    model = SharedTrunk(nn.Identity(), {"a": nn.Identity(), "b": nn.Identity()}, learn_weights=True)
    x, a, b = torch.zeros(40, 1), 0.5 * torch.ones(40, 1), 3 * torch.ones(40, 1)
    joint = JointLoss({"a": F.mse_loss, "b": F.mse_loss})
    fit(model, (x, a, b), joint, torch.optim.Adam(model.parameters(), lr=0.1), epochs=150,
        batch_size=40, seed=Seed(0))
    found = [(2 * one).exp().item() for one in model.log_sigma.values()]
    assert found == pytest.approx([0.25, 9.0], rel=0.01)  # Adam's last steps


def test_fit_trains_a_trunk_whose_tasks_are_labelled_on_different_samples():
    x, w = randn(200, 4).float(), randn(4, 2, seed=1).float()
    y = x @ w
    first, second = y[:, :1].clone(), y[:, 1:].clone()
    first[100:], second[:100] = NAN, NAN
    model = SharedTrunk(net(4, 4).float(), {"a": net(4, 1).float(), "b": net(4, 1).float()})
    joint = JointLoss({"a": F.mse_loss, "b": F.mse_loss})
    fit(model, (x, first, second), joint, torch.optim.Adam(model.parameters(), lr=0.05),
        epochs=40, batch_size=20, validation=(x, first, second), seed=Seed(0))
    with torch.no_grad():
        found = torch.cat([*model(x).values()], dim=1)
    assert float((found - y).square().mean()) < 1e-3  # also where it never saw a label


def test_fit_trains_an_autoencoder_to_the_principal_subspace_then_its_head():
    scale = torch.tensor([3.0, 2.0, 0.1, 0.1, 0.1])
    x = randn(500, 5).float() * scale
    y = (x[:, 0] > 0).long()
    model = SemiSupervised(*(net(*sizes).float() for sizes in ([5, 2], [2, 5], [2, 2])))
    repair = SemiSupervisedLoss(corruption=0.0)
    fit(model, x, repair, torch.optim.Adam(model.parameters(), lr=0.02), epochs=60, batch_size=50,
        seed=Seed(0))
    plane = torch.linalg.qr(model.decoder.layers[0].weight.detach())[0]
    assert plane[:2].norm() ** 2 == pytest.approx(2, abs=0.01)  # all of it in the first two axes
    before = [p.clone() for p in model.encoder.parameters()]
    fit(model, (x[:30], y[:30]), Supervised(F.cross_entropy),
        torch.optim.Adam(model.head.parameters(), lr=0.1), epochs=60, seed=Seed(1))
    assert all(map(torch.equal, before, model.encoder.parameters()))
    assert (model(x).argmax(dim=1) == y).double().mean() > 0.95


def test_both_losses_at_once_train_on_few_labels():
    x = randn(400, 6).float() * torch.tensor([3.0, 1, 1, 1, 1, 1])
    y = (x[:, 0] > 0).long()
    few = y.clone()
    few[20:] = -100
    model = SemiSupervised(*(net(*sizes).float() for sizes in ([6, 2], [2, 6], [2, 2])))
    both = SemiSupervisedLoss(alpha=1.0, corruption=0.2)
    trained = fit(model, (x, few), both, torch.optim.Adam(model.parameters(), lr=0.02), epochs=40,
                  batch_size=50, seed=Seed(0))
    assert trained.history[-1]["loss"] < 0.8 * trained.history[0]["loss"]
    assert (model(x).argmax(dim=1) == y).double().mean() > 0.9


def test_holes_are_a_price_on_the_weights():
    """Zeros with chance p: E|Am.x - x|^2 = |(1-p)Ax - x|^2 + p(1-p) sum_j x_j^2 |A_j|^2."""
    A, x, p = randn(4, 4), randn(1, 4, seed=1), 0.3
    model = SemiSupervised(nn.Linear(4, 4, bias=False), nn.Identity(), nn.Identity()).double()
    model.encoder.weight.data.copy_(A)
    many = x.expand(400_000, 4)
    errors = model.reconstruct(many * (torch.rand(many.shape, generator=rng(7)) >= p)) - many
    errors = errors.square().mean(dim=1).detach()
    exact = ((1 - p) * x @ A.T - x).square().sum() + p * (1 - p) * (x**2 @ (A**2).sum(0)).sum()
    loss = SemiSupervisedLoss(corruption=p)(model, (many,), rng(3)).item()
    noise = float(errors.std()) / len(many) ** 0.5
    assert loss == pytest.approx(float(exact) / 4, abs=5 * noise)


def test_without_corruption_every_entry_is_kept(monkeypatch):
    """Also one for which the generator says exactly 0."""
    monkeypatch.setattr(torch, "rand", lambda shape, **_: torch.zeros(shape))
    model = SemiSupervised(nn.Identity(), nn.Identity(), nn.Identity())
    assert SemiSupervisedLoss(corruption=0.0)(model, (randn(3, 4),), rng()) == 0


def test_the_reconstruction_is_a_mean_over_samples_and_entries():
    """The formula of the page: the sum of squares over N samples of D entries, over N D."""
    x, alpha = randn(7, 5), 3.0
    model = SemiSupervised(net(5, 2), net(2, 5), nn.Identity())
    loss = SemiSupervisedLoss(alpha=alpha, corruption=0.0)(model, (x,), rng())
    errors = (model.decoder(model.encoder(x)) - x).square().sum(dim=1)
    torch.testing.assert_close(loss, alpha / (7 * 5) * errors.sum())
    assert r"\alpha\,\frac1{ND}\sum_{i=1}^N" in page(KEY).load().__doc__


@pytest.mark.parametrize(("T", "n", "d", "k"), [(6, 12, 5, 2), (10, 4, 8, 1), (3, 20, 4, 3)])
def test_the_shared_subspace_is_a_stationary_point_of_the_squared_error(T, n, d, k):
    X, y = randn(2, T, n, d), randn(2, T, n, seed=1)
    W = shared_subspace(X, y, k, sweeps=1000)
    _, s, Vh = torch.linalg.svd(W)
    assert (s[:, k:] < 1e-9).all()
    B, a = Vh[:, :k].mT.clone().requires_grad_(), (W @ Vh[:, :k].mT).clone().requires_grad_()
    loss = ((X @ (a @ B.mT)[..., None])[..., 0] - y).square().sum()
    for gradient in torch.autograd.grad(loss, (a, B)):
        assert gradient.abs().max() < 1e-6


def test_full_rank_is_least_squares_for_each_task():
    X, y = randn(4, 15, 3), randn(4, 15, seed=1)
    theirs = torch.stack([torch.linalg.lstsq(one, two[:, None]).solution[:, 0]
                          for one, two in zip(X, y, strict=True)])
    torch.testing.assert_close(shared_subspace(X, y, 3), theirs)
    torch.testing.assert_close(shared_subspace(X, y, 99), theirs)


def test_an_unrelated_second_task_runs_with_learned_weights(monkeypatch):
    x, y, *test = digits()
    monkeypatch.setattr(page(KEY).load("experiments"), "_digits", lambda run: ((x, y), tuple(test)))
    outcome = page(KEY).experiments()["two_tasks"](
        Run(Seed(0)), second="balance", learn_weights=True, pairs=2, labels=100, units=32
    )
    assert set(outcome.figures) == {"digit", "second"}
    assert outcome.metrics["digit_score"] > 0.3  # chance is 0.1
    assert outcome.metrics["second_score"] > 0.1  # of the variance


def test_bad_input_is_told_in_one_sentence():
    heads = {"kind": nn.Linear(2, 3), "size": nn.Linear(2, 1)}
    model = SharedTrunk(nn.Linear(4, 2), heads)
    x, kind, size = torch.ones(2, 4), torch.tensor([0, 1]), torch.ones(2, 1)
    good = {"kind": F.cross_entropy, "size": F.mse_loss}
    with pytest.raises(UsageError, match=r"SharedTrunk: heads must be one or more modules"):
        SharedTrunk(nn.Linear(4, 2), {})
    wrong = JointLoss({"kind": F.cross_entropy, "sise": F.mse_loss})
    with pytest.raises(UsageError, match=r"heads must be named like the losses, kind, sise; got"):
        wrong(model, (x, kind, size), rng())
    with pytest.raises(UsageError, match=r"labels must be named .*\['kind', 'sizes'\].*Did you"):
        JointLoss(good).terms(model(x), {"kind": kind, "sizes": size})
    with pytest.raises(UsageError, match=r"batch must be x and labels of 2 tasks, kind, size; got"):
        JointLoss(good)(model, (x, kind), rng())
    words = r"weights must be named like the losses, kind, size; got \['sizes'\]\. Did you mean"
    with pytest.raises(UsageError, match=f"JointLoss: {words} 'size'"):
        JointLoss(good, weights={"sizes": 1.0})
    JointLoss(good, weights={"size": 1.0})  # those that are left out are 1
    with pytest.raises(UsageError, match=r"weights\['size'\] must be in \[0, inf\); got -1"):
        JointLoss(good, weights={"size": -1.0})
    with pytest.raises(UsageError, match=r"corruption must be in \[0, 1\); got 1"):
        SemiSupervisedLoss(corruption=1)
    with pytest.raises(UsageError, match=r"alpha must be in \[0, inf\); got -1"):
        SemiSupervisedLoss(alpha=-1)
    for shape, k in (((3, 1, 4), 2), ((2, 3, 9), 2)):
        with pytest.raises(UsageError, match=r"X must be 2 or more samples of each task"):
            shared_subspace(torch.ones(*shape), torch.ones(*shape[:2]), k)


@pytest.mark.parametrize("name", ["type", "values", "a.b", "", "training", "copy"])
@pytest.mark.parametrize("learn_weights", [False, True])
def test_names_that_torch_has_taken(name, learn_weights):
    words = rf"heads must be modules by names without a dot that .*; got '{name}'\. Call it "
    with pytest.raises(UsageError, match=f"SharedTrunk: {words}") as caught:
        SharedTrunk(nn.Linear(4, 2), {name: nn.Linear(2, 1)}, learn_weights=learn_weights)
    better = str(caught.value).split("Call it ")[1].rstrip(".")
    SharedTrunk(nn.Linear(4, 2), {better: nn.Linear(2, 1)}, learn_weights=learn_weights)


def test_a_task_without_a_label_in_the_batch_adds_nothing():
    model = SharedTrunk(nn.Linear(4, 2), {"a": nn.Linear(2, 3), "b": nn.Linear(2, 1)})
    batch = torch.ones(5, 4), torch.full((5,), -100), torch.full((5, 1), NAN)
    loss = JointLoss({"a": F.cross_entropy, "b": F.mse_loss})(model, batch, rng())
    loss.backward()
    assert loss == 0
    assert all((p.grad == 0).all() for p in model.parameters())
