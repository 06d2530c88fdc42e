r"""Norm constraints: what is true of it, and what would refute it.

Knobs:
    dim: Number of weights.
    radius: Radius r of the ball.
    points: Random points of the ball that might be closer.
    onto: What points are moved onto; a sphere moves those inside, a box lets corners stick out.
    samples: Labels that a model is fit to.
    share: Radius of the ball, as a share of the length of the free solution.
    steps: Steps of the optimizer; too few end before the solution.
    optimizer: What takes the steps; plain SGD knows no ball.
    weakest: The smallest price μ that is tried.
    form: The statement as it is, or as it is misprinted.
    grid: Prices that are tried, on a logarithmic grid.
    risk: What is minimized; on a risk that is not convex, radii are jumped over.
    l2: Weight decay of the risk, which makes its minimum unique.
    bound: Largest length c of a row.
    lr: Step size.
    over: What the bound holds: rows, a whole matrix, or its columns, which are outgoing weights.
"""

import math
from functools import partial
from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import nnls
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.optim import SGD

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
    never,
    slope,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import LogisticRisk, Problem, noisy_logistic
from principia.regularization.norm_constraint import (
    MaxNorm,
    ProjectedSGD,
    in_balls,
    kkt_residual,
    matching_radius,
    penalized_at,
    project_ball,
)

Form = Literal["correct", "printed"]
Dim = Annotated[int, Range(2, 10)]
Samples = Annotated[int, Range(150, 1000)]
RENORM = "torch.renorm adds 1e-7 to the norm that it divides by"


