r"""Test problems: what is true of it, and what would refute it.

Knobs:
    pairs: Pairs of points between which slopes are compared.
    dim: Coordinates of a point.
    factor: What declared constants are multiplied by; below 1 they promise too much, above it
        nothing reaches them.
    u: Where the quartic, the valley and the saddle are looked at.
    form: Whether the formulas have their factors 1/4 and 1/2, or lack them as in a misprint.
    rows: Independent points in the rows of `theta`.
    reduction: How the losses of rows are joined; the mean divides each row's gradient.
    samples: Samples of the logistic regression.
    l2: The price λ of large weights.
    price: The formula of that price; one without its half counts twice as much.
    labels: Whether labels are drawn with noise; without it a line separates the classes.
    sigma: Standard deviation of the noise.
    where: What the noise is added to; in the points it is scaled by the curvature.
    noise: What the noise is added to; in the gradient it does not grow with the weights.
"""

import math
from typing import Annotated, Any, Literal, cast

import torch
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import norm, skewnorm
from torch import Tensor
from torch.nn import functional as F

from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    follows,
    mean_is,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.pictures import Arrows, Field, Plot
from principia.lab.seeds import Seed
from principia.optimization.problems import (
    DoubleWell,
    Lessard,
    LogisticRisk,
    Problem,
    Quadratic,
    Quartic,
    Saddle,
    ScalarNet,
    SineBowl,
    log_spaced,
    noisy,
    noisy_logistic,
)

Rows = Annotated[int, Range(2000, 100_000)]
Sigma = Annotated[float, Range(0.1, 10)]
HALF_PI = math.pi / 2
BOWL = "a bowl"


def landscapes(seed: Seed, points: int, dim: int, kappa: float) -> dict[str, tuple[Any, Tensor]]:
    """Give a bowl and a logistic risk, with points; the bowl's first is on its steepest axis."""
    theta = 3 * randn(seed.torch(), points, dim)
    bowl, risk = turned_bowl(seed, dim, kappa), classes(seed, 100, dim)
    return {BOWL: (bowl, torch.cat([bowl.rotation[:, -1:].mT, theta])),  # type: ignore[index]
            "logistic risk": (risk, theta)}


def turned_bowl(seed: Seed, dim: int, kappa: float) -> Quadratic:
    """Draw a quadratic of largest curvature 1, with axes of its own."""
    curvature = torch.logspace(-math.log10(kappa), 0, dim, dtype=torch.float64)
    Q = torch.linalg.qr(randn(seed.child("rotation").torch(), dim, dim)).Q
    return Quadratic(curvature, rotation=Q)


def classes(seed: Seed, samples: int, dim: int) -> LogisticRisk:
    """Draw a logistic risk whose labels follow a logistic law."""
    rng = seed.child("samples").torch()
    X, direction = randn(rng, samples, dim), randn(rng, dim)
    return LogisticRisk(X, (rand(rng, samples) < torch.sigmoid(X @ direction)).long())


def cloud(gradients: Tensor, exact: Tensor) -> tuple[Series, ...]:
    """Show the first two slopes of drawn gradients, their mean, and what that should be."""
    shown, mean = gradients[:400], gradients.mean(dim=0)
    return (Series("gradients of batches", shown[:, 0], shown[:, 1], "gray", "points"),
            Series("gradient of the whole", exact[:1], exact[1:2], "predicted", "points"),
            Series("mean of the batches", mean[:1], mean[1:2]))


def steps_map(problem: Problem, starts: Tensor, ends: Tensor) -> Plot:
    """Draw steps in two dimensions, over the level sets."""
    side = torch.linspace(-1, 4, 36, dtype=starts.dtype)
    heights = problem.value(torch.stack(torch.meshgrid(side, side, indexing="xy"), dim=-1))
    return Plot((Field(side, side, heights, "contours"), Arrows(starts, ends)), "θ₁", "θ₂",
                square=True)


