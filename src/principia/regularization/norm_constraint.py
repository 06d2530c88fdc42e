r"""Norm constraints: keep the weights in a ball, instead of charging for their length.

A step leaves the ball, the projection brings the weights back to its nearest point; inside, nothing
happens to them. At the solution the gradient of the risk points against the weights, and how
strongly, the multiplier, is the price at which a penalty would have led to the same place. For a
convex risk ball and penalty are two names of one path, but the radius is not the price: it is the
norm of the penalized solution, and falls as the price rises. Without convexity the penalized
solution jumps, and the radii it jumps over are reached by no price. In networks each unit gets a
ball for its own incoming weights: no step, however long, can make them explode.

$$ \min_{\Vert\theta\Vert\le r}R(\theta), \quad \theta\leftarrow\Pi_r(\theta-\eta\nabla R(\theta)),
\quad \Pi_r(v) = \min\Big(1,\frac r{\Vert v\Vert}\Big)\,v $$

$$ \nabla R(\theta) = -\lambda\theta, \quad \lambda\ge0, \quad \lambda(\Vert\theta\Vert-r) = 0 $$

$$ \theta_\mu = \operatorname{argmin}_\theta R(\theta)+\frac\mu2\Vert\theta\Vert^2, \quad
r(\mu) = \Vert\theta_\mu\Vert, \quad \lambda = \mu $$

$$ R(\theta) = R(\theta^*)+\frac12(\theta-\theta^*)^\top H(\theta-\theta^*)
+O(\Vert\theta-\theta^*\Vert^3) $$

Symbols:
    $R, \theta$: risk and weights, a `Problem` and its `theta`, one row a run
    $r, \Pi_r$: radius and nearest point of the ball, `project_ball`; `ProjectedSGD` uses it
    $\eta$: step size, `lr`
    $\lambda$: multiplier of the constraint, the second result of `kkt_residual`
    $\mu, \theta_\mu$: price of the squared length and solution at this price
    $r(\mu)$: radius whose ball has the same solution, `matching_radius`
    $\theta^*, H$: minimizer without constraint, and Hessian there
    $c$: largest norm of the incoming weights of a unit, `bound` of `MaxNorm`

References:
    Karush (1939), Minima of functions of several variables with inequalities as side constraints.
        Master's thesis, University of Chicago.
    Kuhn and Tucker (1951), Nonlinear programming. Berkeley Symposium on Mathematical Statistics and
        Probability.
    Hinton, Srivastava, Krizhevsky, Sutskever and Salakhutdinov (2012), Improving neural networks by
        preventing co-adaptation of feature detectors. arXiv:1207.0580
    Srivastava, Hinton, Krizhevsky, Sutskever and Salakhutdinov (2014), Dropout: a simple way to
        prevent neural networks from overfitting. Journal of Machine Learning Research 15.
    O'Donoghue and Candès (2015), Adaptive restart for accelerated gradient schemes. Foundations of
        Computational Mathematics 15(3). arXiv:1204.3982
"""

__all__ = ["MaxNorm", "ProjectedSGD", "project_ball", "kkt_residual", "matching_radius"]

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from principia.lab.params import PositiveFloat, checked, usage_error
from principia.lab.training import Callback, GroupOptimizer
from principia.optimization.problems import Problem

Numbers = Sequence[float] | Float[Tensor, " A"]
UNITS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)  # layers whose weight has one row a unit
STEPS = 50_000  # in which a solution must be found; prices of 1e-6 of the curvature need less


@final
class MaxNorm(Callback):
    r"""Shortens the incoming weights of every unit to a norm of at most `bound`.

    A part of the training loop that acts after every step; called on a model, it acts once. Rows
    that are short enough, biases, and what is neither Linear nor Conv stay as they are.

    Args:
        bound: Largest norm $c$ of a row.
        dim: Axis that counts the rows: 0 for incoming weights, 1 for outgoing ones.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, 4.0], [0.0, 0.5]]))
        >>> MaxNorm(1.0)(layer).weight.data.norm(dim=1)
        tensor([1.0000, 0.5000])
    """

    @checked
    def __init__(self, bound: PositiveFloat, *, dim: Literal[0, 1] = 0) -> None:
        self.bound, self.dim = bound, dim

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> nn.Module:
        """Shorten the rows of all layers of a model, in place."""
        layers = [one for one in model.modules() if isinstance(one, UNITS)]
        if not layers:
            raise usage_error(
                "MaxNorm", "model", "one with Linear or Conv layers", type(model).__name__
            )
        for layer in layers:
            if parametrize.is_parametrized(layer, "weight"):  # its parameters have other names
                layer.weight = layer.weight.renorm(2, self.dim, self.bound)  # type: ignore[assignment]
            else:
                layer.weight.renorm_(2, self.dim, self.bound)
        return model

    def after_step(self, model: nn.Module) -> None:
        """Bring the rows back that the step made too long."""
        self(model)


