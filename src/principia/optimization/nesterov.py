r"""Nesterov acceleration: look ahead along the last move, and ask for the gradient there.

The heavy ball corrects itself a step too late: it asks for the gradient where it is, then rolls on.
Nesterov's method rolls first, to the look-ahead point, and takes the gradient of that place. The
change is small and decides all: the method converges on every smooth convex function, not only on
quadratics, at rates that no method using gradients alone can beat by more than a constant. Without
strong convexity the share of the last move grows towards 1 and the gap falls like $1/t^2$, where
gradient descent has $1/t$; with it a fixed share needs $\sqrt\kappa$ steps where descent needs
$\kappa$. If the curvature $\mu$ is not known, starting anew whenever the method runs uphill brings
the linear rate back, as a rule and not by a theorem. `torch.optim.SGD(nesterov=True)` is the method
with a fixed share; its parameters are the look-ahead points.

$$ \nu^{t+1} = \theta^t+\beta_t(\theta^t-\theta^{t-1}), \quad
\theta^{t+1} = \nu^{t+1}-\eta\nabla h(\nu^{t+1}) $$

$$ \beta_t = \frac{t-1}{t+2}: \quad
h(\theta^t)-h^* \le \frac{2L}{(t+1)^2}\Vert\theta^0-\theta^*\Vert^2 $$

$$ \beta_t = \frac{\sqrt\kappa-1}{\sqrt\kappa+1}: \quad h(\theta^t)-h^* \le
\Big(1-\sqrt{\frac\mu L}\Big)^t\Big(h(\theta^0)-h^*+\frac\mu2\Vert\theta^0-\theta^*\Vert^2\Big) $$

Symbols:
    $\theta^t$: point after $t$ steps, `Nesterov.iterate()`
    $\nu^{t+1}$: look-ahead point, which the parameters hold between steps
    $\eta, \beta_t$: `lr`, $1/L$ in both bounds, and `beta`: a number, "convex" or ("strong", κ)
    $h, h^*, \theta^*$: what is minimized, its smallest value, and where that is
    $L, \mu, \kappa$: largest and smallest curvature, and their ratio

References:
    Nesterov (1983), A method of solving a convex programming problem with convergence rate
        $O(1/k^2)$. Soviet Mathematics Doklady 27(2).
    Nesterov (2018), Lectures on convex optimization, sec. 2.2. Springer.
        doi:10.1007/978-3-319-91578-4
    Su, Boyd and Candès (2016), A differential equation for modeling Nesterov's accelerated gradient
        method. Journal of Machine Learning Research 17(153). arXiv:1503.01243
    Sutskever, Martens, Dahl and Hinton (2013), On the importance of initialization and momentum in
        deep learning. International Conference on Machine Learning.
    O'Donoghue and Candès (2015), Adaptive restart for accelerated gradient schemes. Foundations of
        Computational Mathematics 15(3). arXiv:1204.3982
    Lessard, Recht and Packard (2016), Analysis and design of optimization algorithms via integral
        quadratic constraints. SIAM Journal on Optimization 26(1). arXiv:1408.3595
"""

__all__ = ["Nesterov"]

import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal, cast, final

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn
from torch.optim import LBFGS, SGD

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.mnist import mnist
from principia.lab.domains import Positive, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.optimizers import GroupOptimizer
from principia.lab.relations import at_least, at_most, equal, every, identical, slope
from principia.lab.seeds import Seed
from principia.optimization.gradient_descent import Trace, descend
from principia.optimization.momentum import HeavyBall, tuned_heavy_ball
from principia.optimization.problems import Lessard, LogisticRisk, Problem, Quadratic, log_spaced

Beta = float | str | tuple[str, float]
Starts = Annotated[int, Range(1, 100)]
L, MU = 25.0, 1.0  # of Lessard's function
CAREFUL = 0.5 / L  # a step of 1/L would land on its minimum at once
CHUNK = 500  # steps between two looks whether the gap is small enough