@claim(
    control=[
        Control(
            {"factor": 0.9},
            ["L", "PL, sine bowl", "PL, quadratic", "PL, logistic", "strong convexity",
             "declared by all problems"],
            "constants that promise a tenth too much",
        ),
        Control(
            {"factor": 1.1}, ["L is reached", "the least is reached"],
            "constants that nothing reaches",
        ),
    ],
    source="by calculation; Karimi, Nutini and Schmidt 2016, sec. 2.2",
)
def declared_constants(
    seed: Seed, *, pairs: Annotated[int, Range(500, 20_000)] = 4000,
    dim: Annotated[int, Range(2, 30)] = 6, factor: Annotated[float, Range(0.5, 2)] = 1.0,
) -> Evidence:
    r"""What problems declare is so: no pair exceeds $L$, the PL constant is met."""
    rng, risk = seed.torch(), noisy_logistic(seed.child("logistic").torch(), dim=dim)
    Q, center = torch.linalg.qr(randn(rng, dim, dim)).Q, randn(rng, dim)
    bowl = Quadratic(torch.logspace(-1, 0.5, dim).double(), rotation=Q, minimizer=center)
    line = 12 * rand(rng, pairs, 1) - 6
    axes = Q.mT[torch.randint(dim, (pairs,), generator=rng)]  # each the steepest, or the flattest
    # the risk is the steepest at 0, and hardly more curved than its price is far from there
    plane = torch.logspace(0, 4, pairs, dtype=Q.dtype)[:, None] * randn(rng, pairs, dim)
    plane[0], stiffest = 0.0, torch.linalg.svd(risk.signed).Vh[:1]
    cases: dict[str, tuple[Problem, Tensor, Tensor]] = {
        "sine bowl": (SineBowl(), line, line + 1e-3),
        "Lessard": (Lessard(), line, line + 1e-3),
        "quadratic": (bowl, center + axes, center.expand(pairs, dim)),
        "logistic": (risk, plane, plane + 0.1 * torch.cat([0.01 * stiffest, axes[1:]])),
    }
    names = "L", "L is reached", "PL", "strong convexity", "the least is reached"
    parts: dict[str, dict[str, Evidence]] = {name: {} for name in names}
    for name, (problem, a, b) in cases.items():
        change, gap = problem.gradient(b) - problem.gradient(a), b - a
        steepest = (change.norm(dim=1) / gap.norm(dim=1)).max()
        curvature = ((change * gap).sum(dim=1) / (gap**2).sum(dim=1)).min()
        above = problem.value(a) - float(problem.minimum or 0)
        ratio = ((problem.gradient(a) ** 2).sum(dim=1) / 2 / above).min()
        L, pl = factor * (problem.smoothness or 0), (problem.pl or 0) / factor
        why = "a bound for every pair; 1e-6 for rounding of differences"
        near = "the points lie so dense that one comes within 2 %"
        parts["L"][name] = at_most(steepest, L * (1 + 1e-6), why=why)
        parts["L is reached"][name] = at_least(steepest, 0.98 * L, why=near)
        parts["PL"][name] = at_least(ratio, pl * (1 - 1e-6), why=why)
        if problem.strong_convexity is not None:
            mu = problem.strong_convexity / factor * (1 - 1e-6)
            parts["strong convexity"][name] = at_least(curvature, mu, why=why)
        # Lessard's meets more than it declares: strong convexity is all that theorems ask for
        least = ratio if problem.strong_convexity is None else curvature
        parts["the least is reached"][name] = at_most(least, 1.02 * pl, why=near)
    x = torch.linspace(-6, 6, 400, dtype=Q.dtype)[:, None]
    ripples = SineBowl()
    ratio = (ripples.gradient(x) ** 2).sum(dim=1) / 2 / ripples.value(x)
    return every({
        **{name: every(found) for name, found in parts.items()},
        "declared by all problems": _declared(seed.child("all").torch(), factor),
    }).drawn(
        Series("½|∇h|² / (h − min h), sine bowl", x[:, 0], ratio, style="line"),
        Series("PL constant", [-6, 6], [ripples.pl or 0] * 2, "bound"),
        x="x", y="ratio", log="y",
    )


