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

import collections
import contextlib
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal, final

import plotly.graph_objects as go
import torch
from jaxtyping import Float
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize
from torch.optim.lr_scheduler import CosineAnnealingLR

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.data.mnist import mnist
from principia.lab.domains import Positive, Range
from principia.lab.draws import rand, randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.optimizers import GroupOptimizer
from principia.lab.pairs import paired
from principia.lab.relations import at_least, at_most, equal, every, never, slope
from principia.lab.seeds import Seed
from principia.lab.training import Diverged, Part, Schedule, Supervised, evaluate, fit, part
from principia.lab.training.metrics import accuracy
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import LogisticRisk, Problem, noisy_logistic

Numbers = Sequence[float] | Float[Tensor, " A"]
Form = Literal["correct", "printed"]
Dim = Annotated[int, Range(2, 10)]
Samples = Annotated[int, Range(150, 1000)]
UNITS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)  # layers whose weight has one row a unit
STEPS = 50_000  # in which a solution must be found; prices of 1e-6 of the curvature need less
LOOSEST = {"full": 1e-5, "quick": 1e-4}  # prices for no bound, at which there is no minimum


@final
class MaxNorm(Part):
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
    def __init__(self, bound: Positive, *, dim: Literal[0, 1] = 0) -> None:
        self.bound, self.dim = bound, dim

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> nn.Module:
        """Shorten the rows of all layers of a model, in place."""
        layers = [one for one in model.modules() if isinstance(one, UNITS)]
        if not layers:
            raise refuse("MaxNorm", "model", "one with Linear or Conv layers", type(model).__name__)
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
    def __init__(self, params: Iterable[Any], lr: Positive = 0.1, radius: Positive = 1.0) -> None:
        super().__init__(params, {"lr": lr, "radius": radius})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take more parameters, with options of their own; the constructor's come here, too."""
        options = self.defaults | param_group
        for name in ("lr", "radius"):
            if not 0 < options[name] < math.inf:
                raise refuse("ProjectedSGD", name, "in (0, inf)", options[name])
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
        raise refuse("matching_radius", "mus", "one or more values, each in [0, inf)", mus)
    return _penalized(problem, prices).norm(dim=-1)


def _radius(owner: str, r: float | Tensor, *, finite: bool = False) -> Tensor:
    radius = torch.as_tensor(r, dtype=torch.float64)
    if not bool((radius > 0).all()) or (finite and not bool(radius.isfinite().all())):
        raise refuse(owner, "r", "in (0, inf)" if finite else "in (0, inf]", r)
    return radius


@part()
def max_norm(run: Run, *, bound: Positive = 3.0) -> Part:
    """Keeps the incoming weights of every unit at most so long.

    Args:
        bound: Largest norm of the incoming weights of a unit.
    """
    return MaxNorm(bound)


