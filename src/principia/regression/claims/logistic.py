r"""Logistic regression: what is true of it, and what would refute it.

Knobs:
    points: Points in the data, or scores at which functions are compared.
    width: How far scores reach on both sides of 0.
    second: The formula for the second derivative of $\sigma$; that with a plus is wrong.
    function: Which function has to be convex; $\sigma$ itself is not.
    base: The base of the logarithm; beyond 2 the curve falls below the error at 0.
    form: The formula of the loss; the naive one takes the logarithm of 0 far out.
    dim: Features of a point, each with its weight.
    residual: What multiplies $x_i$; the other sign climbs the loss.
    steps: Steps of gradient descent.
    rule: The optimizer; Adam rescales coordinates and so leaves the span.
    chords: Chords between random weights that are laid above the risk.
    loss: The loss of a point; the squared error of $\sigma$ is not convex.
    l2: The price $\lambda$ on the squared weights; with one there is always a minimum.
    intercept: Whether the model has an intercept, by whose equation the means match.
    price: How many times our price that of scikit-learn is; only at 1 both minimize one function.
    problems: Independent data sets.
    gap: How far the classes are apart.
"""

import contextlib
import math
import warnings
from typing import Annotated, Any, Literal

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F

from principia.connectionism.margin import MaxMargin
from principia.lab.data.synthetic import separable_points
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
)
from principia.lab.params import Range, UsageError
from principia.lab.pictures import Rule
from principia.lab.seeds import Seed
from principia.lab.training.estimators import fit_quietly
from principia.regression.logistic import IRLS, UNIT, logistic_loss, logit, zero_one_bound

Points = Annotated[int, Range(10, 20_000)]
Width = Annotated[float, Range(1, 30)]
ROUNDED = "1-σ is rounded by 2^-53, which is e^|z| as large a share of it"


@claim(control={"second": "s(1-s)(1+2s)"}, refutes=["second derivative"], source="Verhulst 1845")
def logistic_function(
    seed: Seed, *, points: Points = 2000, width: Width = 20.0,
    second: Literal["s(1-s)(1-2s)", "s(1-s)(1+2s)"] = "s(1-s)(1-2s)",
) -> Evidence:
    r"""$\sigma-\frac12$ is odd; $\sigma'=\sigma(1-\sigma)\le\frac14$; convex, then concave."""
    z = _scores(seed, points, width)
    # a probability is what e to the minus surprise says
    s, slope, bend = _with_derivatives(lambda u: (-logistic_loss(torch.ones_like(u), u)).exp(), z)
    mirrored = (-logistic_loss(torch.zeros_like(z), z)).exp()  # of the other label
    expected = s * (1 - s) * (1 + 2 * s if second == "s(1-s)(1+2s)" else 1 - 2 * s)
    return every({
        "second derivative": equal_to_rounding(bend, expected).drawn(
            Series("autograd", z, bend), Series(second, z, expected, role="predicted"),
            x="z", y="second derivative of σ",
        ),
        "torch.sigmoid": equal_to_rounding(s, z.sigmoid()),
        "logit inverts": equal(
            logit(s), z, tol=8 * UNIT * (1 + z.abs().exp()), why=f"near 1 {ROUNDED}"),
        "odd": equal_to_rounding(s - 0.5, 0.5 - mirrored),
        "slope": equal_to_rounding(slope, s * (1 - s)),
        "slope below 1/4": at_most(slope, 0.25, slack=UNIT, why="rounding of 1/4"),
        "convex, then concave": at_least(
            -z.sign() * bend, 0.0, slack=UNIT, why="rounding of a difference of two slopes"),
    })


def _scores(seed: Seed, points: int, width: float) -> Tensor:
    """Draw scores within +-width, sorted, with both ends and 0 among them."""
    drawn = width * (2 * torch.rand(points - 3, generator=seed.torch(), dtype=torch.float64) - 1)
    return torch.cat([drawn, torch.tensor([-width, 0.0, width])]).sort().values