def _declared(rng: torch.Generator, factor: float) -> Evidence:
    """Compare what all problems declare with calculation; what is not declared bounds nothing."""
    X, center, inf = randn(rng, 30, 3), randn(rng, 2), math.inf
    y, spread = (X[:, 1] + randn(rng, 30) > 0).int(), float(torch.linalg.eigvalsh(X.mT @ X)[-1])
    flattest = minimize_scalar(  # the slope squared over the height of the sine bowl
        lambda x: (2 * x + 3 * math.sin(2 * x)) ** 2 / 2 / (x * x + 3 * math.sin(x) ** 2),
        bounds=(2, 2.5), method="bounded", options={"xatol": 1e-10},
    ).fun
    priced = LogisticRisk(X, y, l2=0.3)
    best = _fitted(X, y, 0.3)
    expected = [  # L, PL, strong convexity, minimum, and the sum and number of the best coordinates
        (SineBowl(), 8.0, flattest, 0.0, 0.0, 0.0, 1), (Quartic(), inf, 0.0, 0.0, 0.0, 0.0, 1),
        (Lessard(), 25.0, 1.0, 1.0, 0.0, 0.0, 1), (DoubleWell(), inf, 0.0, 0.0, 0.0, inf, 0),
        (ScalarNet(), inf, 0.0, 0.0, 0.0, inf, 0), (Saddle(), inf, 0.0, 0.0, -0.25, inf, 0),
        (Quadratic([4.0, 0.5], minimizer=center), 4.0, 0.5, 0.5, 0.0, float(center.sum()), 2),
        (Quadratic([0.0, 3.0, 2.0]), 3.0, 2.0, 0.0, 0.0, inf, 0),
        (Quadratic([-5.0, 3.0], minimizer=2.0), 5.0, 0.0, 0.0, -inf, inf, 0),
        (Quadratic([0.0]), 0.0, 0.0, 0.0, 0.0, inf, 0),
        (log_spaced(3), 1.0, 1e-8, 1e-8, 0.0, 0.0, 3),
        (LogisticRisk(X, y), spread / 120, 0.0, 0.0, -inf, inf, 0),
        (priced, spread / 120 + 0.3, 0.3, 0.3, best.fun, best.x.sum(), 3),
    ]
    declared = [
        (one.smoothness if one.smoothness is not None else inf, one.pl or 0.0,
         one.strong_convexity or 0.0, one.minimum if one.minimum is not None else -inf,
         float(one.minimizer.sum()) if one.minimizer is not None else inf,
         len(one.minimizer) if one.minimizer is not None else 0)
        for one, *_ in expected
    ]
    return equal(
        declared, [(factor * L, *others) for _, L, *others in expected], tol=3e-7,
        why="seven digits of the PL constant of the sine bowl; SciPy's search",
    )


def _fitted(X: Tensor, y: Tensor, l2: float) -> Any:
    """Minimize the mean logistic loss plus half the price, by SciPy, from torch's own loss."""
    def loss(theta: Any) -> tuple[float, Any]:
        at = torch.tensor(theta, requires_grad=True)
        value = F.binary_cross_entropy_with_logits(X @ at, y.to(at)) + l2 / 2 * at.square().sum()
        return float(value.detach()), torch.autograd.grad(value, at)[0].numpy()

    return minimize(loss, [0.0] * X.shape[1], jac=True, options={"gtol": 1e-9})