@claim(control={"onto": "sphere"}, source="by calculation; Bauschke and Combettes 2011, ch. 4")
def projection_is_nearest(
    seed: Seed, *, dim: Annotated[int, Range(1, 50)] = 3,
    radius: Annotated[float, Range(0.1, 10)] = 1.0,
    points: Annotated[int, Range(1000, 50_000)] = 10_000,
    onto: Literal["ball", "sphere"] = "ball",
) -> Evidence:
    r"""$\Pi_r(v)$ is the point of the ball that is closest to $v$, and $\Pi_r$ never stretches."""
    rng, most = seed.torch(), 3 * radius
    v = most * rand(rng, 200, 1) * F.normalize(randn(rng, 200, dim), dim=1)
    found = project_ball(v, radius) if onto == "ball" else radius * F.normalize(v, dim=1)
    # rivals: some anywhere in the ball, some near what was found and pulled inside
    spread = radius * rand(rng, points // 2, 1) ** (1 / dim)
    anywhere = spread * F.normalize(randn(rng, points // 2, dim), dim=1)
    near = found[:, None] + 0.1 * radius * randn(rng, 200, max(points // 400, 1), dim)
    near = near / (near.norm(dim=-1, keepdim=True) / radius).clamp(min=1)
    length, moved = v.norm(dim=1), (v - found).norm(dim=1)
    best = torch.minimum(_distances(v, anywhere).amin(dim=1), _distances(v[:, None], near).amin(-1))
    before, after = _distances(v, v), _distances(found, found)
    order = length.argsort()
    return every({
        "no point of the ball is closer": never(
            best < moved - 1e-12 * most, why="a theorem; 1e-12 for rounding"
        ).drawn(
            Series("moved by the projection", length[order], moved[order]),
            Series("max(0, |v| − r)", [0, radius, most], [0, 0, most - radius], "predicted"),
            Series("closest of the random points", length[order], best[order], "other"),
            x="|v|", y="distance from v",
        ),
        "it is in the ball": at_most(
            found.norm(dim=1), radius, slack=1e-14 * radius, why="rounding of a norm"
        ),
        "distances do not grow": never(after > before + 1e-12 * most, why="a theorem; rounding"),
    })


@claim(control={"steps": 10}, source="Karush 1939; Kuhn and Tucker 1951")
def kkt_at_the_solution(
    seed: Seed, *, dim: Dim = 5, samples: Samples = 200,
    share: Annotated[float, Range(0.1, 0.9)] = 0.5,
    steps: Annotated[int, Range(10, 2000)] = 200,
) -> Evidence:
    r"""In a ball it ends at $\nabla R=-\lambda\theta$, $\lambda\ge0$, which is 0 inside the rim."""
    risk = noisy_logistic(seed.torch(), dim=dim, samples=samples, l2=0.0)
    free = _penalized(risk, torch.zeros(1))
    parts, curves, shown = {}, [], sorted({round(steps ** (k / 60)) for k in range(61)} | {0})
    for name, factor in {"active": share, "inactive": 2.0}.items():
        twin, radius = risk.at(risk.theta), factor * float(free.norm())
        optimizer = ProjectedSGD(twin.parameters(), lr=1 / float(risk.smoothness or 1),
                                 radius=radius)
        path = descend(twin, optimizer, steps, record=("theta",), at=shown)["theta"][:, 0]
        residual, multiplier = kkt_residual(risk, path, radius)
        why = "steps that contract by a constant factor, far below the size of a gradient"
        parts[f"{name}: conditions"] = at_most(residual[-1], 1e-8, why=why)
        residual = residual.clamp(min=1e-17)  # a logarithmic axis has no 0
        curves.append(Series(f"{name}: r = {radius:.2f}", shown, residual, "other"))
        if name == "active":
            why = "rounding of a norm"
            parts[f"{name}: at the rim"] = equal(path[-1].norm(), radius, tol=1e-12, why=why)
            parts[f"{name}: λ"] = at_least(multiplier[-1], 1e-6, why="a ball that holds back")
        else:
            why = "the residual over the smallest curvature"
            parts[f"{name}: λ"] = equal(multiplier[-1], 0, tol=1e-8, why="as the residual")
            parts[f"{name}: θ"] = equal(path[-1:], free, tol=1e-5, why=why)
    curves.append(Series("1e-8", [1, steps], [1e-8] * 2, "bound"))
    return every(parts).drawn(*curves, x="step t", y="violation of the conditions", log="xy")


@claim(
    control={"form": "printed"}, source="Boyd and Vandenberghe 2004, ch. 5",
    misprint=r"decay $\mu$ is equivalent to the constraint $\Vert\theta\Vert\le\mu$",
)
def penalty_matches_a_radius(
    seed: Seed, *, dim: Dim = 5, samples: Samples = 200,
    weakest: Annotated[float, Range(1e-4, 0.1)] = 0.01, form: Form = "correct",
) -> Evidence:
    r"""Convex: price $\mu$ and radius $\Vert\theta_\mu\Vert$ have one solution, $\lambda=\mu$."""
    risk = noisy_logistic(seed.torch(), dim=dim, samples=samples, l2=0.0)
    mus = weakest * 10.0 ** torch.arange(4, dtype=torch.float64)
    radii = mus if form == "printed" else matching_radius(risk, mus)
    penalized, constrained = _penalized(risk, mus), _in_balls(risk, radii)
    multiplier = kkt_residual(risk, constrained, radii)[1]
    grid = torch.logspace(math.log10(weakest), math.log10(weakest) + 3, 60, dtype=mus.dtype)
    lines, shown = _penalized(risk, grid), range(min(dim, 3))
    return every({
        "distance of the solutions": at_most(
            (penalized - constrained).norm(dim=1), 1e-6, why="both are solved to 1e-14 a step"
        ).drawn(
            *[Series(f"θ{i + 1}, penalized", grid, lines[:, i], "predicted") for i in shown],
            *[Series(f"θ{i + 1}, in the ball", mus, constrained[:, i]) for i in shown],
            x="price μ", y="coordinate of the solution", log="x",
        ),
        "multiplier": equal(multiplier, mus, tol=1e-6 * mus, why="as the distance, relative"),
        "radii decrease": never(penalized.norm(dim=1).diff() >= 0, why="a theorem"),
    })


@claim(control={"risk": "exp(-θ⁴)"}, source="by calculation")
def nonconvex_breaks_the_match(
    seed: Seed, *, dim: Dim = 5, samples: Samples = 200,
    grid: Annotated[int, Range(1000, 3000)] = 1500,
    risk: Literal["logistic", "exp(-θ⁴)"] = "logistic",
) -> Evidence:
    r"""Convex: every radius below $\Vert\theta^*\Vert$ is reached by some price $\mu$."""
    mus = torch.logspace(3, -5, grid, dtype=torch.float64)
    if risk == "logistic":
        convex = noisy_logistic(seed.torch(), dim=dim, samples=samples, l2=0.0)
        *radii, free = matching_radius(convex, F.pad(mus, (0, 1)))  # the last price is 0
        radii, slopes = torch.stack(radii), _radius_slopes(convex, mus[::5])
    else:  # the global minimum, on a grid of a thousandth: by symmetry θ ≥ 0
        theta = torch.linspace(0, 3, 3001, dtype=torch.float64)
        penalized = (-(theta**4)).exp() + mus[:, None] / 2 * theta**2
        radii = theta[penalized.argmin(dim=1)]
        free = radii[-1]  # the risk falls forever: no price but 0 reaches farther
        bend = (16 * radii**6 - 12 * radii**2) * (-(radii**4)).exp()
        slopes = mus * radii / (bend + mus)
    gaps = torch.cat([radii.new_zeros(1), radii, free[None]]).sort().values.diff()
    step, steepest = 8 * math.log(10) / (grid - 1), float(slopes.max())
    return at_most(
        gaps.max(), step * steepest, slack=0.01 * step * steepest,
        why="a continuous path moves by a step of ln μ times |dr/d ln μ| = μ θ'(H + μI)⁻¹θ / r at "
        "most; 1 % for slopes between the points",
        detail=f"largest gap between radii; steps of ln μ {step:.4f}, slope at most {steepest:.3f}",
    ).drawn(
        Series("‖θ_μ‖", mus[:: grid // 300], radii[:: grid // 300]),
        x="price μ", y="radius that it reaches", log="x",
    )


@claim(
    control={"form": "printed"}, source="Taylor's theorem",
    misprint=r"$R\approx R^*+(\theta-\theta^*)^\top H(\theta-\theta^*)$, without the $\frac12$",
)
def half_in_the_expansion(
    seed: Seed, *, dim: Dim = 5, samples: Samples = 200,
    l2: Annotated[float, Range(0.01, 1)] = 0.1, form: Form = "correct",
) -> Evidence:
    r"""Around a minimum $R=R^*+\frac12(\theta-\theta^*)^\top H(\theta-\theta^*)$ up to order 3."""
    rng = seed.torch()
    risk = noisy_logistic(rng, dim=dim, samples=samples, l2=l2)
    best = _penalized(risk, torch.zeros(1))[0]
    H = torch.autograd.functional.hessian(risk.value, best)
    radii = torch.logspace(-3, -1, 12, dtype=torch.float64)
    step = radii[:, None, None] * F.normalize(randn(rng, 40, dim), dim=1)  # (12, 40, dim)
    half = 0.5 if form == "correct" else 1.0
    model = risk.value(best) + half * torch.einsum("rni,ij,rnj->rn", step, H, step)
    error = (risk.value(best + step) - model).abs().mean(dim=1)
    return slope(
        radii, error, 3.0, tol=0.1, why="3 in the limit; the fourth order is a tenth at most",
        labels=("distance from the minimum", "mean error of the expansion"),
    )


@claim(control={"over": "matrix"}, source="Hinton et al. 2012, app. A")
def max_norm_rows_hold(
    seed: Seed, *, bound: Annotated[float, Range(0.1, 10)] = 1.0,
    lr: Annotated[float, Range(0.1, 100)] = 10.0, steps: Annotated[int, Range(10, 300)] = 100,
    over: Literal["rows", "matrix"] = "rows",
) -> Evidence:
    r"""After every step no row is longer than $c$, and rows that were not are untouched."""
    rng, limit = seed.torch(), MaxNorm(bound)
    x, y = randn(rng, 64, 1, 6, 6), torch.randint(3, (64,), generator=rng)
    model = nn.Sequential(  # without biases, which nothing holds: they would soon rule
        nn.utils.skip_init(nn.Conv2d, 1, 4, 3, bias=False), nn.Tanh(), nn.Flatten(),
        nn.utils.skip_init(nn.Linear, 64, 10, bias=False), nn.Tanh(),
        nn.utils.skip_init(nn.Linear, 10, 3, bias=False),
    ).double()
    weights = [nn.init.normal_(one, std=0.1, generator=rng) for one in model.parameters()]
    sgd = torch.optim.SGD(weights, lr=lr)
    before, after, changed = [], [], []  # one row for each unit, at every step
    for _ in range(steps):
        sgd.zero_grad()
        F.cross_entropy(model(x), y).backward()
        sgd.step()
        rows = [one.detach().flatten(1).clone() for one in weights]
        if over == "rows":
            limit.after_step(model)
        else:
            for one in weights:
                one.data = project_ball(one.detach().flatten(), bound).view_as(one)
        now = [one.detach().flatten(1) for one in weights]
        exact = [project_ball(one, bound) for one in rows]
        before.append(torch.cat([one.norm(dim=1) for one in rows]))
        after.append(torch.cat([one.norm(dim=1) for one in now]))
        changed.append(torch.cat([(a - b).norm(dim=1) for a, b in zip(now, exact, strict=True)]))
    long, short, wrong = torch.stack(before), torch.stack(after), torch.stack(changed)
    return every({
        "norms": at_most(short, bound, slack=1e-12 * bound, why="rounding of a norm"),
        "rows within the bound are untouched": never(
            (long <= bound) & (wrong > 0), why="no arithmetic is done on them"
        ),
        "others are cut to the bound": at_most(
            wrong / bound, 1e-6, why="torch.renorm adds 1e-7 to the norm that it divides by"
        ),
    }).drawn(
        Series("longest row after the step", range(1, steps + 1), long.amax(dim=1), "other"),
        Series("and after the projection", range(1, steps + 1), short.amax(dim=1)),
        Series("c", [1, steps], [bound] * 2, "bound"), x="step", y="norm", log="y",
    )


@experiment(
    reaches={
        "path_difference": at_most_goal(1e-4), "best_is_interior": at_least_goal(1),
        "cancer_saved_in_errors": at_least_goal(1.0), "digits_saved_in_errors": at_least_goal(1.0),
    },
    floor={"path_difference": at_most_goal(1e-4)},
    source="to beat is the loosest fit, in the ball of the price 1e-5, on the same five folds: a "
    "hyperplane separates their classes, so that without any bound there is no minimum",
)
def radius_path(
    run: Run, *, images: Annotated[int, Range(200, 12_000)] = 4000,
    prices: Annotated[int, Range(5, 30)] = 10,
) -> None:
    r"""Solves logistic regression along radii and along the matching prices: one path.

    The best radius is compared with a ball so large that it hardly holds back, that of the price
    1e-5 (1e-4 when quick), instead of none: a hyperplane separates the classes, so that the risk
    falls forever along it, and what descent without a bound finds depends on when it ends. All fits
    are solved until their steps vanish.

    Args:
        images: Threes and eights of MNIST at full budget. There are 11,982; the default takes a few
            minutes, all of them take four times as long.
        prices: How many prices $\mu$, from 1 down to 0.001.
    """
    cancer = load_breast_cancer()
    sets = {"cancer": (torch.from_numpy(cancer.data), torch.from_numpy(cancer.target))}
    if run.full:
        x, y = mnist("train", data_dir=run.data_dir)
        chosen = ((y == 3) | (y == 8)).nonzero()[:images, 0]
        x = x[chosen].flatten(1).double()
        sets["digits"] = x[:, x.amax(dim=0) > 0], (y[chosen] == 8).long()  # pixels of any ink
    mus, apart, inside = torch.logspace(0, -3, prices, dtype=torch.float64), [], []
    for name, (X, y) in sets.items():
        risk = LogisticRisk(_standardized(X, X), y)
        penalized = _penalized(risk, mus, tol=1e-10)
        radii = penalized.norm(dim=1)
        apart.append(float((penalized - _in_balls(risk, radii, tol=1e-10)).abs().max()))
        loosest = _penalized(risk, mus.new_tensor([LOOSEST[run.budget]]), tol=1e-8).norm(dim=1)
        folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
        balls, losses = torch.cat([radii, loosest]), []
        for train, test in run.steps(folds, f"folds of {name}"):
            part = LogisticRisk(_standardized(X[train], X[train]), y[train])
            held = LogisticRisk(_standardized(X[test], X[train]), y[test])
            losses.append(held.value(_in_balls(part, balls, tol=1e-8)))
        loss = torch.stack(losses)  # (5, prices + 1); the loosest comes last
        # each fold is judged at the radius that is best for the other four
        best = ((loss.sum(dim=0) - loss)[:, :-1]).argmin(dim=1)
        saved = paired(loss[:, -1], loss[torch.arange(5), best])
        run.record(**{f"{name}_loss": float(loss[torch.arange(5), best].mean())})
        place = int(loss[:, :-1].mean(dim=0).argmin())  # 0 is the smallest radius
        run.record(**saved.metrics(f"{name}_saved"), **{f"{name}_radius": float(radii[place])})
        inside.append(0 < place < prices - 1)
        error = loss.std(dim=0) / 5**0.5
        run.figure(f"{name}-radii", figures.draw(Picture((
            Series("five folds", balls, loss.mean(dim=0), error=error),
            Series("the loosest", balls[[0, -1]], loss[:, -1].mean().expand(2), "bound"),
        ), "radius", "validation log-loss", "xy")))
    run.record(path_difference=max(apart), best_is_interior=all(inside))
    X, y = sets["cancer"]
    run.figure("contours", _contours(_standardized(X[:, :2], X[:, :2])[:, :2], y))


@experiment(
    reaches={"gain_in_errors": at_least_goal(2.0)},
    floor={"gain": at_least_goal(0.0)},
    source="Srivastava et al. (2014), sec. 5.1: with a bound on the norms, large learning rates "
    "become possible; to beat is the same training without it",
)
def maxnorm_mlp(
    run: Run, *, bound: Positive = 1.0, lr: Annotated[float, Range(0.01, 10)] = 0.3,
    pairs: Annotated[int, Range(2, 20)] = 3, images: Annotated[int, Range(1000, 60_000)] = 10_000,
) -> None:
    """Trains a dropout network at large learning rates, with and without bounded rows.

    Args:
        bound: Largest norm of the incoming weights of a unit.
        lr: First learning rate, which falls to 0 along a cosine; the gain is told at this one.
        pairs: Trainings with equal starts and batches.
        images: Training pictures at full budget.
    """
    # a later page, which in turn bounds its networks with this one
    from principia.regularization.dropout import DropoutMLP

    x, y, x_test, y_test = handwriting(run)
    x, y, x_test = x[:images].flatten(1), y[:images], x_test.flatten(1)
    sizes = [784, 256, 256, 10] if run.full else [64, 128, 128, 10]
    rates = sorted({0.03, 0.1, 0.3, 1.0, lr}) if run.full else [lr / 3, lr]
    arms, found = ("without", "with"), collections.defaultdict(list)  # by arm and rate
    for pair, rate, arm in itertools.product(range(pairs), rates, arms):
        seed = run.seed.child(f"pair {pair}")
        model = DropoutMLP(sizes, rng=seed.child("init").torch())
        sgd = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        with contextlib.suppress(Diverged):  # the model holds its last finite weights
            fit(
                model, (x, y), Supervised(F.cross_entropy), sgd, epochs=5 if run.full else 10,
                batch_size=100, seed=seed.child("order"), run=run, name=f"{arm}-{rate:.3g}-{pair}",
                parts=[Schedule(CosineAnnealingLR), *([MaxNorm(bound)] if arm == "with" else [])],
            )
        right = evaluate(model, (x_test, y_test), {"accuracy": accuracy})["accuracy"]
        found[arm, rate].append(right)
        if (arm, rate, pair) == ("with", lr, 0):
            run.keep(model)
    gain = paired(found["with", lr], found["without", lr])
    means = {key: statistics.fmean(values) for key, values in found.items()}
    run.record(accuracy=means["with", lr], **gain.metrics("gain"))
    run.record(**{f"best_{arm}": max(means[arm, one] for one in rates) for arm in arms})
    run.figure("pairs", gain.figure("test accuracy", ("without bound", "with bound")))
    errors = {key: statistics.stdev(values) / pairs**0.5 for key, values in found.items()}
    run.figure("rates", figures.draw(Picture(tuple(
        Series(f"{arm} bound", rates, [means[arm, one] for one in rates], "other", "line",
               error=[errors[arm, one] for one in rates]) for arm in arms
    ), "first learning rate", "test accuracy", "x")))


def _in_balls(problem: Problem, radii: Tensor, *, tol: float = 1e-14) -> Tensor:
    """Minimize a convex risk in balls around 0, all radii at once."""
    ends, moving = _accelerated(problem, lambda v, at, lr: project_ball(v, radii[at]), radii, tol)
    if len(moving):
        domain = f"radii in which {STEPS} steps find the solution"
        hint = "In a smaller ball they are fewer."
        raise refuse("radius_path", "radii", domain, float(moving[0]), hint)
    return ends


def _penalized(problem: Problem, mus: Tensor, *, tol: float = 1e-14) -> Tensor:
    """Minimize a convex risk plus a price of the squared length, all prices at once."""
    def shrink(v: Tensor, at: Tensor, lr: float) -> Tensor:
        return v / (1 + lr * mus[at, None])

    ends, moving = _accelerated(problem, shrink, mus, tol)
    if len(moving):
        domain = f"prices at which {STEPS} steps find the solution"
        hint = (
            "Where the risk has no minimum, as with classes that a line separates, a price must be "
            "above 0; the higher it is, the fewer steps."
        )
        raise refuse("matching_radius", "mus", domain, float(moving[0]), hint)
    return ends


def _accelerated(
    problem: Problem, pull: Callable[[Tensor, Tensor, float], Tensor], rows: Tensor, tol: float
) -> tuple[Tensor, Tensor]:
    """Step down and pull back, from ahead of the last move; a row that goes uphill starts anew.

    It ends when no step of any row is longer than `tol`, relative to 1 + the length of the row.
    Returns where it ended, and those of `rows` that still moved after all steps.
    """
    if not problem.smoothness:
        hint = "Steps of 1/L need a largest curvature L."
        raise refuse(type(problem).__name__, "smoothness", "in (0, inf)", problem.smoothness, hint)
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


def _radius_slopes(risk: LogisticRisk, mus: Tensor) -> Tensor:
    r"""Compute $|dr/d\ln\mu|$ along prices: $\theta_\mu$ moves by $-(H+\mu I)^{-1}\theta_\mu$."""
    theta, X = _penalized(risk, mus), risk.signed
    odds = (theta @ X.mT).sigmoid()
    H = torch.einsum("bs,si,sj->bij", odds * (1 - odds), X, X) / len(X)
    bend = H + torch.diag_embed(mus[:, None].expand_as(theta))
    return mus * (theta * torch.linalg.solve(bend, theta)).sum(dim=1) / theta.norm(dim=1)


def _standardized(X: Tensor, like: Tensor) -> Tensor:
    """Center features and scale them by their spread in other data; a constant comes last."""
    # pixels share one scale: those at the rim hardly vary
    scale = like.std(dim=0) if like.shape[1] < 100 else like.std()
    return F.pad((X - like.mean(dim=0)) / scale, (0, 1), value=1.0)


def _contours(X: Tensor, y: Tensor) -> go.Figure:
    """Draw the risk of two weights, a ball, the path of all prices and the solution in the ball."""
    risk, radius = LogisticRisk(X, y), torch.tensor([1.5], dtype=torch.float64)
    path = _penalized(risk, F.pad(torch.logspace(1, -4, 60, dtype=torch.float64), (0, 1)))
    solution, free = _in_balls(risk, radius)[0], path[-1]
    ticks = free[:, None] / 2 + 1.1 * free.norm() * torch.linspace(-1, 1, 81, dtype=free.dtype)
    heights = risk.value(torch.stack(torch.meshgrid(*ticks, indexing="xy"), dim=-1))
    heights = (heights - risk.value(free)).clamp(min=0).sqrt()  # even rings around the minimum
    figure = figures.draw(Picture((), "θ₁", "θ₂"))
    figure.add_trace(go.Contour(
        x=ticks[0].tolist(), y=ticks[1].tolist(), z=heights.tolist(), showscale=False, ncontours=20,
        contours={"coloring": "none"}, line={"color": "#9ca3af", "width": 1}, hoverinfo="skip",
        name="risk", showlegend=False,
    ))
    turn = torch.linspace(0, 2 * math.pi, 121)
    figure.add_scatter(x=(radius * turn.cos()).tolist(), y=(radius * turn.sin()).tolist(),
                       mode="lines", name="ball", line={"color": "#dc2626", "dash": "dash"})
    figure.add_scatter(x=path[:, 0].tolist(), y=path[:, 1].tolist(), mode="lines",
                       name="penalized, all μ", line={"color": "#111827"})
    for name, point in {"in the ball": solution, "free": free}.items():
        figure.add_scatter(x=[float(point[0])], y=[float(point[1])], mode="markers", name=name,
                           marker={"size": 11})
    figure.update_yaxes(scaleanchor="x")
    return figure


def _distances(a: Tensor, b: Tensor) -> Tensor:
    """Measure the distances between rows without the products that would round them."""
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").squeeze(-2)
