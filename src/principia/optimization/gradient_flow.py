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

from collections.abc import Sequence
from typing import Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_ivp
from torch import Tensor

from principia.lab.params import Failure, PositiveFloat, PositiveInt, checked, usage_error
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Problem, Quadratic

Method = Literal["exact", "RK45", "LSODA"]


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
        self, problem: Problem, *, method: Method | None = None, rtol: PositiveFloat = 1e-9,
        atol: PositiveFloat = 1e-11,
    ) -> None:
        quadratic = isinstance(problem, Quadratic)
        if method == "exact" and not quadratic:
            name = type(problem).__name__
            raise usage_error("GradientFlow", "method", "RK45 or LSODA unless h is quadratic", name)
        if problem.theta.dtype != torch.float64 and min(rtol, atol) < 1e-6:
            hint = "Convert it with problem.double(), or raise both to 1e-6."
            domain = "of float64 for tolerances below 1e-6"
            raise usage_error("GradientFlow", "problem", domain, problem.theta.dtype, hint)
        self.problem, self.rtol, self.atol = problem, rtol, atol
        self.method: Method = method or ("exact" if quadratic else "RK45")

    def solve(self, t: Sequence[float] | Float[Tensor, " T"]) -> Float[Tensor, "T B D"]:
        """Give the points at times that are at least 0 and never decrease."""
        times = torch.as_tensor(t, dtype=torch.float64)
        if times.ndim != 1 or not len(times) or times[0] < 0 or bool((times.diff() < 0).any()):
            domain = "one or more times >= 0 that never decrease"
            raise usage_error("GradientFlow", "t", domain, times.tolist())
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


def _quadratic_flow(problem: Problem, start: Tensor, times: Tensor) -> Tensor:
    """Shrink every coordinate along the eigenvectors by exp(-eigenvalue * time)."""
    assert isinstance(problem, Quadratic)  # noqa: S101 (the constructor saw to it)
    Q = torch.eye(start.shape[1]).to(start) if problem.rotation is None else problem.rotation
    shrink = (-times[:, None, None] * problem.eigenvalues).exp()  # (T, 1, D)
    return problem.center + ((start - problem.center) @ Q * shrink) @ Q.mT


@checked
def heun(problem: Problem, lr: PositiveFloat, steps: PositiveInt) -> Float[Tensor, "T B D"]:
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
def modified_objective(problem: Problem, lr: PositiveFloat) -> Problem:
    r"""Gives $h+\frac\eta4\Vert\nabla h\Vert^2$, whose flow gradient descent follows better.

    Example:
        >>> modified_objective(Quadratic([2.0]), 0.5)().item()  # 1 + 0.5 / 4 * 2²
        1.5
    """
    return _Modified(problem, lr / 4)


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


def last_point(problem: Problem, step: float, steps: int, integrator: str) -> Tensor:
    """Give the last point of gradient descent, or of Heun's method."""
    if integrator == "Heun":
        return heun(problem, float(step), steps)[-1]
    twin = problem.at(problem.theta)
    sgd = torch.optim.SGD(twin.parameters(), lr=float(step))
    return descend(twin, sgd, steps, record=("theta",), at=[steps])["theta"][0]