@final
class Nesterov(GroupOptimizer):
    r"""Steps from a point ahead on the line of the last move, against the gradient there.

    The parameters hold the look-ahead point $\nu$, so that an ordinary backward pass takes the
    gradient where the method wants it. The rates are those of $\theta$, which `iterate` gives.

    Args:
        params: Parameters, or groups of them.
        lr: $\eta$; $1/L$ for the rates.
        beta: $\beta_t$: a number in [0, 1); "convex", $\frac{t-1}{t+2}$; or ("strong", κ),
            $\frac{\sqrt\kappa-1}{\sqrt\kappa+1}$.
        restart: Whether to start anew from $\theta^{t+1}$ when the last move went uphill,
            $\nabla h(\nu^{t+1})^\top(\theta^{t+1}-\theta^t)>0$. As in the paper it is one test for
            one run: all parameters of a group start anew together, and so do the rows of a test
            problem; give it one row.

    Example:
        >>> x = nn.Parameter(torch.ones(1))
        >>> optimizer = Nesterov([x], lr=0.1, beta=0.5)
        >>> for _ in range(2):
        ...     loss = optimizer.step(lambda: (optimizer.zero_grad(), x.square().sum().backward()))
        >>> optimizer.iterate()  # 1 - 0.2 = 0.8; ahead of it 0.7, and 0.7 - 0.14
        [tensor([0.5600])]
        >>> x  # 0.56 - 0.5 * 0.24
        Parameter containing:
        tensor([0.4400], requires_grad=True)
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: Positive = 0.1, beta: Beta = 0.9, *, restart: bool = False
    ) -> None:
        _share(beta, 1)  # refuses what is none
        super().__init__(params, {"lr": lr, "beta": beta, "restart": restart})

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Step down from the look-ahead points, then look ahead from where that leads."""
        iterates = self.memory(params, "iterate", torch.clone)
        torch._foreach_add_(params, gradients, alpha=-group["lr"])
        self.remember(params, "iterate", map(torch.clone, params))
        if group["restart"] and _dot(gradients, torch._foreach_sub(params, iterates)) > 0:
            group["taken"] = 0  # the next step is a first one, from where the parameters now are
        else:
            beta = _share(group["beta"], group["taken"])
            torch._foreach_lerp_(params, iterates, -beta)  # away from the last iterate

    def iterate(self) -> list[Tensor]:
        r"""Give $\theta$ of every parameter as it is now; before its first step, the parameter."""
        params = [p for group in self.param_groups for p in group["params"]]
        return [self.state.get(p, {}).get("iterate", p.detach()) for p in params]


@claim(control={"compared_with": "iterate"}, source="Sutskever et al. 2013, sec. 2")
def torch_nesterov_is_lookahead(
    seed: Seed, *, beta: Annotated[float, Range(0.1, 0.99)] = 0.9, starts: Starts = 20,
    compared_with: Literal["lookahead", "iterate"] = "lookahead",
) -> Evidence:
    r"""The parameters of `SGD(nesterov=True)` are $\nu^{t+1}$, not $\theta^t$."""
    problem = _lessard(seed, starts)
    theta = _run(problem, Nesterov, 200, lr=CAREFUL, beta=beta)["theta"]
    ahead = torch.cat([theta[:1], theta[1:] + beta * theta.diff(dim=0)])
    torchs = _run(problem, SGD, 200, lr=CAREFUL, momentum=beta, nesterov=True)["theta"]
    stepped = torchs - CAREFUL * problem.gradient(torchs)
    why, shown = "rounding of 200 steps of numbers below 100", slice(0, 40)
    return every({
        "torch's parameters": equal(
            torchs, ahead if compared_with == "lookahead" else theta, tol=1e-12, why=why
        ).drawn(
            Series("torch.optim.SGD", range(40), torchs[shown, 0, 0]),
            Series("look-ahead νᵗ⁺¹", range(40), ahead[shown, 0, 0], "predicted"),
            Series("iterate θᵗ", range(40), theta[shown, 0, 0], "other"),
            x="step t", y="x",
        ),
        "a step from there": equal(stepped[:-1], theta[1:], tol=1e-12, why=why),
    })


