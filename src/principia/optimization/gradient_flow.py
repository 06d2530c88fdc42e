r"""Gradient flow: the curve that gradient descent follows with steps of no length.

The flow is a differential equation, and gradient descent is its simplest discretization, Euler's:
at equal times the two are $O(\eta)$ apart. What descent has to earn by short steps the flow has for
free: it loses exactly the squared gradient in height per unit of time, so that the convex rate
$1/t$ and the linear rate of a PL function need no condition on a step. And descent with a finite
step is closer to another flow: that of $h+\frac\eta4\Vert\nabla h\Vert^2$, which avoids the steep.

$$ \dot\theta = -\nabla h(\theta), \quad
h(\theta(0))-h(\theta(t)) = \int_0^t\Vert\nabla h(\theta(s))\Vert^2ds $$

$$ h(\theta(t))-h^*\le\frac{\Vert\theta(0)-\theta^*\Vert^2}{2t}\;\text{(convex)}, \quad
h(\theta(t))-h^*\le e^{-2\mu t}(h(\theta(0))-h^*)\;\text{(PL)} $$

$$ \theta(t) = \theta^*+Qe^{-\Lambda t}Q^\top(\theta(0)-\theta^*)\;\text{(quadratic)}, \quad
\tilde h = h+\frac\eta4\Vert\nabla h\Vert^2 $$

Symbols:
    $\theta(t)$: point of the flow at time $t$, `GradientFlow(problem).solve`
    $h, h^*, \theta^*$: what is minimized, its minimum and where that is
    $\eta$: step of gradient descent, `lr`; step $k$ belongs to the time $k\eta$
    $\mu$: PL constant; $Q, \Lambda$: eigenvectors and eigenvalues of a quadratic
    $\tilde h$: `modified_objective`

References:
    Hairer, Norsett and Wanner (1993), Solving ordinary differential equations I: nonstiff problems.
        Springer. doi:10.1007/978-3-540-78862-1
    Lojasiewicz (1963), Une propriete topologique des sous-ensembles analytiques reels. Les
        equations aux derivees partielles, CNRS.
    Su, Boyd and Candes (2016), A differential equation for modeling Nesterov's accelerated gradient
        method. Journal of Machine Learning Research 17(153). arXiv:1503.01243
    Barrett and Dherin (2021), Implicit gradient regularization. International Conference on
        Learning Representations. arXiv:2009.11162
"""

__all__ = ["GradientFlow", "heun", "modified_objective"]

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, final

import numpy as np
import plotly.graph_objects as go
import torch
from jaxtyping import Float
from scipy.integrate import simpson, solve_ivp
from torch import Tensor
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.domains import Count, Positive, Range
from principia.lab.errors import Failure, refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_most, equal, every, slope
from principia.lab.seeds import Seed
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import (
    LogisticRisk,
    Problem,
    Quadratic,
    Quartic,
    SineBowl,
    log_spaced,
    noisy_logistic,
)

Method = Literal["exact", "RK45", "LSODA"]
Finest = Annotated[int, Range(6, 9)]