@claim(
    control={"form": "printed"}, source="by calculation",
    misprint="double well, quartic, net and quadratics without their factors 1/4 and 1/2",
)
def known_places(
    seed: Seed, *, u: Annotated[float, Range(0.2, 10)] = 2.0,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""Wells, saddle, quartic and valley have the heights and curvatures of their formulas."""
    rng = seed.torch()
    Q, center = torch.linalg.qr(randn(rng, 3, 3)).Q, randn(rng, 3)
    lam = torch.tensor([-3.0, 1.0, 4.0], dtype=Q.dtype)
    turned, moved = Quadratic(lam, rotation=Q, minimizer=center), Quadratic([2.0, 6.0], minimizer=u)
    wells, saddle, quartic, net = DoubleWell(), Saddle(3), Quartic(), ScalarNet()
    ripples, bent, spaced = SineBowl(), Lessard(), log_spaced(3, 0.01)
    cases: list[tuple[Problem, Any, float, Any, Any]] = [  # place, height, slope, curvatures
        (wells, [0.0], 0.25, [0.0], [-1.0]), (wells, [-1.0], 0.0, [0.0], [2.0]),
        (wells, [2.0], 2.25, [6.0], [11.0]),
        (saddle, [0.0, 0.0, 0.0], 0.0, [0.0] * 3, [-1.0, 1.0, 1.0]),
        (saddle, [0.0, 0.0, -1.0], -0.25, [0.0] * 3, [1.0, 1.0, 2.0]),
        (saddle, [u, -2.0, 2.0], u * u / 2 + 4, [u, -2.0, 6.0], [1.0, 1.0, 11.0]),
        (quartic, [0.0], 0.0, [0.0], [0.0]), (quartic, [u], u**4 / 4, [u**3], [3 * u**2]),
        (net, [u, 1 / u], 0.0, [0.0, 0.0], [0.0, u**2 + u**-2]),
        (net, [0.0, 0.0], 0.5, [0.0, 0.0], [-1.0, 1.0]),
        (net, [3.0, 1.0], 2.0, [2.0, 6.0], [5 - 41**0.5, 5 + 41**0.5]),
        (ripples, [0.0], 0.0, [0.0], [8.0]), (ripples, [math.pi], math.pi**2, [math.tau], [8.0]),
        (ripples, [math.pi / 2], math.pi**2 / 4 + 3, [math.pi], [-4.0]),
        (bent, [0.0], 0.0, [0.0], [25.0]), (bent, [-2.0], 50.0, [-50.0], [25.0]),
        (bent, [1.0], 12.5, [25.0], [1.0]), (bent, [1.5], 25.125, [25.5], [1.0]),
        (bent, [2.0], 38.0, [26.0], [25.0]), (bent, [3.0], 76.5, [51.0], [25.0]),
        (turned, center, 0.0, [0.0] * 3, lam),
        (turned, center + u * Q[:, 2], 2 * u * u, 4 * u * Q[:, 2], lam),
        (moved, [u, u], 0.0, [0.0, 0.0], [2.0, 6.0]),
        (moved, [u + 1, u - 1], 4.0, [2.0, -6.0], [2.0, 6.0]),
        (spaced, [1.0] * 3, 0.555, [0.01, 0.1, 1.0], [0.01, 0.1, 1.0]),
    ]
    found, expected = [], []
    bounded: list[Problem] = [wells, saddle, quartic, net, ripples, bent, moved]
    lows = dict.fromkeys(bounded, math.inf)
    for problem, place, *calculated in cases:
        at = torch.as_tensor(place, dtype=torch.float64)
        hessian = cast("Tensor", torch.autograd.functional.hessian(problem.value, at))
        curvatures = torch.linalg.eigvalsh(hessian)
        found.append((problem.value(at)[None], problem.gradient(at), curvatures))
        more = 1.0 if form == "correct" else 4.0 if problem in (wells, quartic) else 2.0
        expected.append(
            [more * torch.as_tensor(one, dtype=at.dtype).view(-1) for one in calculated]
        )
        if problem in lows:
            around = torch.cat([at[None], at + 3 * randn(rng, 500, len(at))])
            lows[problem] = min(lows[problem], float(problem.value(around).min()) * more)
    x = torch.linspace(-1.6, 1.6, 200, dtype=torch.float64)[:, None]
    parts = {
        name: equal_to_rounding(*(torch.cat(one) for one in both))
        for name, *both in zip(
            ("heights", "slopes", "curvatures"), zip(*found, strict=True),
            zip(*expected, strict=True), strict=True,
        )
    }
    return every({
        **parts,
        "nothing is below the minimum, which is reached": equal_to_rounding(
            list(lows.values()), [cast("float", one.minimum) for one in lows]
        ),
    }).drawn(
        Series("double well", x[:, 0], wells.value(x), style="line"),
        Series("barrier", [-1.6, 1.6], [float(expected[0][0])] * 2, "predicted"), x="x", y="height",
    )


@claim(
    control={"reduction": "mean"}, refutes=["slopes by backward"],
    source="a sum, differentiated by one of its terms",
    no_figure="each number of a row is the one that it has alone, to rounding",
)
def rows_are_independent_runs(
    seed: Seed, *, rows: Annotated[int, Range(2, 20)] = 5,
    reduction: Literal["sum", "mean"] = "sum",
) -> Evidence:
    r"""Of the sum over the rows of `theta`, each row has the gradient that it has alone."""
    rng, found, alone = seed.torch(), [], []
    before, after = [], []  # what nobody may change
    starts = {
        Quadratic([1.0, 2.0, -3.0], rotation=torch.linalg.qr(randn(rng, 3, 3)).Q): [1.0] * 3,
        log_spaced(4): [0.5] * 4, SineBowl(): [1.0], Quartic(): [1.0], Lessard(): [3.3],
        ScalarNet(): [0.5, 0.5], DoubleWell(): [0.5], Saddle(): [1.0, 1.0],
        noisy_logistic(rng, samples=7, dim=2): [0.0] * 2,
        noisy_logistic(rng, samples=4, dim=3, l2=0.0): [0.0] * 3,
    }
    for problem, place in starts.items():
        points = 2 * randn(rng, rows, len(place))
        start, copy = points.clone(), type(problem).at(problem, points.clone())
        twin = problem.at(start)
        losses = twin()
        getattr(losses, reduction)().backward()
        with torch.no_grad():
            slopes = problem.gradient(start[:, None])[:, 0]
            twin.theta.add_(1.0)
        each = [torch.func.grad_and_value(problem.value)(row) for row in points]
        slope, value = (torch.stack(one) for one in zip(*each, strict=True))
        alone += [(value, slope, slope)]
        found += [(losses, cast("Tensor", twin.theta.grad), slopes)]
        before += [*place, *points.flatten().tolist(), *points.flatten().tolist(), 0.0]
        after += [*problem.theta.flatten().tolist(), *start.flatten().tolist(),
                  *copy.theta.flatten().tolist(), float(start.requires_grad)]
    names = "values", "slopes by backward", "slopes by gradient"
    return every({
        **{name: equal_to_rounding(*(torch.cat([one[k].flatten() for one in rows])
                                     for rows in (found, alone)))
           for k, name in enumerate(names)},
        "starts, and points that others hold": equal(
            after, before, tol=1e-7, why="nobody moved these; a start is rounded to float32"
        ),
    })


@claim(
    control=[
        Control({"price": "λ‖θ‖²"}, ["values", "minimizer", "minimum"], "a price without its half"),
        Control(
            {"labels": "separable"}, ["first inputs, turned toward their class"],
            "labels without noise",
        ),
    ],
    source="by definition; Azzalini 1985 for the law of the inputs",
)
def logistic_risk_is_cross_entropy(
    seed: Seed, *, samples: Annotated[int, Range(5, 500)] = 60,
    dim: Annotated[int, Range(2, 10)] = 4, l2: Annotated[float, Range(0.01, 1)] = 0.2,
    price: Literal["λ‖θ‖²/2", "λ‖θ‖²"] = "λ‖θ‖²/2",
    labels: Literal["noisy", "separable"] = "noisy",
) -> Evidence:
    r"""`LogisticRisk` is torch's mean cross-entropy plus $\frac\lambda2\Vert\theta\Vert^2$."""
    rng, counted = seed.torch(), l2 * (1 if price == "λ‖θ‖²/2" else 2)
    X, theta, many = randn(rng, samples, dim), 2 * randn(rng, 7, dim), 20_000
    y = (X[:, 1] + randn(rng, samples) > 0).int()
    priced, free = LogisticRisk(X.float(), y, l2=l2), LogisticRisk(X.float(), y)
    X = X.float().double()
    loss = F.binary_cross_entropy_with_logits(
        theta @ X.mT, y.double().expand(7, -1), reduction="none"
    ).mean(dim=1)
    best = _fitted(X, y, counted)
    drawn = noisy_logistic(rng, samples=many, dim=2, l2=0.0)
    if labels == "separable":
        inputs = randn(rng, many, 2)
        drawn = LogisticRisk(inputs, inputs[:, 0] > 0)
    usual = noisy_logistic(rng)
    return every({
        "values": equal_to_rounding(
            torch.cat([priced.value(theta), free.value(theta)]),
            torch.cat([loss + counted / 2 * theta.square().sum(dim=1), loss]),
        ),
        "minimizer": equal(
            cast("Tensor", priced.minimizer), best.x, tol=1e-6,
            why="SciPy stops at a gradient of 1e-9 where the curvature is 0.01 or more",
        ),
        "minimum": equal(
            cast("float", priced.minimum), best.fun, tol=1e-9, why="the square of that; rounding"
        ),
        "first inputs, turned toward their class": follows(
            drawn.signed[:, 0], skewnorm(1), why="normal x, kept if x + noise is above 0, else -x"
        ),
        "other inputs": follows(drawn.signed[:, 1], norm, why="labels do not depend on them"),
        "100 samples, 8 inputs, a price of 0.1": equal(
            [*usual.signed.shape, usual.l2], [100, 8, 0.1], tol=0, why="what is documented"
        ),
    })


@claim(control={"where": "in the points"}, source="by construction")
def noise_is_added_to_the_gradient(
    seed: Seed, *, sigma: Sigma = 0.5, rows: Rows = 20_000,
    where: Literal["in the gradients", "in the points"] = "in the gradients",
) -> Evidence:
    r"""A noisy problem has the same values and mean gradients, with a variance of $\sigma^2$."""
    rng = seed.torch()
    saddle = Saddle(2).at(torch.tensor([[2.0, -1.5]]).expand(rows, -1))
    shaken = noisy(saddle, sigma, rng)
    if where == "in the points":
        shaken = saddle.at(saddle.theta + sigma * randn(rng, rows, 2))
    values, passes = shaken(), []
    for _ in range(2):
        shaken.theta.grad = None
        shaken().sum().backward()
        passes.append(cast("Tensor", shaken.theta.grad) - saddle.gradient(saddle.theta))
    noise = torch.cat(passes, dim=1)  # (rows, passes times coordinates)
    counts, edges = torch.histogram(passes[0].flatten(), bins=40, density=True)
    middle = (edges[1:] + edges[:-1]) / 2
    exact = sigma**2 * torch.eye(4, dtype=noise.dtype)
    return every({
        "variance, and none between coordinates and passes": within_errors(
            noise.mT @ noise / rows, exact, error=sigma**2 * ((1 + exact / sigma**2) / rows).sqrt(),
            why="a mean of products of normal numbers",
        ).drawn(
            Series("noise in the gradient", middle, counts, style="bars"),
            Series("normal density", middle, norm.pdf(middle, scale=sigma), "predicted"),
            x="noise", y="density",
        ),
        "mean": within_errors(noise.mean(dim=0), 0, error=sigma / rows**0.5, why="a mean"),
        "law": follows(passes[0].flatten(), norm(scale=sigma), why="every entry is drawn anew"),
        "values": at_most(
            (values.detach() - saddle().detach()).abs(), 0, why="the same function"
        ),
        "the gradient that is asked for": at_most(
            (shaken.gradient(shaken.theta) - saddle.gradient(saddle.theta)).abs(), 0,
            why="the same function",
        ),
    })


@claim(
    control={"noise": "in the gradient"}, refutes=["variance of the gradient", "mean loss"],
    source="by the chain rule",
    misprint=r"noisy labels add noise of variance $\sigma^2$ to the gradient",
)
def label_noise_is_scaled_by_the_slope(
    seed: Seed, *, sigma: Sigma = 0.5, rows: Rows = 20_000,
    noise: Literal["in the labels", "in the gradient"] = "in the labels",
) -> Evidence:
    r"""Labels of variance $\sigma^2$: a scalar net's gradient varies by $\sigma^2(v^2,u^2)$."""
    rng, (u, v) = seed.torch(), (3.0, -0.5)
    net = ScalarNet(label_noise=sigma if noise == "in the labels" else 0.0, rng=rng)
    net = net.at(torch.tensor([[u, v]]).expand(rows, -1))
    if noise == "in the gradient":
        net = noisy(net, sigma, rng)
    losses = net().detach()
    net().sum().backward()
    found, residual = cast("Tensor", net.theta.grad), u * v - 1
    exact, share = residual * torch.tensor([v, u]).double(), torch.tensor([v * v, u * u]).double()
    return every({
        "variance of the gradient": within_errors(
            found.var(dim=0), sigma**2 * share, error=sigma**2 * share * (2 / rows) ** 0.5,
            why="a mean of squares of normal numbers",
        ),
        "mean gradient": mean_is(found, exact, why="the mean of the labels is 1"),
        "mean loss": mean_is(
            losses, (residual**2 + sigma**2) / 2, why="a mean; half the variance is added"
        ),
        "value": equal_to_rounding(net.value(net.theta), torch.full((rows,), residual**2 / 2)),
    }).drawn(
        Series("gradients", found[:400, 0], found[:400, 1]),
        Series("(uv - 1 ± 3σ) (v, u)", *(
            [(residual - 3 * sigma) * one, (residual + 3 * sigma) * one] for one in (v, u)
        ), role="predicted"),
        x="slope along u", y="slope along v",
    )