@claim(control={"beta": 0.1}, source="by definition")
def beta_zero_is_gd(
    seed: Seed, *, beta: Annotated[float, Range(0, 0.99)] = 0.0, starts: Starts = 20,
    steps: Annotated[int, Range(10, 500)] = 40,
) -> Evidence:
    r"""With $\beta=0$ it is gradient descent; its first step is that with every $\beta_t$."""
    problem = _lessard(seed, starts)
    plain = _run(problem, SGD, steps, lr=CAREFUL)
    ours = _run(problem, Nesterov, steps, lr=CAREFUL, beta=beta)
    well = _run(problem, Nesterov, steps, lr=CAREFUL, beta=("strong", 1.0))
    shares: tuple[Any, ...] = 0.9, "convex", ("strong", 100.0)
    firsts = [_run(problem, Nesterov, 1, lr=CAREFUL, beta=share)["theta"][1] for share in shares]
    why = "the same operations, and adding 0 times a move changes no bit"
    return every({
        "points": equal(ours["theta"], plain["theta"], tol=0, why=why).drawn(
            Series(f"Nesterov, β = {beta:g}", ours.step, ours["value"][:, 0].clamp(min=1e-30)),
            Series("descent", plain.step, plain["value"][:, 0].clamp(min=1e-30), "predicted"),
            x="step t", y="h above its minimum", log="y",
        ),
        "κ = 1": equal(well["theta"], plain["theta"], tol=0, why=why),
        "first step": equal(
            torch.stack(firsts), plain["theta"][1].expand(3, -1, -1), tol=0, why=why
        ),
    })


@claim(control={"beta": "zero"}, source="Su, Boyd and Candès 2016, sec. 4, with r = 3")
def convex_rate(
    seed: Seed, *, steps: Annotated[int, Range(1000, 10_000)] = 2000,
    dim: Annotated[int, Range(200, 1000)] = 400, beta: Literal["convex", "zero"] = "convex",
) -> Evidence:
    r"""With $\eta=1/L$ and "convex" the gap is below $2L\Vert\theta^0-\theta^*\Vert^2/(t+1)^2$."""
    at = np.unique(np.geomspace(1, steps, 200).round().astype(int)).tolist()
    share: Any = "convex" if beta == "convex" else 0.0
    trace = _run(log_spaced(dim), Nesterov, steps, at=at, lr=1.0, beta=share)
    gap, t = trace["value"][:, 0], trace.step.double() + 1
    bound, late = 2 / t**2, t > 30  # both L and the distance are 1
    early = torch.arange(1.0, 51, dtype=t.dtype)
    labels = "t + 1", "h above its minimum"
    return every({
        "bound": at_most(gap, bound, why="a theorem: no slack").drawn(
            Series("gap", t, gap), Series("2L‖θ⁰ − θ*‖²/(t + 1)²", t, bound, "bound"),
            Series("slope −1", t, gap[0] * t[0] / t, "other"), x=labels[0], y=labels[1], log="xy",
        ),
        "rate": slope(
            t[late], gap[late], -2.0, tol=0.05, labels=labels,
            why="-2 in the limit; where λ is not below 1/t all is damped, felt like 1/√t",
        ),
        "βₜ": identical(_shares(share, len(early)), (early - 1) / (early + 2)),
    })


@claim(control={"rate": "squared"}, source="Nesterov 2018, sec. 2.2.1, constant share")
def strongly_convex_rate(
    seed: Seed, *, largest: Annotated[float, Range(1000, 30_000)] = 10_000.0,
    dim: Annotated[int, Range(2, 200)] = 50, rate: Literal["root", "squared"] = "root",
) -> Evidence:
    r"""With ("strong", κ) the gap falls by $1-\sqrt{\mu/L}$ a step or more: $\sqrt\kappa$ steps."""
    kappas, power = np.geomspace(30, largest, 6), 1 if rate == "root" else 2
    flattest = torch.eye(1, dim, dtype=torch.float64)
    starts = torch.randn(4, dim, generator=seed.torch(), dtype=torch.float64)
    highest, counts, curves, slowest, formula = [], [], [], [], []
    for kappa in kappas.tolist():
        steps = math.ceil(10 * math.sqrt(kappa))
        bowl = _bowl(kappa, torch.cat([flattest, starts]))
        gap = _run(bowl, Nesterov, steps, lr=1.0, beta=("strong", kappa))["value"]
        bound = _bound(bowl, 1.0, steps, power)
        highest.append((gap / bound).max())
        s = torch.arange(steps + 1, dtype=gap.dtype) / math.sqrt(kappa)
        slowest.append(gap[:, 0] / gap[0, 0])
        formula.append(((1 - kappa**-0.5) ** (s * math.sqrt(kappa)) * (1 + s)) ** 2)
        counts.append(int((gap > 1e-6 * gap[0]).any(dim=1).nonzero().max()) + 1)
        shown = np.linspace(0, steps, 40).astype(int)
        ratio = (gap / bound)[shown, 0]
        curves.append(Series(f"κ = {kappa:.0f}", shown / kappa**0.5, ratio, "other"))
    bent, strong = _lessard(seed, 20), ("strong", 1 / (CAREFUL * MU))
    off = _run(bent, Nesterov, 200, lr=CAREFUL, beta=strong)["value"]
    off /= _bound(bent, CAREFUL, 200, power)
    why = "a theorem; rounding of h and of a power"
    return every({
        "quadratics": at_most(torch.stack(highest), 1, slack=1e-9, why=why).drawn(
            *curves, Series("bound", [0, 10], [1, 1], "bound"),
            x="step t, in units of √κ", y="gap from the flattest direction / bound", log="y",
        ),
        "flattest direction": identical(
            torch.cat(slowest), torch.cat(formula), why="a double root 1 - 1/√κ; float64 rounding"
        ),
        "off quadratics": at_most(off.max(), 1, slack=1e-9, why=why),
        "steps to 1e-6": slope(
            kappas, counts, 0.5, tol=0.05, why="ln(1 - 1/√κ) is a bit below -1/√κ at small κ",
            labels=("condition number κ", "steps to a gap of 1e-6, from the worst start"),
        ),
    })