@final
class GradientFlow:
    r"""Follows $\dot\theta=-\nabla h(\theta)$ from the points that a problem holds, all at once.

    Args:
        problem: What flows down; its rows are independent curves.
        method: Runge and Kutta's, or LSODA for stiff problems; by default what is exact if the
            problem is quadratic, else RK45.
        rtol: Error that a step may make, relative to each coordinate.
        atol: Error that it may make beside that.

    Example:
        >>> flow = GradientFlow(Quadratic([1.0, 2.0]))
        >>> flow.solve([0.0, 1.0])[:, 0]
        tensor([[1.0000, 1.0000],
                [0.3679, 0.1353]], dtype=torch.float64)
    """

    @checked
    def __init__(
        self, problem: Problem, *, method: Method | None = None, rtol: Positive = 1e-9,
        atol: Positive = 1e-11,
    ) -> None:
        quadratic = isinstance(problem, Quadratic)
        if method == "exact" and not quadratic:
            name = type(problem).__name__
            raise refuse("GradientFlow", "method", "RK45 or LSODA unless h is quadratic", name)
        if problem.theta.dtype != torch.float64 and min(rtol, atol) < 1e-6:
            hint = "Convert it with problem.double(), or raise both to 1e-6."
            domain = "of float64 for tolerances below 1e-6"
            raise refuse("GradientFlow", "problem", domain, problem.theta.dtype, hint)
        self.problem, self.rtol, self.atol = problem, rtol, atol
        self.method: Method = method or ("exact" if quadratic else "RK45")

    def solve(self, t: Sequence[float] | Float[Tensor, " T"]) -> Float[Tensor, "T B D"]:
        """Give the points at times that are at least 0 and never decrease."""
        times = torch.as_tensor(t, dtype=torch.float64)
        if times.ndim != 1 or not len(times) or times[0] < 0 or bool((times.diff() < 0).any()):
            domain = "one or more times >= 0 that never decrease"
            raise refuse("GradientFlow", "t", domain, times.tolist())
        start = self.problem.theta.detach()
        if self.method == "exact":
            return _quadratic_flow(self.problem, start, times)

        def velocity(_: float, flat: np.ndarray) -> np.ndarray:
            theta = torch.from_numpy(flat).to(start).view_as(start)
            return -self.problem.gradient(theta).double().flatten().numpy()

        moments, places = torch.unique(times, return_inverse=True)  # the solver takes no time twice
        end = max(float(moments[-1]), 1e-300)  # and wants an interval
        # rows share the steps, so that the tolerance of one is not spread over all
        found: Any = solve_ivp(
            velocity, (0.0, end), start.double().flatten().numpy(), method=self.method,
            t_eval=moments.numpy(), rtol=self.rtol, atol=self.atol,
        )
        if not found.success:
            raise Failure(f"GradientFlow: {found.message} Raise rtol, or take LSODA.")
        return torch.from_numpy(found.y.T.copy()).view(-1, *start.shape)[places]


@checked
def heun(problem: Problem, lr: Positive, steps: Count) -> Float[Tensor, "T B D"]:
    r"""Follows the flow by Heun's steps, the mean of the slopes at both ends: of order 2.

    Example:
        >>> heun(Quadratic([1.0]), 0.5, 2).flatten()  # 1 - 0.5 + 0.125 each time
        tensor([1.0000, 0.6250, 0.3906], dtype=torch.float64)
    """
    path = [problem.theta.detach().clone()]
    for _ in range(steps):
        slope_here = problem.gradient(path[-1])
        slope_there = problem.gradient(path[-1] - lr * slope_here)
        path.append(path[-1] - lr / 2 * (slope_here + slope_there))
    return torch.stack(path)


@checked
def modified_objective(problem: Problem, lr: Positive) -> Problem:
    r"""Gives $h+\frac\eta4\Vert\nabla h\Vert^2$, whose flow gradient descent follows better.

    Example:
        >>> modified_objective(Quadratic([2.0]), 0.5)().item()  # 1 + 0.5 / 4 * 2²
        1.5
    """
    return _Modified(problem, lr / 4)


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
            float((_discrete(problem, step, round(time / step), integrator) - exact).norm())
            for step in steps
        ]
        parts[name] = slope(
            steps, errors, 1.0, tol=0.05, why="the next term bends the line by the step",
            labels=("step η", f"distance from the flow, {name}"),
        )
    return every(parts)


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