def _with_derivatives(function: Any, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Give a function of single numbers with its first and second derivative, by autograd."""
    z = z.clone().requires_grad_()
    value = function(z)
    (slope,) = torch.autograd.grad(value.sum(), z, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), z)
    return value.detach(), slope.detach(), bend


@claim(control={"function": "sigmoid"}, refutes=["strictly convex"], source="by differentiation")
def log_sigmoid(
    seed: Seed, *, points: Points = 2000, width: Width = 20.0,
    function: Literal["-log sigmoid", "sigmoid"] = "-log sigmoid",
) -> Evidence:
    r"""$(\ln\sigma)'=1-\sigma$, $(\ln\sigma)''=-\sigma(1-\sigma)<0$: $-\ln\sigma$ is convex."""
    z = _scores(seed, points, width)
    s, loss = z.sigmoid(), _with_derivatives(lambda u: logistic_loss(torch.ones_like(u), u), z)
    curve = loss if function == "-log sigmoid" else _with_derivatives(torch.sigmoid, z)
    return every({
        "strictly convex": never(curve[2] <= 0, why="a theorem").drawn(
            Series(function, z, curve[0], style="line"), x="z", y="function"),
        "first derivative": equal_to_rounding(-loss[1], 1 - s),
        "second derivative": equal_to_rounding(-loss[2], -s * (1 - s)),
    })


@claim(
    control={"base": math.e}, refutes=["above the error"],
    source="Bartlett, Jordan and McAuliffe 2006",
    misprint=r"the natural $-\ln\sigma$ as upper bound of the 0/1 error: it is 0.693 at 0",
)
def surrogate_bound(
    seed: Seed, *, points: Points = 2000, width: Width = 20.0,
    base: Annotated[float, Range(1.1, 10)] = 2.0,
) -> Evidence:
    r"""$-\log_2\sigma(z)\ge1\{z\le0\}$: as an upper bound of the 0/1 error, the loss is in bits."""
    z = _scores(seed, points, width)
    bound = zero_one_bound(z) if base == 2 else zero_one_bound(z, base)
    error = (z <= 0).double()
    return every({
        "above the error": at_least(bound, error, slack=4 * UNIT, why="rounding at 0").drawn(
            Series(f"-log σ, base {base:.3g}", z, bound, style="line"),
            Series("0/1 error", z, error, role="bound", style="steps"), x="margin z", y="loss",
        ),
        "log 2 at 0": equal_to_rounding(bound[z == 0], [math.log(2, base)]),
        "minus the logarithm": equal_to_rounding(
            bound, (1 + (-z).exp()).log() / math.log(base)),
    })


@claim(control={"form": "naive"}, refutes=["finite"], source="by construction")
def two_forms(
    seed: Seed, *, points: Points = 2000, width: Width = 30.0,
    form: Literal["stable", "naive"] = "stable",
) -> Evidence:
    r"""Both formulas of the loss agree; the one with $\ln\sigma((2y-1)z)$ is finite everywhere."""
    z = _scores(seed, points, width)
    y = torch.randint(0, 2, z.shape, generator=seed.child("labels").torch()).double()
    far = torch.tensor([200.0, -200.0, 1e4, -1e4]).repeat(2)  # float32
    labels = torch.arange(8) // 4
    loss = logistic_loss(labels, far) if form == "stable" else _naive_loss(labels, far)
    signs, given = 2 * y[:40] - 1, z[:40]
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        converted = torch.stack([logistic_loss(signs, given), logistic_loss(-signs, given)])
        logistic_loss(y.bool(), z)
        logistic_loss(torch.ones_like(z), z)
        with contextlib.suppress(UsageError):  # -1 and 0 are neither
            logistic_loss(signs.clamp(max=0), given)
    margin, seen = (2 * labels - 1) * far, loss.isfinite()
    of_signs = torch.stack([F.softplus(-signs * given), F.softplus(signs * given)])
    return every({
        "labels -1 and +1": equal_to_rounding(converted, of_signs),
        "of which a note tells": equal(len(noted), 2, tol=0, why="one for each of two calls"),
        "finite": never(~loss.isfinite(), why="the loss of 1e4 is 1e4 or 0").drawn(
            Series(form, margin[seen], loss[seen]), Rule("wrong | right side", x=0, role="gray"),
            Series("max(0, -margin)", margin.sort().values, F.relu(-margin.sort().values),
                   "predicted"), x="margin, in float32", y="loss, where it is finite"),
        "far away": equal(
            loss, F.relu((1 - 2 * labels) * far), tol=math.exp(-200), why="ln(1+e^-200)"),
        "two formulas": equal(
            logistic_loss(y, z), _naive_loss(y, z), tol=4 * UNIT * (40 + z.abs().exp()),
            why=f"{ROUNDED}; the loss is below 40"),
        "torch": equal_to_rounding(
            logistic_loss(y, z), F.binary_cross_entropy_with_logits(z, y, reduction="none")),
    })


def _naive_loss(y: Tensor, z: Tensor) -> Tensor:
    """Compute the first formula of the loss as it is printed."""
    s = 1 / (1 + (-z).exp())
    return -y * s.log() - (1 - y) * (1 - s).log()


@claim(control={"residual": "y - sigma"}, source="Cox 1958")
def gradient(
    seed: Seed, *, points: Annotated[int, Range(5, 2000)] = 200,
    dim: Annotated[int, Range(1, 100)] = 5,
    residual: Literal["sigma - y", "y - sigma"] = "sigma - y",
) -> Evidence:
    r"""The loss of one point has the gradient $\nabla\ell_i=(\sigma(w\cdot x_i)-y_i)\,x_i$."""
    X, y, w = _noisy_labels(seed, points, dim)
    copies = w.repeat(points, 1).requires_grad_()  # one w a point, so that gradients stay apart
    logistic_loss(y, (X * copies).sum(dim=1)).sum().backward()
    sign = 1 if residual == "sigma - y" else -1
    expected = sign * ((X @ w).sigmoid() - y)[:, None] * X
    score, found, hit = (X @ w).sort(), copies.grad, y == 1  # type: ignore[assignment]
    share = (found * X).sum(dim=1) / X.square().sum(dim=1)  # type: ignore[operator]
    s = sign * score.values.sigmoid()
    return equal_to_rounding(found, expected).named("gradients of the points").drawn(
        Series("y = 1", (X @ w)[hit], share[hit], "orange", "points"),
        Series("y = 0", (X @ w)[~hit], share[~hit], "blue", "points"),
        Series(residual, score.values, s, "predicted"),
        Series(residual, score.values, s - sign, "predicted"),
        x="score w·x", y="gradient, in units of x")


def _noisy_labels(seed: Seed, points: int, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw Gaussian points, labels 0 and 1 with log-odds w.x - 1, and w."""
    rng = seed.torch()
    X = torch.randn(points, dim, generator=rng, dtype=torch.float64)
    w = torch.randn(dim, generator=rng, dtype=torch.float64)
    return X, (X @ w - 1).sigmoid().bernoulli(generator=rng), w


@claim(control={"rule": "adam"}, source="by construction")
def iterates_in_span(
    seed: Seed, *, dim: Annotated[int, Range(30, 500)] = 50,
    points: Annotated[int, Range(2, 20)] = 20, steps: Annotated[int, Range(10, 2000)] = 200,
    rule: Literal["gradient", "adam"] = "gradient",
) -> Evidence:
    r"""Gradient descent, full or stochastic, never leaves the span of its start and the points."""
    X, y, start = _noisy_labels(seed, points, dim)
    basis = torch.linalg.qr(torch.vstack([start, X]).T)[0]  # (dim, points + 1)
    drawn = torch.randint(0, points, (steps, 1), generator=seed.child("order").torch())
    make = {"gradient": torch.optim.SGD, "adam": torch.optim.Adam}[rule]
    left = {}
    for name, batches in (("full", [slice(None)] * steps), ("stochastic", drawn)):
        w, iterates = start.clone().requires_grad_(), []
        optimizer = make([w], lr=0.1)
        for rows in batches:
            optimizer.zero_grad()
            logistic_loss(y[rows], X[rows] @ w).mean().backward()
            optimizer.step()
            iterates.append(w.detach().clone())
        path = torch.stack(iterates)
        left[name] = (path - path @ basis @ basis.T).norm(dim=1) / path.norm(dim=1)
    why = "rounding of an orthonormal projection"
    return every({name: at_most(part, 1e-10, why=why) for name, part in left.items()}).drawn(
        *(Series(f"{name} {rule}", range(1, steps + 1), part + 1e-18, "other")
          for name, part in left.items()),
        Rule("rounding", y=1e-10), x="step", y="share of w outside of the span", log="y")


@claim(control={"loss": "squared"}, refutes=["chords"], source="Boehning and Lindsay 1988")
def convex_and_smooth(
    seed: Seed, *, points: Annotated[int, Range(5, 200)] = 50,
    dim: Annotated[int, Range(1, 20)] = 5, chords: Annotated[int, Range(1000, 20_000)] = 10_000,
    loss: Literal["logistic", "squared"] = "logistic",
) -> Evidence:
    r"""$\nabla^2h=X^\top\mathrm{diag}(\sigma(1-\sigma))X/s$ lies between 0 and $X^\top X/4s$."""
    X, y, _ = _noisy_labels(seed, points, dim)
    rng = seed.child("chords").torch()

    def risk(w: Tensor, kind: str = "logistic") -> Tensor:  # (B, dim) to (B,)
        z = w @ X.T
        each = (z.sigmoid() - y) ** 2 if kind == "squared" else logistic_loss(y.expand_as(z), z)
        return each.mean(dim=1)

    a, b = 3 * torch.randn(2, chords, dim, generator=rng, dtype=torch.float64)
    t = torch.rand(chords, 1, generator=rng, dtype=torch.float64)
    chord = t[:, 0] * risk(a, loss) + (1 - t[:, 0]) * risk(b, loss)
    places = torch.cat([torch.zeros(1, dim), a[:100]]).requires_grad_()  # L is attained at 0
    (slopes,) = torch.autograd.grad(risk(places).sum(), places, create_graph=True)
    columns = [torch.autograd.grad(one.sum(), places, retain_graph=True)[0] for one in slopes.T]
    z = places.detach() @ X.T
    weights = z.sigmoid() * (-z).sigmoid() / points
    measured = torch.stack(columns, dim=-1)  # (places, dim, dim)
    curvature, norms = torch.linalg.eigvalsh(measured), places.detach().norm(dim=1)
    smooth = float(torch.linalg.eigvalsh(X.T @ X)[-1]) / (4 * points)
    slack, why = 1e-13 * smooth, "a theorem; rounding of eigenvalues, relative to L"
    return every({
        "chords": never(
            risk(t * a + (1 - t) * b, loss) > chord * (1 + 1e-12), why="a theorem; 1e-12 rounds"),
        "Hessian": equal_to_rounding(measured, torch.einsum("ps,si,sj->pij", weights, X, X)),
        "not negative": at_least(curvature, 0.0, slack=slack, why=why),
        "at most L": at_most(curvature, smooth, slack=slack, why=why).drawn(
            Series("largest curvature", norms, curvature[:, -1]),
            Series("L", [0.0, float(norms.max())], [smooth] * 2, role="bound"),
            x="‖w‖", y="eigenvalue of the Hessian"),
        "L at 0": equal_to_rounding(curvature[0, -1], smooth),
    })


@claim(
    control={"intercept": False}, refutes=["free", "with a price"],
    source="the bias's normal equation",
)
def mean_matching(
    seed: Seed, *, points: Annotated[int, Range(200, 5000)] = 300,
    dim: Annotated[int, Range(1, 8)] = 5, l2: Annotated[float, Range(0.001, 10)] = 0.1,
    intercept: bool = True,
) -> Evidence:
    r"""At the optimum of a model with intercept the mean prediction is the share of class 1."""
    X, y = (part.numpy() for part in _noisy_labels(seed, points, dim)[:2])
    parts = {}
    for name, price in (("free", 0.0), ("with a price", l2)):
        # defaults where they are meant
        more: dict[str, Any] = {"l2": price} if price else {}
        more |= {} if intercept else {"fit_intercept": False}
        model = IRLS(**more).fit(X, y)
        parts[name] = equal(
            model.predict_proba(X)[:, 1].mean(), y.mean(), tol=1e-8, why="Newton stops at 1e-8")
        parts[f"steps, {name}"] = at_most(
            model.n_iter_, 12, why="near the minimum every Newton step doubles the digits")
    return every(parts)


@claim(
    control={"price": 2.0}, refutes=["weights", "losses"],
    source="Green 1984; Pedregosa et al. 2011, scikit-learn",
)
def irls_is_scikit_learns(
    seed: Seed, *, points: Annotated[int, Range(50, 2000)] = 90,
    price: Annotated[float, Range(0.1, 10)] = 1.0,
) -> Evidence:
    r"""IRLS minimizes the mean loss plus $\frac\lambda2\Vert w\Vert^2$, as libraries do."""
    rng, found, known = seed.numpy(), ([], [], []), ([], [], [])
    wrong, ends, falls = [], [], []
    X = rng.normal(size=(points, 3)) * [1.0, 5.0, 0.2] + [0.0, 2.0, -1.0]
    odds = X @ [1.0, -0.4, 2.0]
    noisy = np.where(rng.random(points) < 1 / (1 + np.exp(-odds)), "yes", "no")
    exact = np.where(odds > 0, "yes", "no")  # separable: only a price holds w back
    apart = X + 0.5 * np.sign(odds)[:, None] * [1.0, -0.4, 2.0]
    twice, many = np.column_stack([X, X[:, 0]]), np.repeat(X, 60, axis=0)
    tails = np.random.default_rng(940)  # heavy ones, where plain Newton steps run away
    size = int(tails.integers(6, 60)), int(tails.integers(1, 4))
    far = tails.normal(size=size) * np.exp(2 * tails.normal(size=(size[0], 1)))
    chance = 1 / (1 + np.exp(-(far[:, 0].clip(-300, 300) + 4 * tails.normal())))
    drawn = np.where(tails.random(size[0]) < chance, "yes", "no")
    cases = [
        (far, drawn, 0.0, True), (X, noisy, 0.0, True), (X, noisy, 0.0, False),
        (X, noisy, 0.03, True),
        (apart, exact, 1.0, True), (apart, exact, 0.001, False), (twice, noisy, 0.1, True),
        (many, noisy.repeat(60), 0.01, True),
    ]
    for inputs, y, l2, intercept in cases:
        s = len(inputs)
        settings: dict[str, Any] = {"l2": price * l2} if l2 else {}
        model = IRLS(**settings, fit_intercept=intercept).fit(inputs, y)
        theirs = LogisticRegression(
            C=1 / (s * l2) if l2 else math.inf, fit_intercept=intercept, tol=1e-12,
            solver="newton-cholesky",
        ).fit(inputs, y)
        for place, one in ((found, model), (known, theirs)):
            place[0].append(np.append(one.coef_, one.intercept_))
            place[1].append(one.predict_proba(inputs[:50]).ravel())
        scores = theirs.decision_function(inputs)
        loss = np.logaddexp(0, -np.where(y == "yes", 1, -1) * scores).mean()
        found[2].append([model.losses_[0], model.losses_[-1]])
        known[2].append([math.log(2), loss + l2 / 2 * (theirs.coef_**2).sum()])
        falls.append(np.abs(np.array(model.losses_) - known[2][-1][1]) + 1e-17)
        wrong.append(model.predict(inputs) != theirs.predict(inputs))
        ends.append([model.converged_, model.separable_, len(model.losses_) - model.n_iter_])
    flat = IRLS().fit([[1.0], [1.0], [-1.0], [-1.0]], [0, 1, 0, 1])  # all scores are 0
    with contextlib.suppress(ValueError):  # points of another dimension change nothing
        flat.predict([[1.0, 1.0]])
    wrong.append((flat.n_features_in_ != 1) | (flat.predict([[1.0], [2.0]]) != 1))
    ends.append([flat.converged_, flat.separable_, len(flat.losses_) - flat.n_iter_])
    near = "both solvers end with a quadratically small gradient"
    together = [(np.concatenate(a), np.concatenate(b)) for a, b in zip(found, known, strict=True)]
    minimum = np.tile([1, 0, 1], (len(ends), 1))
    return every({
        "weights": equal(*together[0], tol=1e-6, why=near).drawn(
            *(Series(f"λ = {case[2]:g}, {case[0].shape[0]} x {case[0].shape[1]}", range(len(fall)),
                     fall, "other") for case, fall in zip(cases, falls, strict=True)),
            x="step of IRLS", y="loss above that of scikit-learn's end", log="y"),
        "probabilities": equal(*together[1], tol=1e-6, why=near),
        "losses": equal(*together[2], tol=1e-9, why=f"{near}, and the loss is flat there"),
        "classes": never(np.concatenate(wrong), why="the same sides"),
        "converged, and not separable": equal(ends, minimum, tol=0, why="there is a minimum"),
    })


@claim(control={"l2": 0.001}, refutes=["told"], source="Albert and Anderson 1984")
def separability_is_told(
    seed: Seed, *, problems: Annotated[int, Range(6, 100)] = 18,
    points: Annotated[int, Range(5, 50)] = 8, l2: Annotated[float, Range(0, 1)] = 0.0,
) -> Evidence:
    r"""Where a plane has no point on its wrong side there is no minimizer, and IRLS says so."""
    rng, told, said = seed.numpy(), [], []
    for number in range(problems):
        kind = ("apart", "touching", "mixed")[number % 3]
        X = rng.normal(size=(points, 3))
        y = np.where(X[:, 0] > 0, 1, 0)
        X[:, 0] += np.sign(X[:, 0])
        if kind != "apart":  # points of both labels: on the plane that separates, or everywhere
            both = rng.normal(size=(points, 3)) * [kind == "mixed", 1.0, 1.0]
            X, y = np.vstack([X, both, both]), np.append(y, np.arange(2).repeat(points))
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        X = X @ turn * 10 ** rng.uniform(-9, 3, size=3)
        X = np.column_stack([X, 0 * X[:, number < problems // 2:]])  # columns that tell nothing
        settings: dict[str, Any] = {"l2": l2} if l2 else {}
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            model = IRLS(**settings, fit_intercept=number % 2 == 0).fit(X, y)
            hasty = IRLS(**settings, max_iter=1).fit(X, y)
        words = " ".join(str(one.message) for one in noted)
        told.append([model.separable_ != (kind != "mixed"), model.converged_ != (kind == "mixed")])
        said.append([("No minimizer" in words) != (model.separable_ or hasty.separable_),
                     ("Raise max_iter" in words) == hasty.separable_])
    return every({
        "told": never(np.ravel(told), why="a theorem, and margins that float64 resolves"),
        "in words": never(np.ravel(said), why="each warning has its cause"),
    })


@claim(control={"l2": 0.01}, source="Soudry et al. 2018; Nacson et al. 2019 for scaled steps")
def separable_data_diverges(
    seed: Seed, *, problems: Annotated[int, Range(1, 20)] = 5,
    points: Annotated[int, Range(20, 200)] = 50, gap: Annotated[float, Range(0.4, 2)] = 0.5,
    steps: Annotated[int, Range(10_000, 50_000)] = 20_000,
    l2: Annotated[float, Range(0, 1)] = 0.0,
) -> Evidence:
    r"""On separable data $\Vert w_t\Vert$ grows like $\log t$ and w turns to the largest margin."""
    rng, rows, best, told = seed.numpy(), [], [], []
    for _ in range(problems):
        X, y, _ = separable_points(rng, points, 2, gap)
        rows.append(y[:, None] * X)
        # points and their mirror images: the hyperplane of largest margin goes through 0
        mirrored = np.vstack([rows[-1], -rows[-1]]), np.repeat([1, -1], points)
        best.append(MaxMargin().fit(*mirrored).coef_[0])
        told.append(fit_quietly(IRLS(l2=l2, fit_intercept=False), *mirrored).separable_)
    signed = torch.from_numpy(np.stack(rows))
    times = np.unique(np.geomspace(100, steps, 60).astype(int))
    norms = descended(signed, steps, l2)[times - 1].norm(dim=-1).numpy()  # (times, problems)
    u, v = np.log(times) - np.log(times).mean(), norms - norms.mean(axis=0)
    straight = u @ v / np.sqrt((u @ u) * (v**2).sum(axis=0) + 1e-300)  # correlation; 0 if constant
    line = norms[:, 0].mean() + u * (u @ v[:, 0]) / (u @ u)
    turned = F.normalize(_descend_scaled(signed, 5000, l2), dim=-1)
    cosines = (turned.numpy() * np.stack(best)).sum(axis=1)
    return every({
        "linear in log t": at_least(
            straight, 0.99**0.5, why="R² of 0.99: what is bounded bends the line at its start"
        ).drawn(
            Series("‖w‖", times, norms[:, 0]), Series("line", times, line, role="predicted"),
            x="step t (first problem)", y="‖w‖", log="x"),
        "toward the largest margin": at_least(
            cosines, 0.999, why="the angle falls like one over the norm: 5000 steps reach 2°"
        ),
        "IRLS tells": at_least(told, 1.0, why="Booleans"),
    })


def _descend_scaled(rows: Tensor, steps: int, l2: float) -> Tensor:
    r"""Descend by steps $100/(R^2\ell\sqrt t)$; give the last weights (P, d).

    The loss $\ell$ shrinks as fast as the gradient; logarithms keep their ratio from 0/0.
    """
    rate = 100 / rows.square().sum(dim=-1).amax(dim=-1)[:, None, None]
    w, price = torch.zeros_like(rows[:, :1].mT), rows.new_tensor(rows.shape[1] * l2).log()
    for t in range(1, steps + 1):
        margins = rows @ w  # (P, s, 1)
        logs = torch.where(margins > 30, -margins, F.softplus(-margins).log())
        paid = price + (w.square().sum(dim=1, keepdim=True) / 2).log()
        total = torch.logaddexp(logs.logsumexp(dim=1, keepdim=True), paid) + math.log(t) / 2
        pull = rows.mT @ (F.logsigmoid(-margins) - total).exp()
        w = w + rate * (pull - (price - total).exp() * w)
    return w[..., 0]


def descended(rows: Tensor, steps: int, l2: float) -> Tensor:
    """Descend by steps 1/L from 0, on problems (P, s, d) of rows ±x; give all (steps, P, d)."""
    s = rows.shape[1]
    rate = 1 / (torch.linalg.matrix_norm(rows, 2) ** 2 / 4 + s * l2)[:, None, None]
    away, pull, kept = -rows, (rate * rows.mT).contiguous(), 1 - rate * s * l2
    w, path = torch.zeros_like(rows[:, :1].mT), []
    for _ in range(steps):
        w = torch.baddbmm(kept * w, pull, (away @ w).sigmoid_())
        path.append(w)
    return torch.stack(path)[..., 0]