@claim(
    control={"gradient_at": "iterate"}, source="Lessard, Recht and Packard 2016, sec. 4.5 and 4.6",
    misprint=r"$v\leftarrow\alpha v+\varepsilon\nabla R(\theta+\alpha v)$, with which $\theta$ is "
    r"never moved; by $\theta\leftarrow\theta+v$ it climbs",
)
def gradient_at_the_lookahead(
    seed: Seed, *, steps: Annotated[int, Range(200, 1000)] = 300,
    starts: Annotated[int, Range(2, 200)] = 20, lr: Annotated[float, Range(0.01, 0.04)] = CAREFUL,
    gradient_at: Literal["lookahead", "iterate"] = "lookahead",
) -> Evidence:
    r"""With the gradient at $\nu$ it converges where the tuned heavy ball runs in a circle."""
    problem = Lessard().at(torch.linspace(3.07, 3.46, starts, dtype=torch.float64)[:, None])
    strong: Any = ("strong", 1 / (lr * MU))
    ahead = _run(problem, Nesterov, steps, lr=lr, beta=strong)["theta"]
    behind = _run(problem, HeavyBall, steps, **tuned_heavy_ball(L, MU))["theta"]
    up = _run(problem, SGD, 30, lr=lr, momentum=0.8, nesterov=True, maximize=True)["value"]
    last = (ahead if gradient_at == "lookahead" else behind)[-3:]
    return every({
        "the last three": at_most(
            last.abs(), 1e-12, why="near 0 it is a parabola: √(β(1 - ηL)) a step, 0.8^200 = 4e-20"
        ).drawn(
            Series("gradient at the look-ahead", range(30), ahead[:30, 0, 0], style="line"),
            Series("at the iterate: heavy ball", range(30), behind[:30, 0, 0], "other"),
            Series("minimum", [0, 29], [0, 0], "predicted"), x="step t", y="x",
        ),
        "the printed sign climbs": at_least(
            up[-1] / up[0], 1e3, why="from 3 on x grows by 1 + 17η or more a step; 1.17^60 = 1e4"
        ),
    })