@claim(
    control=[
        Control({"onto": "sphere"},
                ["no point of the ball is closer", "distances do not grow", "radii by row"],
                "what is inside moves, too"),
        Control({"onto": "box"}, ["it is in the ball"], "each coordinate cut by itself"),
    ],
    source="by calculation; Bauschke and Combettes 2011, ch. 4",
)
def projection_is_nearest(
    seed: Seed, *, dim: Annotated[int, Range(1, 50)] = 3,
    radius: Annotated[float, Range(0.1, 10)] = 1.0,
    points: Annotated[int, Range(1000, 50_000)] = 10_000,
    onto: Literal["ball", "sphere", "box"] = "ball",
) -> Evidence:
    r"""$\Pi_r(v)$ is the point of the ball that is closest to $v$, and $\Pi_r$ never stretches."""
    rng, most = seed.torch(), 3 * radius
    v = most * rand(rng, 200, 1) * F.normalize(randn(rng, 200, dim), dim=1)
    v[0] = 0  # has no direction
    found = {
        "ball": lambda: project_ball(v, radius), "sphere": lambda: radius * F.normalize(v, dim=1),
        "box": lambda: v.clamp(-radius, radius),
    }[onto]()
    units = torch.linspace(0.2, 5, 200, dtype=v.dtype)  # each row measured in one of its own
    radii, scaled = units * radius, units[:, None] * found
    radii[-1], scaled[-1] = math.inf, units[-1] * v[-1]
    # rivals: some anywhere in the ball, some near what was found and pulled inside
    spread = radius * rand(rng, points // 2, 1) ** (1 / dim)
    anywhere = spread * F.normalize(randn(rng, points // 2, dim), dim=1)
    near = found[:, None] + 0.1 * radius * randn(rng, 200, max(points // 400, 1), dim)
    near = near / (near.norm(dim=-1, keepdim=True) / radius).clamp(min=1)
    inside = (0.1 * v).requires_grad_()
    slopes = torch.autograd.grad(project_ball(inside, radius).sum(), inside)[0]
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
        "radii by row": equal(
            project_ball(units[:, None] * v, radii), scaled, tol=1e-13 * most, why="rounding"
        ),
        "inside, the identity": equal(slopes, 1, tol=1e-15, why="rounding of a product by 1"),
        "steps of several weights": equal(*_steps_of_several(rng), tol=1e-14, why="rounding"),
    })


def _steps_of_several(rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Take shorter and longer steps with two groups, and project all of each group by hand."""
    weights = [nn.Parameter(randn(rng, *shape) / 10) for shape in ((2, 3), (4,), (3,), (5,))]
    own: dict[str, Any] = {"params": weights[3:], "lr": 0.5, "radius": 2.0}
    optimizer = ProjectedSGD([{"params": weights[:3]}, own])  # one keeps the usual lr and radius
    found, expected = [], []
    for size in (0.1, 5.0, 100.0):
        gradients = [size * randn(rng, *one.shape) for one in weights]
        gradients[1].zero_()  # as if it had none; it counts in the length
        for (lr, radius), part in (((0.1, 1.0), slice(0, 3)), ((0.5, 2.0), slice(3, 4))):
            pairs = zip(weights[part], gradients[part], strict=True)
            moved = torch.cat([(one.detach() - lr * slope).flatten() for one, slope in pairs])
            expected.append(project_ball(moved, radius))
        for k, one in enumerate(weights):
            one.grad = None if k == 1 else gradients[k]
        optimizer.step()
        found += [one.detach().flatten().clone() for one in weights]
    return torch.cat(found), torch.cat(expected)


def _distances(a: Tensor, b: Tensor) -> Tensor:
    """Measure the distances between rows without the products that would round them."""
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").squeeze(-2)


@claim(
    control=[
        Control({"steps": 10}, ["inactive: conditions", "inactive: λ", "inactive: θ"],
                "before the solution"),
        Control({"optimizer": "SGD"}, ["active: conditions", "active: at the rim", "active: λ"],
                "no ball"),
    ],
    source="Karush 1939; Kuhn and Tucker 1951",
)
def kkt_at_the_solution(
    seed: Seed, *, dim: Dim = 5, samples: Samples = 200,
    share: Annotated[float, Range(0.1, 0.9)] = 0.5,
    steps: Annotated[int, Range(10, 2000)] = 200,
    optimizer: Literal["ProjectedSGD", "SGD"] = "ProjectedSGD",
) -> Evidence:
    r"""In a ball it ends at $\nabla R=-\lambda\theta$, $\lambda\ge0$, which is 0 inside the rim."""
    rng = seed.torch()
    risk = noisy_logistic(rng, dim=dim, samples=samples, l2=0.0)
    free = penalized_at(risk, torch.zeros(1))
    parts, curves, shown = {}, [], sorted({round(steps ** (k / 60)) for k in range(61)} | {0})
    for name, factor in {"active": share, "inactive": 2.0}.items():
        twin, radius = risk.at(risk.theta), factor * float(free.norm())
        kind: Any = partial(ProjectedSGD, radius=radius) if optimizer == "ProjectedSGD" else SGD
        steep = kind(twin.parameters(), lr=1 / float(risk.smoothness or 1))
        path = descend(twin, steep, steps, record=("theta",), at=shown)["theta"][:, 0]
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
    priced = penalized_at(risk, torch.tensor([0.1, 1.0]).double())  # where only the length is wrong
    points = torch.cat([free.new_zeros(1, dim), priced, 2 * randn(rng, 50, dim)])
    radii, least = points.norm(dim=1) * 2 ** randn(rng, 53) + 0.1, []
    for slopes, point, radius in zip(risk.gradient(points), points, radii, strict=True):
        multiplier, pull = nnls(point.numpy()[:, None], -slopes.numpy())
        beyond = float(point.norm() - radius)
        least.append([max(pull, multiplier[0] * abs(beyond), beyond), multiplier[0]])
    parts["anywhere, by least squares"] = equal_to_rounding(
        torch.stack(kkt_residual(risk, points, radii), dim=1), least
    )
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
    curvatures, prices = mus.new_tensor([1, 0.03, 2e-4, 0]), 0.04 * mus
    prices[0] = 0  # leads to the nearest of all minima
    bowl = _Counting(curvatures)
    shrunken = (curvatures / (curvatures + prices[:, None] + (curvatures == 0))).norm(dim=1)
    radii, of_bowl = (
        its if form == "printed" else matching_radius(problem, its)
        for problem, its in ((risk, mus), (bowl, prices))
    )
    asked, expected = [bowl.asked], [_steps_with_restarts(curvatures, math.inf)]
    in_balls(bowl, mus.new_tensor([0.9]))
    asked.append(bowl.asked - asked[0])
    expected.append(_steps_with_restarts(curvatures, 0.9))
    penalized, constrained = penalized_at(risk, mus), in_balls(risk, radii)
    multiplier = kkt_residual(risk, constrained, radii)[1]
    grid = torch.logspace(math.log10(weakest), math.log10(weakest) + 3, 60, dtype=mus.dtype)
    lines, shown = penalized_at(risk, grid), range(min(dim, 3))
    return every({
        "distance of the solutions": at_most(
            (penalized - constrained).norm(dim=1), 1e-6, why="both are solved to 1e-14 a step"
        ).drawn(
            *[Series(f"θ{i + 1}, penalized", grid, lines[:, i], "predicted") for i in shown],
            *[Series(f"θ{i + 1}, in the ball", mus, constrained[:, i]) for i in shown],
            x="price μ", y="coordinate of the solution", log="x",
        ),
        "multiplier": equal(multiplier, mus, tol=1e-6 * mus, why="as the distance, relative"),
        "radii decrease": never(radii.diff() >= 0, why="a theorem"),
        "radii of a bowl": equal(
            of_bowl, shrunken, tol=1e-9, why="steps of 1e-14 over a curvature of 2e-4"
        ),
        "steps with restarts": equal(
            asked, expected, tol=5, why="rounding decides when a step is below 1e-14"
        ),
    })


@final
class _Counting(Problem):
    """A bowl around 1 that counts how often somebody asks for its gradient."""

    def __init__(self, curvatures: Tensor) -> None:
        super().__init__(torch.zeros(1, len(curvatures)))
        self.curvatures, self.smoothness, self.asked = curvatures, float(curvatures.max()), 0

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        return (self.curvatures * (theta - 1) ** 2).sum(dim=-1) / 2

    def gradient(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        self.asked += 1
        return self.curvatures * (theta - 1)


def _steps_with_restarts(curvatures: Tensor, radius: float) -> int:
    """Count the steps of O'Donoghue and Candès in a bowl around 1 of largest curvature 1."""
    h, steps, age = curvatures.numpy(), 0, 0
    at = ahead = np.zeros_like(h)
    while True:
        reached, steps = (ahead - h * (ahead - 1)), steps + 1
        reached = reached * min(1.0, radius / np.linalg.norm(reached))
        step, moved = reached - ahead, reached - at
        if np.linalg.norm(step) <= 1e-14 * (1 + np.linalg.norm(reached)):
            return steps
        age = 0 if step @ moved < 0 else age + 1
        at, ahead = reached, reached + age / (age + 3) * moved


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
    ).named("largest gap between radii that are reached").drawn(
        Series("‖θ_μ‖", mus[:: grid // 300], radii[:: grid // 300]),
        x="price μ", y="radius that it reaches", log="x",
    )


def _radius_slopes(risk: LogisticRisk, mus: Tensor) -> Tensor:
    r"""Compute $|dr/d\ln\mu|$ along prices: $\theta_\mu$ moves by $-(H+\mu I)^{-1}\theta_\mu$."""
    theta, X = penalized_at(risk, mus), risk.signed
    odds = (theta @ X.mT).sigmoid()
    H = torch.einsum("bs,si,sj->bij", odds * (1 - odds), X, X) / len(X)
    bend = H + torch.diag_embed(mus[:, None].expand_as(theta))
    return mus * (theta * torch.linalg.solve(bend, theta)).sum(dim=1) / theta.norm(dim=1)


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
    best = penalized_at(risk, torch.zeros(1))[0]
    H = torch.autograd.functional.hessian(risk.value, best)
    radii = torch.logspace(-3, -1, 12, dtype=torch.float64)
    step = radii[:, None, None] * F.normalize(randn(rng, 40, dim), dim=1)  # (12, 40, dim)
    half = 0.5 if form == "correct" else 1.0
    model = risk.value(best) + half * torch.einsum("rni,ij,rnj->rn", step, H, step)
    error = (risk.value(best + step) - model).abs().mean(dim=1)
    return slope(
        radii, error, 3.0, tol=0.1, why="3 in the limit; the fourth order is a tenth at most",
        labels=("distance from the minimum", "mean error of the expansion"),
    ).named("order of what the expansion leaves")


@claim(
    control=[
        Control({"over": "matrix"},
                ["rows within the bound are untouched", "others are cut to the bound"],
                "a ball for all rows together"),
        Control({"over": "columns"}, ["norms"], "outgoing weights"),
    ],
    source="Hinton et al. 2012, app. A",
)
def max_norm_rows_hold(
    seed: Seed, *, bound: Annotated[float, Range(0.1, 10)] = 1.0,
    lr: Annotated[float, Range(0.1, 100)] = 10.0, steps: Annotated[int, Range(10, 300)] = 100,
    over: Literal["rows", "matrix", "columns"] = "rows",
) -> Evidence:
    r"""After every step no row is longer than $c$, and rows that were not are untouched.

    Args:
        steps: Steps of the optimizer, each followed by a projection.
    """
    rng, limit = seed.torch(), MaxNorm(bound, dim=1) if over == "columns" else MaxNorm(bound)
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
        if over != "matrix":
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
            wrong / bound, 1e-6, why=RENORM
        ),
        "layers of any kind, either axis": equal(
            *_cut_layers(rng, bound), tol=1e-6 * bound, why=RENORM
        ),
    }).drawn(
        Series("longest row after the step", range(1, steps + 1), long.amax(dim=1), "other"),
        Series("and after the projection", range(1, steps + 1), short.amax(dim=1)),
        Series("c", [1, steps], [bound] * 2, "bound"), x="step", y="norm", log="y",
    )


def _cut_layers(rng: torch.Generator, bound: float) -> tuple[Tensor, Tensor]:
    """Shorten layers of every kind along either axis, and each by hand; bias and gain stay."""
    found, expected = [], []
    for dim in (0, 1):
        with torch.random.fork_rng(devices=[]):  # what layers draw is drawn anew below
            layers: Any = nn.ModuleList([
                nn.Linear(4, 3), nn.Conv1d(2, 3, 4), nn.Conv2d(2, 3, (1, 4)), nn.LayerNorm([2, 3]),
                nn.Conv3d(2, 3, (1, 2, 1)), parametrizations.weight_norm(nn.Linear(3, 5)),
            ]).double()
        for one in layers.parameters():
            one.data = bound * randn(rng, *one.shape)
        for layer in layers:
            rows: Any = layer.weight.detach().transpose(0, dim)
            if not isinstance(layer, nn.LayerNorm):
                rows = project_ball(rows.flatten(1), bound).view(rows.shape)
            expected += [rows.transpose(0, dim).flatten(), layer.bias.detach().flatten()]
        MaxNorm(bound, dim=dim)(layers)
        found += [one.detach().flatten() for layer in layers for one in (layer.weight, layer.bias)]
    return torch.cat(found), torch.cat(expected)