@claim(control={"error": 0.05}, source="linear differential equations")
def quadratic_closed_form(
    seed: Seed, *, dim: Annotated[int, Range(2, 30)] = 6,
    error: Annotated[float, Range(0, 0.5)] = 0.0,
) -> Evidence:
    r"""On a quadratic $\theta(t)=\theta^*+Qe^{-\Lambda t}Q^\top(\theta(0)-\theta^*)$."""
    rng = seed.torch()
    Q = torch.linalg.qr(torch.randn(dim, dim, generator=rng, dtype=torch.float64)).Q
    lam, best = torch.logspace(-2, 1, dim, dtype=Q.dtype), torch.randn(dim, generator=rng)
    start = torch.randn(2, dim, generator=rng, dtype=Q.dtype)
    bowl = Quadratic(lam, rotation=Q, minimizer=best).at(start)
    t = torch.linspace(0, 10, 41, dtype=Q.dtype)
    H = (Q * (1 + error) * lam) @ Q.mT
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
    return at_most(gaps / bound[:, None], 1, why="a theorem: no slack").drawn(
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
    ).drawn(
        *(Series(f"from {float(starting[k]):.2f}", t, relative[:, k].clamp(min=1e-20), "other")
          for k in (0, starts // 2, -1)),
        Series("exp(−2μt)", t, bound, "bound"), x="time t", y="gap, as a share of the first",
        log="y",
    )


@claim(control={"coefficient": 0.5}, source="Barrett and Dherin 2021, thm. 3.1")
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
        descent = _discrete(problem, step, round(time / step), "GD")
        # the component, unless the knob says another coefficient
        modified = modified_objective(problem, 4 * coefficient * step) if coefficient else problem
        flow = GradientFlow(modified).solve([time])[0]
        errors.append(float((descent - flow).norm()))
        others.append(float((descent - plain).norm()))
    found = slope(steps, errors, 2.0, tol=0.1, why="the next term bends the line by the step")
    series = found.picture.series if found.picture else ()
    return found.drawn(
        *series, Series("from the plain flow", steps, others, "other"),
        x="step η", y="distance of descent from the flow", log="xy",
    )


@experiment(
    reaches={"worst_ratio_error": at_most_goal(0.05), "accuracy_gap": at_most_goal(0.005)},
    floor={"worst_ratio_error": at_most_goal(0.05), "accuracy_gap": at_most_goal(0.005)},
    source="Hairer, Norsett and Wanner 1993: Euler's method has order 1, so that half the step "
    "is half the distance",
)
def flow_vs_descent(run: Run, *, time: Annotated[float, Range(5, 200)] = 40.0) -> None:
    """Compares gradient descent with the flow on handwritten digits, at equal times.

    Args:
        time: When they are compared, in units of the longest step 1/L.
    """
    x, y, x_test, y_test = (one for one in digits())
    risk = _SoftmaxRisk(x.flatten(1).double(), y)
    L = float(risk.smoothness or 1)
    steps = 2.0 ** -np.arange(7 if run.full else 3) / L
    flow = GradientFlow(risk).solve([time / L])[0]
    distances, accuracies = [], []
    for step in run.steps(list(steps), "steps"):
        theta = _discrete(risk, step, round(time / L / step), "GD")
        distances.append(float((theta - flow).norm()))
        accuracies.append(risk.accuracy(theta, x_test.flatten(1).double(), y_test))
    ratios = np.divide(distances[:-1], distances[1:])
    reached = risk.accuracy(flow, x_test.flatten(1).double(), y_test)
    run.record(
        worst_ratio_error=float(np.abs(ratios / 2 - 1).max()),
        accuracy_gap=float(np.abs(np.subtract(accuracies, reached)).max()),
        flow_accuracy=reached, largest_distance=distances[0],
    )
    run.figure("distances", figures.draw(Picture((
        Series("gradient descent", steps * L, distances),
        Series("half the step, half the distance", steps * L, distances[-1] * steps / steps[-1],
               "predicted"),
    ), "step η, in units of 1/L", "distance from the flow", "xy")))
    run.figure("polygons", _polygons())


@final
class _Modified(Problem):
    """A problem plus a multiple of its squared gradient."""

    def __init__(self, problem: Problem, weight: float) -> None:
        super().__init__(problem.theta)
        self.problem, self.weight = problem, weight

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute both terms; the gradient within stays differentiable."""
        with torch.enable_grad():
            at = theta if theta.requires_grad else theta.detach().requires_grad_()
            height = self.problem.value(at)
            (slopes,) = torch.autograd.grad(height.sum(), at, create_graph=True)
        return height + self.weight * (slopes**2).sum(dim=-1)


@final
class _SoftmaxRisk(Problem):
    """Mean cross-entropy of a linear classifier of ten classes; theta holds its weights."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        super().__init__(torch.zeros(1, 10 * x.shape[1]))
        self.x, self.y = x, y
        # softmax has a Hessian of at most 1/2
        self.smoothness = float(torch.linalg.matrix_norm(x, ord=2)) ** 2 / (2 * len(x))

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the loss, one row after the other."""
        flat = theta.reshape(-1, theta.shape[-1])
        losses = [F.cross_entropy(self.x @ one.view(-1, 10), self.y) for one in flat]
        return torch.stack(losses).view(theta.shape[:-1])

    def accuracy(self, theta: Tensor, x: Tensor, y: Tensor) -> float:
        """Count the share of test digits that the weights classify correctly."""
        return float((((x @ theta.view(-1, 10)).argmax(dim=1)) == y).double().mean())


def _quadratic_flow(problem: Problem, start: Tensor, times: Tensor) -> Tensor:
    """Shrink every coordinate along the eigenvectors by exp(-eigenvalue * time)."""
    assert isinstance(problem, Quadratic)  # noqa: S101 (the constructor saw to it)
    Q = torch.eye(start.shape[1]).to(start) if problem.rotation is None else problem.rotation
    shrink = (-times[:, None, None] * problem.eigenvalues).exp()  # (T, 1, D)
    return problem.center + ((start - problem.center) @ Q * shrink) @ Q.mT


def _discrete(problem: Problem, step: float, steps: int, integrator: str) -> Tensor:
    """Give the last point of gradient descent, or of Heun's method."""
    if integrator == "Heun":
        return heun(problem, float(step), steps)[-1]
    twin = problem.at(problem.theta)
    sgd = torch.optim.SGD(twin.parameters(), lr=float(step))
    return descend(twin, sgd, steps, record=("theta",), at=[steps])["theta"][0]


def _logistic(seed: Seed) -> LogisticRisk:
    """Draw a logistic regression with noisy labels, and two starts far from its minimum."""
    rng = seed.child("logistic").torch()
    return noisy_logistic(rng, samples=60, dim=4).at(2 * torch.randn(2, 4, generator=rng))


def _polygons() -> go.Figure:
    """Draw the flow on the contours of a quadratic, and descent with three steps."""
    bowl = Quadratic([1.0, 6.0]).at(torch.tensor([[-3.0, 1.6]]))
    x, y = np.linspace(-3.4, 1, 80), np.linspace(-1.8, 1.9, 70)
    heights = bowl.value(torch.tensor(np.stack(np.meshgrid(x, y), axis=-1)))
    figure = figures.draw(Picture((), "θ₁", "θ₂"))
    figure.add_trace(go.Contour(
        x=x, y=y, z=heights.sqrt().numpy(), showscale=False, colorscale="Greys", opacity=0.4,
        contours={"coloring": "lines"}, name="√h", hoverinfo="skip",
    ))
    path = GradientFlow(bowl).solve(torch.linspace(0, 4, 200))[:, 0]
    figure.add_scatter(x=path[:, 0].tolist(), y=path[:, 1].tolist(), mode="lines", name="flow")
    for step in (0.3, 0.15, 0.05):
        twin = bowl.at(bowl.theta)
        sgd = torch.optim.SGD(twin.parameters(), lr=step)
        path = descend(twin, sgd, math.ceil(4 / step), record=("theta",))["theta"][:, 0]
        figure.add_scatter(
            x=path[:, 0].tolist(), y=path[:, 1].tolist(), mode="lines+markers", name=f"η = {step:g}"
        )
    return figure