@claim(control={"restart": False}, source="O'Donoghue and Candès 2015, sec. 3.2 and 4")
def restart_recovers_linear_rate(
    seed: Seed, *, kappa: Annotated[float, Range(30, 10_000)] = 1000.0,
    dim: Annotated[int, Range(10, 60)] = 50, restart: bool = True,
) -> Evidence:
    r"""Started anew when it runs uphill, "convex" has a linear rate, without knowing $\mu$."""
    # isotropic: if all directions start on one side, the first turn uphill can come far too late
    start = torch.randn(1, dim, generator=seed.torch(), dtype=torch.float64)
    bowl, steps = _bowl(kappa, start), math.ceil(1000 * math.sqrt(kappa / 1000))
    convex: dict[str, Any] = {"lr": 1.0, "beta": "convex", "restart": restart}
    trace, bound = _run(bowl, Nesterov, steps, **convex), _bound(bowl, 1.0, steps)
    gap, path = trace["value"], trace["theta"]
    known = _run(bowl, Nesterov, steps // 2, lr=1.0, beta=("strong", kappa))["value"]
    turn = _first_uphill(bowl, path)
    fresh = _run(bowl.at(path[turn]), Nesterov, 50, lr=1.0, beta="convex", restart=True)["theta"]
    shown, half = (np.linspace(0, end, 200).astype(int) for end in (steps, steps // 2))
    return every({
        "gap after 32√κ steps": at_most(
            gap[-1] / gap[0], 1e-15,
            why="no theorem: of 8000 Gaussian starts (κ = 1000, 50 dimensions) the worst had 9e-17",
        ).drawn(
            Series("anew when uphill" if restart else "never anew", shown, gap[shown]),
            Series("with μ known", half, known[half], "other"),
            Series("bound with μ known", shown, bound[shown], "bound"),
            x="step t", y="h above its minimum", log="y",
        ),
        "anew is like at first": identical(path[turn : turn + 51], fresh),
    })


@experiment(
    reaches={"share": at_most_goal(0.25)},
    floor={"share": at_most_goal(0.5)},
    source="Nesterov (2018), sec. 2.2: √κ steps instead of κ; to beat is gradient descent with the "
    "same step 1/L on the same data",
)
def acceleration(
    run: Run, *, l2: Annotated[float, Range(1e-4, 0.1)] = 1e-4,
    gap: Annotated[float, Range(1e-8, 1e-3)] = 1e-6,
    images: Annotated[int, Range(200, 5000)] = 1000, patience: Annotated[int, Range(4, 50)] = 6,
) -> None:
    """Counts steps to a gap in logistic regression; descent may take `patience` times as many."""
    problem = LogisticRisk(*(_threes_and_eights(run, images) if run.full else _tumors()), l2=l2)
    smooth, best = cast("float", problem.smoothness), cast("Tensor", problem.minimizer)
    search = {"max_iter": 1000, "history_size": 100, "line_search_fn": "strong_wolfe"}
    found = _run(problem, LBFGS, 1, lr=1.0, tolerance_grad=1e-8, tolerance_change=0.0, **search)
    lowest, kappa = float(found["value"][-1]), smooth / l2
    first = problem().item() - lowest + l2 / 2 * float(best.square().sum())
    promised = math.ceil(math.log(first / gap) / -math.log(1 - kappa**-0.5))  # with μ = l2 known
    ways: dict[str, tuple[Any, dict[str, Any]]] = {
        "μ known": (Nesterov, {"beta": ("strong", kappa)}),
        "anew when uphill": (Nesterov, {"beta": "convex", "restart": True}),
        "never anew": (Nesterov, {"beta": "convex"}), "descent": (SGD, {}),
    }
    gaps: dict[str, Tensor] = {}
    times = patience if run.full else min(patience, 4)
    for name in run.steps(ways, "methods"):
        kind, options = ways[name]
        limit = promised if kind is Nesterov else times * (len(gaps["μ known"]) - 1)
        gaps[name] = _gaps_down_to(gap, lowest, problem, kind, limit, lr=1 / smooth, **options)
    needed = {name: len(one) - 1 for name, one in gaps.items()}
    run.record(
        share=needed["μ known"] / needed["descent"], steps=needed["μ known"], promised=promised,
        restart_steps=needed["anew when uphill"], convex_steps=needed["never anew"],
        descent_steps=needed["descent"], descent_gap=float(gaps["descent"][-1]),
        searches_differ=lowest - cast("float", problem.minimum),
    )
    curves = []
    for name, one in gaps.items():
        t = np.unique(np.geomspace(1, len(one), 300).astype(int))
        curves.append(Series(name, t, one[t - 1], "other"))
    reach = 2 * smooth * float(best.square().sum())
    for power in (1, 2):
        t = np.geomspace(1, min(len(gaps["descent"]), (reach / gap) ** (1 / power)), 50)
        curves.append(Series(f"bound of slope −{power}", t, reach / t**power, "bound"))
    run.figure("gaps", figures.draw(Picture((*curves,), "t + 1", "risk above its minimum", "xy")))


def _share(beta: Any, t: int) -> float:
    """Give the share of the last move after t steps."""
    if beta == "convex":
        return (t - 1) / (t + 2)
    if isinstance(beta, (int, float)) and 0 <= beta < 1:
        return beta
    match beta:
        case ("strong", float() | int() as kappa) if 1 <= kappa < math.inf:
            return (math.sqrt(kappa) - 1) / (math.sqrt(kappa) + 1)
    domain = 'in [0, 1), "convex", or ("strong", κ) with κ in [1, inf)'
    raise refuse("Nesterov", "beta", domain, beta)


def _dot(first: Any, second: Any) -> Tensor:
    """Multiply two lists of tensors as if each were one vector."""
    return torch.stack([one.sum() for one in torch._foreach_mul(first, second)]).sum()


def _run(problem: Problem, kind: Any, steps: int, *, at: Any = None, **options: Any) -> Trace:
    """Run an optimizer on a copy of the problem."""
    twin = problem.at(problem.theta)
    return _recorded(twin, kind(twin.parameters(), **options), steps, at=at)


def _recorded(problem: Problem, optimizer: Any, steps: int, *, at: Any = None) -> Trace:
    """Go down and record the iterates, which of `Nesterov` are not the parameters."""
    iterate = (lambda: optimizer.iterate()[0]) if isinstance(optimizer, Nesterov) else None
    return descend(problem, optimizer, steps, record=("value", "theta"), at=at, iterate=iterate)


def _shares(beta: Any, steps: int) -> Tensor:
    """Measure the share of the last move that is added at every step, down a slope of 1."""
    x, shares = nn.Parameter(torch.zeros(1, dtype=torch.float64)), []
    optimizer = Nesterov([x], lr=1.0, beta=beta)
    for _ in range(steps):
        before, x.grad = optimizer.iterate()[0].clone(), torch.ones_like(x)
        optimizer.step()
        after = optimizer.iterate()[0]
        shares.append((x.detach() - after) / (after - before))
    return torch.cat(shares)


def _bowl(kappa: float, starts: Tensor) -> Quadratic:
    """Build a quadratic with curvatures from 1/kappa, first, to 1."""
    curvature = torch.logspace(-math.log10(kappa), 0, starts.shape[1], dtype=torch.float64)
    return Quadratic(curvature).at(starts)


def _lessard(seed: Seed, starts: int) -> Problem:
    """Give a smooth and strongly convex function that is no quadratic, at random points."""
    return Lessard().at(4 * torch.randn(starts, 1, generator=seed.torch(), dtype=torch.float64))


def _first_uphill(problem: Problem, path: Tensor) -> int:
    """Find the first iterate of a path of the "convex" method to which the last move led uphill."""
    moves = path.diff(dim=0)
    t = torch.arange(1, len(moves), dtype=path.dtype)[:, None, None]
    ahead = path[1:-1] + (t - 1) / (t + 2) * moves[:-1]
    uphill = (problem.gradient(ahead) * moves[1:]).sum(dim=(1, 2)) > 0
    return int(uphill.nonzero()[0]) + 2


def _bound(problem: Problem, lr: float, steps: int, power: int = 1) -> Tensor:
    """Bound the gap of a strongly convex problem with minimum 0 at 0, after each step."""
    mu, start = cast("float", problem.strong_convexity), problem.theta.detach()
    t = torch.arange(steps + 1, dtype=start.dtype)[:, None]
    first = problem.value(start) + mu / 2 * start.square().sum(dim=-1)
    return first * (1 - math.sqrt(lr * mu)) ** (power * t)


def _gaps_down_to(
    gap: float, lowest: float, problem: Problem, kind: Any, limit: int, **options: Any
) -> Tensor:
    """Run an optimizer until its gap is small enough, or up to a limit; give all gaps till then."""
    twin, gaps = problem.at(problem.theta), problem().detach() - lowest
    optimizer = kind(twin.parameters(), **options)
    while len(gaps) <= limit and gaps.min() > gap:
        found = _recorded(twin, optimizer, min(CHUNK, limit + 1 - len(gaps)))["value"][1:, 0]
        gaps = torch.cat([gaps, found - lowest])
    reached = (gaps <= gap).nonzero()
    return gaps[: int(reached[0]) + 1] if len(reached) else gaps


def _tumors() -> tuple[Tensor, Tensor]:
    """Load the breast cancer data: standardized features and a constant, and classes."""
    X, y = load_breast_cancer(return_X_y=True)
    return _with_constant(torch.from_numpy((X - X.mean(axis=0)) / X.std(axis=0))), torch.tensor(y)


def _threes_and_eights(run: Run, images: int) -> tuple[Tensor, Tensor]:
    """Load threes and eights of MNIST: pixels and a constant, and whether it is an eight."""
    x, y = mnist("train", data_dir=run.data_dir)
    chosen = ((y == 3) | (y == 8)).nonzero()[:images, 0]
    return _with_constant(x[chosen].flatten(1).double()), (y[chosen] == 8).long()


def _with_constant(X: Tensor) -> Tensor:
    return torch.cat([X, torch.ones(len(X), 1, dtype=X.dtype)], dim=1)
