r"""Gradient flow: what is true of it, and what would refute it.

Knobs:
    finest: How fine the finest step is: the fastest time scale over 2 to this power.
    integrator: Who takes the steps; Heun's method is of order 2, and not gradient descent.
    slopes: Where a step looks at the slope; at the start alone it is Euler's method.
    time: Until when the flow is followed.
    speed: How fast the reference moves downhill; at a speed of 1 it solves another equation.
    integrand: What is summed up along the path; without its square it is a length, no height.
    dim: Coordinates of a point.
    rate: What the curvatures in the exponent are multiplied by; 2 is the rate of the gap.
    turned: Whether the formula has Q and its transpose exchanged, and so other axes.
    low: The smallest curvature; the largest is 1.
    power: The power of t in the bound; with 2 it promises more than holds.
    starts: Starting points.
    problem: What is descended; the quartic is too flat at its minimum to have a PL constant.
    coefficient: The weight of the squared gradient in the modified height; 1/4 in truth.
"""

from typing import Annotated, Literal

import numpy as np
import torch
from scipy.integrate import simpson, solve_ivp

from principia.lab.evidence import (
    Control,
    Evidence,
    Plot,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    slope,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.optimization.gradient_flow import (
    GradientFlow,
    Method,
    heun,
    last_point,
    modified_objective,
)
from principia.optimization.problems import (
    LogisticRisk,
    Problem,
    Quadratic,
    Quartic,
    SineBowl,
    log_spaced,
    noisy_logistic,
)

Finest = Annotated[int, Range(6, 9)]


@claim(control={"integrator": "Heun"}, source="Hairer, Norsett and Wanner 1993, thm. 3.4")
def gd_is_euler(
    seed: Seed, *, finest: Finest = 7, integrator: Literal["GD", "Heun"] = "GD",
) -> Evidence:
    r"""At a fixed time gradient descent is $O(\eta)$ from the flow: it is Euler's method."""
    problems: dict[str, tuple[Problem, float]] = {
        "logistic": (_logistic(seed), 2.0),
        "sine bowl": (SineBowl().at(torch.tensor([[2.5], [-2.8], [1.2]])), 0.5),
    }
    parts, rates = {}, 2.0 ** -np.arange(3, finest + 1)
    for name, (problem, scale) in problems.items():
        steps = scale / float(problem.smoothness or 1) * rates  # as shares of the fastest time
        time = 16 * steps[0]
        exact = GradientFlow(problem).solve([time])[0]
        errors = [
            float((last_point(problem, step, round(time / step), integrator) - exact).norm())
            for step in steps
        ]
        parts[name] = slope(
            steps, errors, 1.0, tol=0.05, why="the next term bends the line by the step",
            labels=("step η", f"distance from the flow, {name}"),
        )
    return every(parts)


def _logistic(seed: Seed) -> LogisticRisk:
    """Draw a logistic regression with noisy labels, and two starts far from its minimum."""
    rng = seed.child("logistic").torch()
    return noisy_logistic(rng, samples=60, dim=4).at(2 * torch.randn(2, 4, generator=rng))


@claim(
    control={"slopes": "at the start"}, source="Hairer, Norsett and Wanner 1993, sec. II.1",
)
def heun_is_of_order_two(
    seed: Seed, *, finest: Finest = 7,
    slopes: Literal["at both ends", "at the start"] = "at both ends",
) -> Evidence:
    r"""The mean of the slopes at both ends of a step makes the error $O(\eta^2)$."""
    problem, parts, lam = _logistic(seed), {}, torch.tensor([1.0, 3.0], dtype=torch.float64)
    fastest = 2 / float(problem.smoothness or 1)
    steps, time = fastest * 2.0 ** -np.arange(3, finest + 1), 2 * fastest
    exact = GradientFlow(problem).solve([time])[0]
    kind = "Heun" if slopes == "at both ends" else "GD"
    errors = [
        float((last_point(problem, step, round(time / step), kind) - exact).norm())
        for step in steps
    ]
    parts["order"] = slope(
        steps, errors, 2.0, tol=0.1, why="the next term bends the line by the step",
        labels=("step η", "distance from the flow"),
    )
    bowl = Quadratic(lam).at(torch.randn(3, 2, generator=seed.torch()))
    path, z = heun(bowl, 0.3, 4), 0.3 * lam
    factor = 1 - z + (z * z / 2 if slopes == "at both ends" else 0)
    parts["on a quadratic"] = equal_to_rounding(
        path.numpy(), bowl.theta * factor ** torch.arange(5)[:, None, None]
    )
    return every(parts)


@claim(
    control={"speed": "1"}, refutes=["SciPy's RK45", "SciPy's LSODA", "a quartic"],
    source="SciPy's solve_ivp; separation of variables",
)
def flow_solves_its_equation(
    seed: Seed, *, time: Annotated[float, Range(0.1, 5)] = 1.0,
    speed: Literal["‖∇h‖", "1"] = "‖∇h‖",
) -> Evidence:
    r"""The flow solves $\dot\theta=-\nabla h(\theta)$: its speed is the length of the gradient."""
    starts = 1 + 2 * torch.rand(3, 1, generator=seed.torch(), dtype=torch.float64)
    t, parts = [0.0, 0.3 * time, 0.3 * time, time], {}
    methods: tuple[Method, ...] = "RK45", "LSODA"
    for method in methods:
        def velocity(_: float, x: np.ndarray) -> np.ndarray:
            slopes = 2 * x + 3 * np.sin(2 * x)
            return -slopes if speed == "‖∇h‖" else -np.sign(slopes)

        theirs = solve_ivp(velocity, (0, time), starts[:, 0].numpy(), method=method,
                           t_eval=[0.0, t[1], time], rtol=1e-9, atol=1e-11).y
        options: dict = {} if method == "RK45" else {"method": method}
        ours = GradientFlow(SineBowl().at(starts), **options).solve(t)[..., 0]
        parts[f"SciPy's {method}"] = equal(
            ours, theirs.T[[0, 1, 1, 2]], tol=1e-13, why="the same steps; a sine is rounded"
        )
    quartic = GradientFlow(Quartic().at(starts)).solve(torch.tensor(t))[..., 0]
    fine = torch.linspace(0, time, 61, dtype=torch.float64)
    many = torch.cat([torch.tensor(t, dtype=torch.float64), fine])[:, None]
    exact = starts[:, 0] / (1 + 2 * starts[:, 0] ** 2 * many).sqrt()
    if speed == "1":
        exact = (starts[:, 0] - many).clamp(min=0)
    curves = [(Series("the equation, solved", fine, exact[4:, k], "predicted"),
               Series("GradientFlow", t, quartic[:, k])) for k in range(3)]
    still = GradientFlow(SineBowl().at(starts)).solve([0.0, 0.0])[..., 0]
    return every(parts | {
        "a quartic": equal(quartic, exact[:4], tol=1e-7, why="tolerances of a step, added up"),
        "no time": equal(still, starts[:, 0].expand(2, -1), tol=0, why="nobody moves"),
    }).drawn(*sum(curves, ()), x="time", y="place on the quartic")


@claim(control={"integrand": "‖∇h‖"}, source="chain rule")
def flow_dissipates_energy(
    seed: Seed, *, time: Annotated[float, Range(0.5, 5)] = 2.0,
    integrand: Literal["‖∇h‖²", "‖∇h‖"] = "‖∇h‖²",
) -> Evidence:
    r"""The flow loses $h(\theta(0))-h(\theta(t))=\int_0^t\Vert\nabla h\Vert^2$ in height."""
    starts = 1 + 2 * torch.rand(5, 1, generator=seed.torch(), dtype=torch.float64)
    parts = {}
    for name, problem in {"sine bowl": SineBowl().at(starts), "logistic": _logistic(seed)}.items():
        t = torch.linspace(0, time, 2001, dtype=torch.float64)
        path = GradientFlow(problem).solve(t)
        squares = (problem.gradient(path) ** 2).sum(dim=-1)
        height = squares if integrand == "‖∇h‖²" else squares.sqrt()
        lost = problem.value(path[0]) - problem.value(path)
        integral = torch.from_numpy(simpson(height.numpy(), x=t.numpy(), axis=0))
        running = torch.cumulative_trapezoid(height[:, 0], t)
        parts[name] = equal(
            integral / lost[-1], 1, tol=1e-6, why="Simpson's rule with 2000 steps; the solver"
        ).drawn(
            Series("h(θ(0)) − h(θ(t))", t[::40], lost[::40, 0]),
            Series(f"∫ {integrand}", t[1::40], running[::40], "predicted"),
            x="time t", y="height that was lost",
        )
    return every(parts)


@claim(
    control=[
        Control({"rate": 2.0}, words="the rate at which the gap shrinks, taken for the point's"),
        Control({"turned": True}, words="Q and its transpose exchanged"),
    ],
    source="linear differential equations",
    misprint=r"$\theta(t)-\theta^*$ shrinks like $e^{-2\Lambda t}$, as the gap does",
)
def quadratic_closed_form(
    seed: Seed, *, dim: Annotated[int, Range(2, 30)] = 6,
    rate: Annotated[float, Range(1, 2)] = 1.0, turned: bool = False,
) -> Evidence:
    r"""On a quadratic $\theta(t)=\theta^*+Qe^{-\Lambda t}Q^\top(\theta(0)-\theta^*)$."""
    rng = seed.torch()
    Q = torch.linalg.qr(torch.randn(dim, dim, generator=rng, dtype=torch.float64)).Q
    lam, best = torch.logspace(-2, 1, dim, dtype=Q.dtype), torch.randn(dim, generator=rng)
    start = torch.randn(2, dim, generator=rng, dtype=Q.dtype)
    bowl = Quadratic(lam, rotation=Q, minimizer=best).at(start)
    t = torch.linspace(0, 10, 41, dtype=Q.dtype)
    axes = Q.mT if turned else Q
    H = (axes * rate * lam) @ axes.mT
    offset = start - best.double()
    formula = best.double() + offset @ torch.matrix_exp(-t[:, None, None] * H)  # H is symmetric
    parts = {}
    methods: tuple[Method, ...] = ("exact", "RK45", "LSODA")
    for method in methods:
        found = GradientFlow(bowl, method=method, rtol=1e-10, atol=1e-12).solve(t)
        parts[method] = equal(
            found, formula, tol=1e-7, why="errors of 1e-10 a step add up over some hundred steps"
        ).drawn(
            *(Series(f"coordinate {k + 1}", t, found[:, 0, k]) for k in range(2)),
            *(Series(f"formula {k + 1}", t, formula[:, 0, k], "predicted") for k in range(2)),
            x="time t", y="θ(t)",
        )
    return every(parts)


@claim(control={"power": 2.0}, source="Su, Boyd and Candes 2016, sec. 3.1")
def flow_convex_rate(
    seed: Seed, *, low: Annotated[float, Range(1e-8, 1e-3)] = 1e-8,
    power: Annotated[float, Range(0.5, 2)] = 1.0,
) -> Evidence:
    r"""If h is convex, $h(\theta(t))-h^*\le\Vert\theta(0)-\theta^*\Vert^2/2t$ at every time."""
    bowl, rng = log_spaced(low=low), seed.torch()
    random = torch.randn(4, 400, generator=rng, dtype=torch.float64)
    bowl = bowl.at(torch.cat([bowl.theta.detach(), random / random.norm(dim=1, keepdim=True)]))
    t = torch.logspace(-1, 6, 71, dtype=torch.float64)
    gaps = bowl.value(GradientFlow(bowl).solve(t))
    bound = 1 / (2 * t**power)  # all starts are 1 from the minimum
    return at_most(gaps / bound[:, None], 1, why="a theorem: no slack").named("gap / bound").drawn(
        Series("h above its minimum", t, gaps[:, 0]),
        Series(f"1 / 2t^{power:g}", t, bound, "bound"),
        x="time t", y="gap", log="xy",
    )


@claim(control={"problem": "quartic"}, source="Lojasiewicz 1963")
def flow_pl_rate(
    seed: Seed, *, starts: Annotated[int, Range(2, 300)] = 100,
    problem: Literal["sine bowl", "quartic"] = "sine bowl",
) -> Evidence:
    r"""With a PL constant $\mu$ the gap is at most $e^{-2\mu t}$ of the first, convex or not."""
    mu = float(SineBowl.pl or 0)
    kind = SineBowl() if problem == "sine bowl" else Quartic()
    x = 4 * torch.rand(starts, 1, generator=seed.torch(), dtype=torch.float64) - 2
    bowl = kind.at(torch.cat([x[:-1], torch.full((1, 1), 2.6)]))
    starting, t = bowl.theta.detach()[:, 0], torch.linspace(0, 40, 81, dtype=torch.float64)
    gaps = bowl.value(GradientFlow(bowl).solve(t))
    bound = (-2 * mu * t).exp()
    relative = gaps / gaps[0]
    return at_most(
        relative / bound[:, None], 1, slack=1e-6, why="a theorem, up to the solver's tolerance"
    ).named("gap / bound").drawn(
        *(Series(f"from {float(starting[k]):.2f}", t, relative[:, k].clamp(min=1e-20), "other")
          for k in (0, starts // 2, -1)),
        Series("exp(−2μt)", t, bound, "bound"), x="time t", y="gap, as a share of the first",
        log="y",
    )


@claim(
    control={"coefficient": 0.5}, refutes=["order of the distance", "value", "slope"],
    source="Barrett and Dherin 2021, thm. 3.1",
)
def gd_follows_modified_flow(
    seed: Seed, *, finest: Finest = 7, coefficient: Annotated[float, Range(0, 1)] = 0.25,
) -> Evidence:
    r"""Gradient descent is only $O(\eta^2)$ from the flow of $h+\frac\eta4\Vert\nabla h\Vert^2$."""
    problem = _logistic(seed)
    fastest = 2 / float(problem.smoothness or 1)
    steps, time = fastest * 2.0 ** -np.arange(3, finest + 1), 2 * fastest
    plain = GradientFlow(problem).solve([time])[0]
    errors, others = [], []
    for step in steps:
        descent = last_point(problem, step, round(time / step), "GD")
        # the component, unless the knob says another coefficient
        modified = modified_objective(problem, 4 * coefficient * step) if coefficient else problem
        flow = GradientFlow(modified).solve([time])[0]
        errors.append(float((descent - flow).norm()))
        others.append(float((descent - plain).norm()))
    found = slope(steps, errors, 2.0, tol=0.1, why="the next term bends the line by the step")
    series = found.plot.series if isinstance(found.plot, Plot) else ()
    lam, lr = torch.tensor([2.0, 5.0, 0.5], dtype=torch.float64), 0.1
    points = torch.randn(4, 3, generator=seed.torch(), dtype=torch.float64)
    bowl = modified_objective(Quadratic(lam), 4 * coefficient * lr)
    with torch.no_grad():  # a caller's mode does not matter
        height, slopes = bowl.value(points), bowl.gradient(points)
    squares = (lam * points).square().sum(dim=1)
    return every({
        "order of the distance": found.drawn(
            *series, Series("from the plain flow", steps, others, "other"),
            x="step η", y="distance of descent from the flow", log="xy",
        ),
        "value": equal_to_rounding(height, (lam * points**2).sum(dim=1) / 2 + lr / 4 * squares),
        "slope": equal_to_rounding(slopes, lam * points + lr / 2 * lam**2 * points),
        "points that are looked at": equal(
            float(points.requires_grad), 0, tol=0, why="no graph is left at them"
        ),
    })
