import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar
from torch import nn
from torch.nn import functional as F
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import ExponentialLR

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit
from principia.optimization import (
    LogisticRisk,
    PredictedChange,
    Quadratic,
    SineBowl,
    best_fixed_lr,
    critical_budget,
    descend,
    proximal_step,
    taylor_prediction,
)

KEY = "optimization/gradient_descent"


def bowl(*start):
    problem = Quadratic([1.0, 10.0], minimizer=torch.tensor([1.0, -1.0]))
    return problem.at(torch.tensor(start or [[3.0, 2.0]], dtype=torch.float64))


def normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("problem.theta.grad = None  # zero_grad", "pass  # zero_grad", "torch_sgd_is_gd"),
        ('"theta": point.clone,', '"theta": lambda: point,', "torch_sgd_is_gd"),
        ("    for upcoming in range(steps):", "    for upcoming in range(1, steps):",
         "best_fixed_step"),
        ("problem.theta.grad).norm(dim=-1)", "problem.theta.grad).norm()",
         "critical_point_within_budget"),
        ("return 2 / (L + mu)", "return 2 / (L + 2 * mu)", "best_fixed_step"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("return -grad / lam", "return -grad / lam**2", "proximal_view",
         ["a bowl: argmin", "logistic risk: no increase", "logistic risk: argmin"]),
        ("return -grad / lam", "return grad / lam", "descent_lemma", ["logistic risk"]),
        ("fall, bend = (g * g).sum(dim=-1), lr / 2 *", "fall, bend = (g * g).sum(dim=-1), lr *",
         "second_order_prediction", ["a quadratic", "too long"]),
        ("bend >= fall\n", "bend > fall\n", "second_order_prediction", ["too long"]),
        ("curvature.item() / 2", "curvature.item()", "second_order_prediction",
         ["logged predictions"]),
        ("dtype=torch.float64).mean(dim=0)", "dtype=torch.float64).sum(dim=0)",
         "second_order_prediction", ["logged every third step, and the training"]),
        ("        set_generator_state(self._batch[0].device, now)\n", "",
         "second_order_prediction", ["logged every third step, and the training"]),
        ("math.ceil(2 * L * gap / tol**2)", "math.ceil(L * gap / 2 / tol)",
         "critical_point_within_budget", ["a slide"]),
        ("(2 * L *", "(2 * L /", "critical_point_within_budget", ["ripples"]),
        ("math.ceil(2 *", "math.floor(2 *", "critical_point_within_budget",
         ["a bowl: whole steps", "ripples: whole steps", "a slide: whole steps"]),
        ("wanted.discard(upcoming)", "pass", "line_search_needs_no_smoothness",
         ["each search is one step"]),
        ("values.sum().backward()", "(values.sum() / 4).backward()",
         "stable_iff_below_two_over_smoothness", ["from 2/L on it does not", "the theory"]),
        ("values.sum().backward()", "pass", "convex_rate_is_sublinear", ["slope", "bound"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_descent_is_the_closed_form_and_every_row_its_own_run():
    problem = bowl([3.0, 2.0], [-1.0, 0.5], [1.0, -1.0])
    trace = descend(problem, SGD(problem.parameters(), lr=0.15), 40, record=("theta", "value"))
    assert trace["theta"].shape == (41, 3, 2)
    assert trace["value"].shape == (41, 3)
    assert trace.step.tolist() == list(range(41))
    factor = (1 - 0.15 * problem.eigenvalues) ** trace.step[:, None, None].double()
    center = torch.tensor([1.0, -1.0], dtype=torch.float64)
    torch.testing.assert_close(trace["theta"], center + factor * (trace["theta"][0] - center))
    torch.testing.assert_close(trace["value"], problem.value(trace["theta"]))
    assert torch.equal(problem.theta, trace["theta"][-1])
    alone = bowl([-1.0, 0.5])
    run = descend(alone, SGD(alone.parameters(), lr=0.15), 40, record=("theta",))
    assert torch.equal(run["theta"][:, 0], trace["theta"][:, 1])


def test_descent_records_the_steps_that_are_asked_for():
    full, some = bowl(), bowl()
    all_steps = descend(full, SGD(full.parameters(), lr=0.1), 20, record=("gradient_norm",))
    chosen = torch.tensor([20, 3, 0, 3])
    few = descend(some, SGD(some.parameters(), lr=0.1), 20, record=("gradient_norm",), at=chosen)
    assert few.step.tolist() == [0, 3, 20]
    assert torch.equal(few["gradient_norm"], all_steps["gradient_norm"][[0, 3, 20]])
    last = full.gradient(full.theta.detach()).norm(dim=-1)
    torch.testing.assert_close(all_steps["gradient_norm"][-1], last)


def test_descent_moves_the_schedule_and_calls_back_after_each_step():
    problem, seen = bowl(), []
    sgd = SGD(problem.parameters(), lr=0.1)

    def project():
        seen.append((sgd.param_groups[0]["lr"], problem.theta.requires_grad))
        problem.theta.clamp_(min=0.5)

    trace = descend(problem, sgd, 5, schedule=ExponentialLR(sgd, 0.5), after=project,
                    record=("theta",))
    assert [lr for lr, _ in seen] == pytest.approx([0.1 * 0.5**k for k in range(1, 6)])
    assert trace["theta"][1:].min() == 0.5
    x, lr = np.array([3.0, 2.0]), 0.1
    for point in trace["theta"][:, 0].numpy():
        np.testing.assert_allclose(point, x)
        x = np.maximum(x - lr * np.array([1.0, 10.0]) * (x - [1, -1]), 0.5)
        lr /= 2


def test_descent_records_another_iterate_and_searching_optimizers_once_a_step():
    problem, points = bowl(), []
    average = problem.theta.detach().clone()

    def update():
        points.append(problem.theta.detach().clone())
        average.lerp_(problem.theta, 1 / (len(points) + 1))

    trace = descend(problem, SGD(problem.parameters(), lr=0.1), 6, iterate=lambda: average,
                    after=update, record=("theta", "value"))
    mean = torch.stack([torch.tensor([[3.0, 2.0]], dtype=torch.float64), *points]).mean(dim=0)
    torch.testing.assert_close(trace["theta"][-1], mean)
    torch.testing.assert_close(trace["value"][-1], problem.value(mean))
    valley = SineBowl().at(torch.tensor([[2.5]]))
    search = torch.optim.LBFGS(valley.parameters(), max_iter=4, line_search_fn="strong_wolfe")
    values = descend(valley, search, 5)["value"]
    assert values.shape == (6, 1)
    assert values[0] == valley.value(torch.tensor([[2.5]], dtype=torch.float64))
    assert values[-1] < 1e-9
    assert values[-1] == valley().detach()


def test_a_search_is_told_the_sum_of_all_rows():
    start = torch.tensor([[2.5], [-1.0], [0.3]], dtype=torch.float64)
    ours, plain = SineBowl().at(start), SineBowl().at(start)
    told = []

    class Listening(SGD):
        def step(self, closure=None):
            told.append(super().step(closure))

    descend(ours, Listening(ours.parameters(), lr=0.1), 1)
    assert told == [plain().detach().sum()]


def test_prediction_is_that_of_a_dense_hessian():
    X, theta = normal(30, 4), normal(6, 4, seed=1)
    risk = LogisticRisk(X, (normal(30, seed=2) > 0).long(), l2=0.1).at(theta)
    change, too_long = taylor_prediction(risk, 30.0)
    for row, point in enumerate(theta):
        margin = risk.signed @ point
        p = torch.sigmoid(-margin)
        g = -p @ risk.signed / 30 + 0.1 * point
        H = (risk.signed.mT * (p * (1 - p))) @ risk.signed / 30 + 0.1 * torch.eye(4)
        expected = -30 * g @ g + 450 * g @ H @ g
        torch.testing.assert_close(change[row], expected)
        assert bool(too_long[row]) == bool(15 * g @ H @ g >= g @ g)
    assert too_long.any()
    assert not taylor_prediction(risk, 1e-3)[1].any()


@pytest.mark.parametrize("make", [
    lambda p: SGD(p, lr=0.05, momentum=0.9, nesterov=True), lambda p: Adam(p, lr=0.1),
    lambda p: torch.optim.LBFGS(p, max_iter=3),
])
def test_predicted_change_is_exact_on_parabolas_for_any_optimizer(make):
    x, y = normal(40, 3), normal(40, 1, seed=1)
    model = nn.Linear(3, 1).double()
    objective = Supervised(F.mse_loss)
    history = fit(model, (x, y), objective, make(model.parameters()), epochs=4, batch_size=16,
                  callbacks=[PredictedChange(objective)], seed=Seed(0)).history
    for row in history:
        assert row["predicted_change"] == pytest.approx(row["actual_change"], abs=1e-12)


def test_predicted_change_flags_steps_that_are_too_long():
    x, y = normal(40, 3), normal(40, 1, seed=1)
    curvature = 2 * float(torch.linalg.eigvalsh(x.mT @ x / 40).max())
    for share, flagged in ((0.5, 0.0), (30.0, 1.0)):
        model, objective = nn.Linear(3, 1, bias=False).double(), Supervised(F.mse_loss)
        sgd = SGD(model.parameters(), lr=share / curvature)
        (row,) = fit(model, (x, y), objective, sgd, steps=1, batch_size=40,
                     callbacks=[PredictedChange(objective)]).history
        assert row["long_steps"] == flagged
        assert (row["actual_change"] > 0) == bool(flagged)


def test_watching_changes_nothing_and_looks_every_so_often():
    x, y = normal(60, 4).float(), (normal(60, seed=1) > 0).long()
    objective = Supervised(F.cross_entropy)

    def train(*callbacks):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = nn.Sequential(
                nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 2)
            )
        sgd = SGD(model.parameters(), lr=0.1)
        return fit(model, (x, y), objective, sgd, epochs=3, batch_size=20, callbacks=callbacks,
                   seed=Seed(3))

    plain, watched = train(), train(PredictedChange(objective, every=4))
    for name, value in plain.model.state_dict().items():
        assert torch.equal(watched.model.state_dict()[name], value), name
    looks = ["actual_change" in row for row in watched.history]  # at steps 0, 4, 8 of 9
    assert looks == [True, True, True]
    sparse = train(PredictedChange(objective, every=6))
    assert ["actual_change" in row for row in sparse.history] == [True, False, True]
    # with the same dice before and after, the prediction is close; with others it would not be
    small = train(PredictedChange(objective)).history[0]
    assert small["predicted_change"] == pytest.approx(small["actual_change"], rel=0.3)


def test_a_stopped_training_goes_on_with_the_same_log(tmp_path):
    x, y = normal(60, 4), normal(60, 1, seed=1)
    objective = Supervised(F.mse_loss)

    def train(folder, looks=math.inf):
        model = nn.Linear(4, 1).double()
        nn.init.zeros_(model.weight)
        nn.init.zeros_(model.bias)
        asked = iter(range(100))
        run = Run(folder=folder, save_every=0.0, asked_to_stop=lambda: next(asked) >= looks)
        sgd = SGD(model.parameters(), lr=0.1)
        return fit(model, (x, y), objective, sgd, epochs=3, batch_size=20, name="watched",
                   callbacks=[PredictedChange(objective, every=2)], run=run, seed=Seed(3)).history

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    with pytest.raises(KeyboardInterrupt):
        train(broken, looks=3)
    assert train(broken) == train(whole)


def test_steps_and_budgets_agree_with_scipy():
    g = normal(5).numpy()
    found = minimize(lambda s: s @ g + 0.7 / 2 * s @ s, np.zeros(5), tol=1e-12).x
    np.testing.assert_allclose(proximal_step(torch.from_numpy(g), 0.7), found, atol=1e-6)
    for L, mu in ((9.0, 1.0), (5.0, 5.0), (1e3, 0.2)):
        worst = minimize_scalar(
            lambda lr, L=L, mu=mu: max(abs(1 - lr * L), abs(1 - lr * mu)), bounds=(0, 2 / mu),
            method="bounded", options={"xatol": 1e-12},
        )
        assert best_fixed_lr(L, mu) == pytest.approx(worst.x, rel=1e-5)
    assert critical_budget(0.0, 3.0, 0.1) == 0
    assert critical_budget(1.0, 1.0, 1.5) == 1  # 0.89 steps are one
    assert critical_budget(2.0, 8.0, 0.5) == 128


def test_quick_experiment_draws_envelopes_and_predictions():
    outcome = page(KEY).experiments()["linear_classifier"](steps=60)
    assert outcome.reached, outcome.missed
    assert set(outcome.figures) == {"log_log", "semi_log", "prediction"}
    assert outcome.metrics["gap_over_bound"] <= 1
    pairs = outcome.figures["prediction"].data[0]
    np.testing.assert_allclose(pairs.y, pairs.x, rtol=0.01)
    assert len(pairs.x) == 6


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError, match=r"best_fixed_lr: mu must be at most L = 1; got 2"):
        best_fixed_lr(1.0, 2.0)
    for mu in (0.0, -1.0):
        with pytest.raises(UsageError, match=r"best_fixed_lr: mu must be in \(0, inf\); got"):
            best_fixed_lr(1.0, mu)
    with pytest.raises(UsageError, match=r"critical_budget: tol must be in \(0, inf\); got 0"):
        critical_budget(1.0, 1.0, 0.0)
    with pytest.raises(UsageError, match=r"proximal_step: lam must be in \(0, inf\); got -1"):
        proximal_step(torch.ones(2), -1.0)
    with pytest.raises(UsageError, match=r"taylor_prediction: lr must be in \(0, inf\); got 0"):
        taylor_prediction(bowl(), 0.0)
    with pytest.raises(UsageError, match=r"PredictedChange: every must be .*; got 0"):
        PredictedChange(Supervised(F.mse_loss), every=0)


def test_descent_refuses_what_cannot_go_down():
    problem = bowl()
    sgd = SGD(problem.parameters(), lr=0.1)
    with pytest.raises(UsageError, match=r"descend: steps must be .*; got 0"):
        descend(problem, sgd, 0)
    for at in ([5], [-1], []):
        with pytest.raises(UsageError, match=r"at must be one or more steps in \[0, 4\]; got"):
            descend(problem, sgd, 4, at=at)
    for lr in (0.0, math.inf):
        with pytest.raises(UsageError, match=r"descend: lr must be in \(0, inf\); got"):
            descend(problem, SGD(problem.parameters(), lr=lr), 4)
    lost = bowl([math.nan, 0.0])
    with pytest.raises(UsageError, match="descend: problem must be finite at the start; got"):
        descend(lost, SGD(lost.parameters(), lr=0.1), 4)
    trace = descend(problem, sgd, 1)
    with pytest.raises(UsageError, match=r"name must be value; got 'theta'\. Pass record=\(\"th"):
        trace["theta"]