@final
class ProjectedSGD(GroupOptimizer):
    r"""Steps against the gradient, then back into the ball: $\Pi_r(\theta-\eta\nabla R)$.

    The parameters of a group, together, are the vector $\theta$.

    Args:
        params: Parameters, or groups of them, with their own `lr` and `radius`.
        lr: $\eta$.
        radius: $r$.

    Example:
        >>> x = nn.Parameter(torch.tensor([0.6, 0.8]))
        >>> x.grad = torch.tensor([-2.4, -3.2])
        >>> ProjectedSGD([x], lr=1.0, radius=2.0).step()
        >>> x.data
        tensor([1.2000, 1.6000])
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: PositiveFloat = 0.1, radius: PositiveFloat = 1.0
    ) -> None:
        super().__init__(params, {"lr": lr, "radius": radius})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take more parameters, with options of their own; the constructor's come here, too."""
        options = self.defaults | param_group
        for name in ("lr", "radius"):
            if not 0 < options[name] < math.inf:
                raise usage_error("ProjectedSGD", name, "in (0, inf)", options[name])
        super().add_param_group(param_group)

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Take the step, and shorten all of the group alike if it is too long."""
        torch._foreach_add_(params, gradients, alpha=-group["lr"])
        whole = group["params"]  # also what has no gradient
        length = float(torch.stack(torch._foreach_norm(whole)).norm())
        if length > group["radius"]:
            torch._foreach_mul_(whole, group["radius"] / length)


def project_ball(
    v: Float[Tensor, "*B D"], r: float | Float[Tensor, "*B"]
) -> Float[Tensor, "*B D"]:
    r"""Finds the point of the ball that is nearest to each row of v: the row, or $rv/\Vert v\Vert$.

    Args:
        v: Vectors.
        r: Radius, one for all or one for each; inf is no constraint.

    Example:
        >>> project_ball(torch.tensor([[3.0, 4.0], [0.5, 0.0], [0.0, 0.0]]), 1.0)
        tensor([[0.6000, 0.8000],
                [0.5000, 0.0000],
                [0.0000, 0.0000]])
    """
    radius = _radius("project_ball", r).to(v)[..., None]
    length = v.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(v.dtype).tiny)
    return v * (radius / length).clamp(max=1)


def _radius(owner: str, r: float | Tensor, *, finite: bool = False) -> Tensor:
    radius = torch.as_tensor(r, dtype=torch.float64)
    if not bool((radius > 0).all()) or (finite and not bool(radius.isfinite().all())):
        raise usage_error(owner, "r", "in (0, inf)" if finite else "in (0, inf]", r)
    return radius


def kkt_residual(
    problem: Problem, theta: Float[Tensor, "B D"], r: float | Float[Tensor, " B"]
) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"]]:
    r"""Measures by how much points violate the conditions of a constrained minimum.

    Returns the largest of $\Vert\nabla R+\lambda\theta\Vert$, $\lambda\,|\Vert\theta\Vert-r|$ and
    what lies beyond the ball; and $\lambda$, that number $\ge0$ for which the first is smallest.

    Args:
        problem: The risk $R$.
        theta: Points.
        r: Radius, one for all or one for each.

    Example:
        >>> from principia.optimization import Quadratic
        >>> bowl = Quadratic([1.0, 1.0], minimizer=torch.tensor([3.0, 4.0]))
        >>> kkt_residual(bowl, torch.tensor([[0.6, 0.8], [1.5, 2.0]], dtype=torch.float64), 1.0)
        (tensor([0.0000, 1.5000], dtype=torch.float64), tensor([4., 1.], dtype=torch.float64))
    """
    gradient = problem.gradient(theta)
    squared = (theta**2).sum(dim=-1).clamp(min=torch.finfo(theta.dtype).tiny)
    multiplier = (-(gradient * theta).sum(dim=-1) / squared).clamp(min=0)
    beyond = theta.norm(dim=-1) - _radius("kkt_residual", r, finite=True)
    pull = (gradient + multiplier[:, None] * theta).norm(dim=-1)
    violations = torch.stack([pull, multiplier * beyond.abs(), beyond])
    return violations.amax(dim=0), multiplier


def matching_radius(problem: Problem, mus: Numbers) -> Float[Tensor, " A"]:
    r"""Gives the radius whose ball has the solution of each price: $r(\mu)=\Vert\theta_\mu\Vert$.

    Args:
        problem: The risk, convex and with a finite `smoothness`.
        mus: Prices; above 0 where the risk has no minimum, as with classes that a line separates.

    Example:
        >>> from principia.optimization import Quadratic
        >>> bowl = Quadratic([1.0, 1.0], minimizer=torch.tensor([3.0, 4.0]))
        >>> matching_radius(bowl, [0.0, 1.0, 4.0])
        tensor([5.0000, 2.5000, 1.0000], dtype=torch.float64)
    """
    prices = torch.as_tensor(mus, dtype=torch.float64)
    if not len(prices) or not bool(((prices >= 0) & prices.isfinite()).all()):
        raise usage_error("matching_radius", "mus", "one or more values, each in [0, inf)", mus)
    return penalized_at(problem, prices).norm(dim=-1)


def penalized_at(problem: Problem, mus: Tensor, *, tol: float = 1e-14) -> Tensor:
    """Minimize a convex risk plus a price of the squared length, all prices at once."""
    def shrink(v: Tensor, at: Tensor, lr: float) -> Tensor:
        return v / (1 + lr * mus[at, None])

    ends, moving = accelerated(problem, shrink, mus, tol)
    if len(moving):
        domain = f"prices at which {STEPS} steps find the solution"
        hint = (
            "Where the risk has no minimum, as with classes that a line separates, a price must be "
            "above 0; the higher it is, the fewer steps."
        )
        raise usage_error("matching_radius", "mus", domain, float(moving[0]), hint)
    return ends


def in_balls(problem: Problem, radii: Tensor, *, tol: float = 1e-14) -> Tensor:
    """Minimize a convex risk in balls around 0, all radii at once."""
    ends, moving = accelerated(problem, lambda v, at, lr: project_ball(v, radii[at]), radii, tol)
    if len(moving):
        domain = f"radii in which {STEPS} steps find the solution"
        hint = "In a smaller ball they are fewer."
        raise usage_error("radius_path", "radii", domain, float(moving[0]), hint)
    return ends


def accelerated(
    problem: Problem, pull: Callable[[Tensor, Tensor, float], Tensor], rows: Tensor, tol: float
) -> tuple[Tensor, Tensor]:
    """Step down and pull back, from ahead of the last move; a row that goes uphill starts anew.

    It ends when no step of any row is longer than `tol`, relative to 1 + the length of the row.
    Returns where it ended, and those of `rows` that still moved after all steps.
    """
    if not problem.smoothness:
        hint = "Steps of 1/L need a largest curvature L."
        raise usage_error(
            type(problem).__name__, "smoothness", "in (0, inf)", problem.smoothness, hint
        )
    lr = 1 / problem.smoothness
    ends = problem.theta.detach().new_zeros(len(rows), problem.theta.shape[1])
    at = torch.arange(len(rows))  # the rows that still move
    theta, ahead, age = ends.clone(), ends.clone(), ends.new_zeros(len(rows), 1)
    for _ in range(STEPS):
        reached = pull(ahead - lr * problem.gradient(ahead), at, lr)
        step, moved = reached - ahead, reached - theta
        ends[at] = reached
        moving = step.norm(dim=1) > tol * (1 + reached.norm(dim=1))
        if not bool(moving.any()):
            return ends, rows[:0]
        age = torch.where((step * moved).sum(dim=1, keepdim=True) < 0, 0, age + 1)
        ahead = (reached + age / (age + 3) * moved)[moving]
        theta, age, at = reached[moving], age[moving], at[moving]
    return ends, rows[at]
