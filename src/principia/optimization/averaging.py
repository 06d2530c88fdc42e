r"""Averaging the iterates: noise that a short step would remove, a mean removes too.

Noisy steps carry the iterates around the minimum. Their mean is nearer to it than any of them:
steps may stay long, much longer than $1/t$, and the mean of the path still has an error that no
method beats, without knowing the curvature. That is a gift of strong convexity: where the function
is merely convex, the mean falls as slowly as anything else. Forgetting the start helps, by a weight
that fades with age or by leaving the first part out. With networks, the mean of the weights at the
ends of some epochs, at a constant rate, does what a falling rate does; all of them have to lie in
one basin, for between two basins there is a hill.

$$ \bar\theta_t = \frac1t\sum_{i\le t}\theta_i, \quad
\bar\theta_t = (1-\beta)\bar\theta_{t-1}+\beta\theta_t, \quad
\bar\theta_T = \frac1{fT}\sum_{i>(1-f)T}\theta_i $$

$$ t\,E\Vert\bar\theta_t-\theta^*\Vert^2 \to \mathrm{tr}(H^{-1}\Sigma H^{-1}), \quad
\mathrm{Var}[\bar\theta] = s^2\,\frac\beta{2-\beta}\,\frac{1+\rho(1-\beta)}{1-\rho(1-\beta)} $$

Symbols:
    $\theta_i$: the iterate after $i$ steps; `WeightAverage` and `Averaged` take one an update
    $\bar\theta_t$: their average: the mean of all by default, or by one of the two rules
    $\beta$: weight of the newest iterate, `beta` of `exponential`; torch's decay is $1-\beta$
    $f, T$: share of the updates that is averaged and their number, `fraction`, `steps` of `tail`
    $H, \Sigma$: Hessian at the minimizer $\theta^*$ and covariance of the noise of the gradient
    $s^2, \rho$: variance of an iterate, and correlation of an iterate with the next

References:
    Polyak and Juditsky (1992), Acceleration of stochastic approximation by averaging. SIAM Journal
        on Control and Optimization 30(4). doi:10.1137/0330046
    Ruppert (1988), Efficient estimations from a slowly convergent Robbins-Monro process. Cornell
        University, technical report 781.
    Agarwal, Bartlett, Ravikumar and Wainwright (2012), Information-theoretic lower bounds on the
        oracle complexity of stochastic convex optimization. IEEE Transactions on Information Theory
        58(5). doi:10.1109/TIT.2011.2182178
    Rakhlin, Shamir and Sridharan (2012), Making gradient descent optimal for strongly convex
        stochastic optimization. International Conference on Machine Learning. arXiv:1109.5647
    Izmailov, Podoprikhin, Garipov, Vetrov and Wilson (2018), Averaging weights leads to wider
        optima and better generalization. Uncertainty in Artificial Intelligence. arXiv:1803.05407
    Frankle, Dziugaite, Roy and Carbin (2020), Linear mode connectivity and the lottery ticket
        hypothesis. International Conference on Machine Learning. arXiv:1912.05671
"""

__all__ = ["WeightAverage", "Averaged", "exponential", "tail"]

import copy
import math
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Literal, final

import plotly.graph_objects as go
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import parameters_to_vector, skip_init, vector_to_parameters
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.domains import Count, Range
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_least, at_most, equal, estimates, every, slope
from principia.lab.seeds import Seed
from principia.lab.training import EMA, SWA, Part, Supervised, accuracy, evaluate, fit, part
from principia.networks.mlp import MLP
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Problem, Quadratic, noisy
from principia.optimization.sgd import Slopes, batches

Rule = Callable[[Tensor, Tensor, Tensor | int], Tensor]
Share = Annotated[float, Range(0, 1, open="low")]
Sigma = Annotated[float, Range(0.1, 10)]
SEEDS = ("first", "second", "third")  # of the experiment
ENDS = 5  # epoch ends that it averages


@final
class WeightAverage(AveragedModel):
    r"""Holds a model with the average of the weights that another one had at each update.

    torch's `AveragedModel`, which also notices when the running statistics of batch normalization
    are still those of the last iterate: the averaged network has others, and
    `torch.optim.swa_utils.update_bn` finds them by a pass over the data.

    Args:
        model: The model that is trained; the average starts at its first update.
        rule: `exponential` or `tail`; by default all updates count alike.

    Example:
        >>> line = nn.Linear(1, 1)
        >>> average = WeightAverage(line)
        >>> for weight in (1.0, 2.0, 6.0):
        ...     line.weight.data.fill_(weight), line.bias.data.fill_(0.0)
        ...     average.update_parameters(line)
        (tensor([[1.]]), tensor([0.]))
        (tensor([[2.]]), tensor([0.]))
        (tensor([[6.]]), tensor([0.]))
        >>> output = average(torch.ones(1, 1))
        >>> output.item()
        3.0
    """

    stale: Tensor

    def __init__(self, model: nn.Module, rule: Rule | None = None) -> None:
        if isinstance(rule, _Toward):
            super().__init__(model, multi_avg_fn=rule.all_at_once)
        else:
            super().__init__(model, avg_fn=rule)
        self.register_buffer("stale", torch.tensor(False))
        self._has_statistics = any(isinstance(one, _BatchNorm) for one in model.modules())

    def update_parameters(self, model: nn.Module) -> None:
        """Take the present weights of the model into the average."""
        super().update_parameters(model)
        if self._has_statistics:
            self.stale.fill_(True)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs of the averaged model."""
        if self.training:  # what a pass over the data in update_bn does
            self.stale.fill_(False)
        elif self.stale:
            warnings.warn(
                "WeightAverage: the statistics of batch normalization are those of the last "
                "iterate, not of the average. Call torch.optim.swa_utils.update_bn(batches, "
                "average) first.", stacklevel=2,
            )
        return super().forward(*args, **kwargs)


@final
class Averaged:
    """Averages the points of a test problem, every row for itself.

    Args:
        problem: The problem whose `theta` moves.
        rule: `exponential` or `tail`; by default all updates count alike.

    Example:
        >>> from principia.optimization import Quadratic, descend
        >>> bowl = Quadratic([1.0])
        >>> mean = Averaged(bowl)
        >>> trace = descend(bowl, SGD(bowl.parameters(), lr=0.5), 2, after=mean.update)
        >>> mean.theta  # of 0.5 and 0.25
        tensor([[0.3750]], dtype=torch.float64)
    """

    def __init__(self, problem: Problem, rule: Rule | None = None) -> None:
        self._points = nn.ParameterList([problem.theta])
        self._average = WeightAverage(self._points, rule)

    def update(self) -> None:
        """Take the present points into the average; `descend` calls it after every step."""
        self._average.update_parameters(self._points)

    @property
    def theta(self) -> Float[Tensor, "B D"]:
        """The average of each row; the starting points before the first update."""
        return next(self._average.parameters()).detach()


@checked
def exponential(beta: Share) -> Rule:
    r"""Builds the rule $\bar\theta_t=(1-\beta)\bar\theta_{t-1}+\beta\theta_t$.

    Args:
        beta: Weight of the newest point, $\beta$; its memory is about $1/\beta$ updates long.

    Example:
        >>> exponential(0.25)(torch.tensor(0.0), torch.tensor(8.0), 1)
        tensor(2.)
    """
    return _Toward(lambda n: beta)


@checked
def tail(fraction: Share = 0.5, *, steps: Count) -> Rule:
    r"""Builds the rule that averages only the last part of so many updates, all alike.

    Before that part begins the average is the newest point.

    Args:
        fraction: Share of the updates that counts, $f$.
        steps: Number of all updates, $T$.

    Example:
        >>> mean, rule = torch.tensor(1.0), tail(0.5, steps=4)
        >>> for n, point in enumerate((2.0, 4.0, 8.0), start=1):
        ...     mean = rule(mean, torch.tensor(point), n)
        >>> mean
        tensor(6.)
    """
    first = steps - max(round(fraction * steps), 1)
    return _Toward(lambda n: 1 / max(n - first + 1, 1))


@final
class _Toward:
    """Moves an average a share of the way to the newest point; the share may change with `n`."""

    def __init__(self, share: Callable[[int], float]) -> None:
        self.share = share

    def __call__(self, averaged: Tensor, current: Tensor, n: Tensor | int) -> Tensor:
        return torch.lerp(averaged, current, self.share(int(n)))

    def all_at_once(self, averaged: Any, current: Any, n: Tensor | int) -> None:
        """Do the same to lists of tensors, in place."""
        torch._foreach_lerp_(averaged, current, self.share(int(n)))


@part()
def exponential_average(
    run: Run, *, decay: Annotated[float, Range(0, 1, open="high")] = 0.999
) -> Part:
    """Averages the weights of all steps, older ones less, and ends with the average.

    Args:
        decay: Weight of the average against the newest weights.
    """
    return EMA(decay)


@part()
def weight_average(
    run: Run, *, start: Annotated[float, Range(0, 1, open="high")] = 0.75
) -> Part:
    """Averages the weights at the ends of the last epochs, all alike, and ends with the average.

    Args:
        start: Share of the steps after which the averaging begins.
    """
    return SWA(start)


@claim(control={"decay": "β"}, source="by construction; torch.optim.swa_utils")
def torch_average_is_the_formula(
    seed: Seed, *, updates: Annotated[int, Range(5, 200)] = 50,
    beta: Annotated[float, Range(0.01, 0.99)] = 0.1,
    fraction: Annotated[float, Range(0.05, 1)] = 0.4,
    decay: Literal["1 - β", "β"] = "1 - β",
) -> Evidence:
    r"""`AveragedModel` is both recursions, with decay $1-\beta$: $\beta$ weighs the new point."""
    rng, model = seed.torch(), skip_init(nn.Linear, 3, 2, dtype=torch.float64)
    points = torch.randn(updates, 8, generator=rng, dtype=torch.float64).cumsum(dim=0)
    bowl = Quadratic(torch.ones(8)).at(points[:1])
    kept = 1 - beta if decay == "1 - β" else beta
    averages: dict[str, AveragedModel | Averaged] = {
        "running mean": AveragedModel(model),
        "running mean, here": WeightAverage(model),
        "running mean of a problem": Averaged(bowl),
        "exponential": AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(kept)),
        "exponential, here": WeightAverage(model, exponential(1 - kept)),
        "exponential of a problem": Averaged(bowl, exponential(1 - kept)),
        "tail": WeightAverage(model, tail(fraction, steps=updates)),
    }
    seen: dict[str, list[Tensor]] = {name: [] for name in averages}
    for point in points:
        vector_to_parameters(point, model.parameters())
        bowl.theta.data.copy_(point)
        for name, one in averages.items():
            if isinstance(one, Averaged):
                one.update()
                seen[name].append(one.theta[0].clone())
            else:
                one.update_parameters(model)
                seen[name].append(parameters_to_vector(one.parameters()).detach())
    t = torch.arange(1, updates + 1)
    mean = points.cumsum(dim=0) / t[:, None]
    fading = [points[0]]
    for point in points[1:]:
        fading.append((1 - beta) * fading[-1] + beta * point)
    late = points[-max(round(fraction * updates), 1) :].mean(dim=0)
    exact = {"running": mean, "exponential": torch.stack(fading), "tail": late[None]}
    parts = {}
    for name, found in seen.items():
        expected = exact[name.split()[0].rstrip(",")]
        got = torch.stack(found)[-len(expected) :]
        why = "float64 rounding of sums of entries below 100"
        parts[name] = equal(got, expected, tol=1e-12, why=why).drawn(
            Series("points", t, points[:, 0], "other", "points"),
            Series(f"{name}, by torch", t[-len(got) :], got[:, 0]),
            Series("formula", t[-len(got) :], expected[:, 0], "predicted", "line"),
            x="update t", y="first entry of the weights",
        )
    return every(parts)


@claim(control={"evaluate": "last"}, source="Polyak and Juditsky 1992; Ruppert 1988")
def averaging_reaches_one_over_t(
    seed: Seed, *, alpha: Annotated[float, Range(0.4, 0.55)] = 0.5, sigma: Sigma = 1.0,
    curvature: Annotated[float, Range(0.1, 10)] = 1.0,
    steps: Annotated[int, Range(2000, 10_000)] = 2000,
    evaluate: Literal["average", "last"] = "average",
) -> Evidence:
    r"""Strongly convex, slow steps $t^{-\alpha}$: the average's gap is $O(1/t)$, not the last's."""
    runs = 4000
    bowl = noisy(Quadratic([curvature]).at(torch.ones(runs, 1)), sigma, seed.torch())
    optimizer = SGD(bowl.parameters(), lr=1 / curvature)
    falling = LambdaLR(optimizer, lambda t: (t + 1) ** -alpha)
    at, mean = _times(100, steps), Averaged(bowl)
    both = descend(
        bowl, optimizer, steps, schedule=falling, at=at, record=("theta",), after=mean.update,
        iterate=lambda: torch.cat([mean.theta, bowl.theta], dim=1),
    )["theta"]
    t, (average, last) = at.double(), bowl.value(both[..., None]).mean(dim=1).unbind(dim=1)
    judged = average if evaluate == "average" else last
    level = sigma**2 / (2 * curvature)
    why = "each mean over the runs is known to 2 %, and the first steps are still felt"
    return every({
        "average": slope(t, judged, -1, tol=0.04, why=why).drawn(
            Series(evaluate, t, judged), Series("average, predicted", t, level / t, "predicted"),
            Series("last iterate", t, last, "other", "points"),
            Series("last, predicted", t, level / 2 * t**-alpha, "other"),
            x="step t", y="mean of h - h*", log="xy",
        ),
        "last iterate": slope(t, last, -alpha, tol=0.04, why=why),
    })


@claim(
    control={"form": "printed"}, source="Agarwal et al. 2012; Nemirovski and Yudin 1983",
    misprint=r"averaging gives the optimal $O(1/t)$ for convex objectives",
)
def averaging_without_strong_convexity(
    seed: Seed, *, longest: Annotated[int, Range(1000, 10_000)] = 1000,
    runs: Annotated[int, Range(400, 1000)] = 400, form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""Convex only: the average is $\Theta(1/\sqrt T)$, on $x/\sqrt T$, the worst for $T$ steps."""
    at = _times(longest / 20, longest)
    T = at.double()
    # column by column another horizon T, in u = x √T: steps of T^(-1/2) in x are steps of 1 in u
    walk = noisy(Slopes(T**-0.5).at(T.sqrt().expand(runs, -1)), 1.0, seed.torch())  # from x = 1
    mean = Averaged(walk)

    def project_and_average() -> None:
        torch.clamp(walk.theta, -T.sqrt(), T.sqrt(), out=walk.theta.data)
        mean.update()

    averages = descend(
        walk, SGD(walk.parameters(), lr=1.0), longest, at=at, record=("theta",),
        iterate=lambda: mean.theta, after=project_and_average,
    )["theta"]  # (times, runs, horizons): each horizon has its average at its own time
    u = averages.diagonal(dim1=0, dim2=2)
    gaps = (u / T.sqrt() + 1).mean(dim=0) / T.sqrt()
    rate = -0.5 if form == "correct" else -1
    return slope(
        T, gaps, rate, tol=0.03, labels=("steps T", "mean of h - h* of the average"),
        why="each mean of the runs is known to 2 or 3 %, and the wall is met at whole steps only",
    )


@claim(control={"method": "last"}, source="Polyak and Juditsky 1992, theorem 1")
def averaging_is_efficient(
    seed: Seed, *, curvature: Annotated[float, Range(0.7, 1.5)] = 1.0, sigma: Sigma = 1.0,
    steps: Annotated[int, Range(1000, 5000)] = 1000,
    method: Literal["average", "last"] = "average",
) -> Evidence:
    r"""$t\,E\Vert\bar\theta_t-\theta^*\Vert^2\to\mathrm{tr}(H^{-1}\Sigma H^{-1})$, the least."""
    lam, runs = torch.tensor([curvature, 2 * curvature], dtype=torch.float64), 4000
    bowl = noisy(Quadratic(lam).at(sigma * torch.ones(runs, 2)), sigma, seed.torch())
    averaged = method == "average"
    optimizer = SGD(bowl.parameters(), lr=1.0 if averaged else 0.3 / curvature)
    falling = LambdaLR(optimizer, lambda t: (t + 1) ** (-0.5 if averaged else -1.0))
    mean, at = Averaged(bowl), _times(10, steps)
    theta = descend(
        bowl, optimizer, steps, schedule=falling, at=at, record=("theta",), after=mean.update,
        iterate=(lambda: mean.theta) if averaged else None,
    )["theta"]
    errors = at[:, None] * theta.square().sum(dim=-1)
    limit = float((sigma / lam).square().sum())
    exact = _exact(lam, sigma, steps)[at - 1]
    found, error = errors.mean(dim=1), errors.std(dim=1) / runs**0.5
    return estimates(
        found[-1], limit, error=error[-1], k=4, bias=(exact[-1] - limit).abs(),
        why="mean over the runs; the limit is not reached after so many steps, by the recursion "
        "of the second moments",
    ).drawn(
        Series(f"{method}: t E|θ - θ*|²", at, found, error=4 * error),
        Series("average, exact", at, exact, "predicted"),
        Series("tr(H⁻¹ΣH⁻¹)", at[[0, -1]], [limit, limit], "bound"),
        x="step t", y="t times the mean squared error", log="x",
    )


@claim(control={"formula": "s² β"}, source="stationary AR(1) process; Box and Jenkins 1970, ch. 3")
def ema_variance_factor(
    seed: Seed, *, beta: Annotated[float, Range(0.03, 1)] = 0.05,
    rho: Annotated[float, Range(-0.8, 0.9)] = 0.5, sigma: Sigma = 1.0,
    formula: Literal["s² β / (2 - β)", "s² β"] = "s² β / (2 - β)",
) -> Evidence:
    r"""EMA: $s^2\frac\beta{2-\beta}\frac{1+\rho(1-\beta)}{1-\rho(1-\beta)}$, iterates $s^2$."""
    # steps of 1 on curvature 1 - ρ are an AR(1) chain: θ' = ρ θ + noise
    runs, chain = 20_000, torch.tensor([0.0, rho], dtype=torch.float64)
    steps = math.ceil(max(8 / beta, 8 / (1 - abs(rho))))
    bowl = noisy(Quadratic(1 - chain).at(torch.zeros(runs, 2)), sigma, seed.torch())
    mean, at = Averaged(bowl, exponential(beta)), _times(1, steps)
    both = descend(
        bowl, SGD(bowl.parameters(), lr=1.0), steps, at=at, record=("theta",), after=mean.update,
        iterate=lambda: torch.cat([mean.theta, bowl.theta], dim=1),
    )["theta"]
    variance = both.square().mean(dim=1)  # (times, 4); every mean is 0
    share = beta if formula == "s² β" else beta / (2 - beta)
    bonus = (1 + chain * (1 - beta)) / (1 - chain * (1 - beta))
    s2 = sigma**2 / (1 - chain**2)
    expected = torch.cat([s2 * share * bonus, s2])
    error = (2 / runs) ** 0.5 * variance[-1]
    return estimates(
        variance[-1], expected, error=error, k=4, bias=1e-5 * expected,
        why="variances of independent Gaussian runs; the start is forgotten but for e⁻¹⁶",
    ).drawn(
        *(Series(name, at, variance[:, k], "measured" if k < 2 else "other", "points")
          for k, name in enumerate([
              "average, ρ = 0", f"average, ρ = {rho:g}", "iterate, ρ = 0", f"iterate, ρ = {rho:g}",
          ])),
        *(Series("predicted", at[[0, -1]], one.expand(2), "predicted") for one in expected),
        x="step t", y="variance", log="xy",
    )


@claim(control={"of": "two runs"}, source="Izmailov et al. 2018, sec. 3; Frankle et al. 2020")
def average_needs_one_basin(
    seed: Seed, *, hidden: Annotated[int, Range(16, 64)] = 32,
    lr: Annotated[float, Range(0.3, 0.6)] = 0.5, steps: Annotated[int, Range(300, 1000)] = 400,
    of: Literal["one run", "two runs"] = "one run",
) -> Evidence:
    """The mean of iterates of one run has a lower loss than they have; that of two runs has not."""
    x, y, *_ = digits()
    x = x.flatten(1)
    models = [MLP([64, hidden, 10], rng=seed.child(one).torch()) for one in SEEDS[:2]]
    weights, _ = stack_module_state(models)  # type: ignore[arg-type]
    optimizer, rng = SGD(weights.values(), lr=lr), seed.child("batches").torch()

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(models[0], weights, (x,)), y)

    late: list[dict[str, Tensor]] = []
    while len(late) < 50:
        for rows in batches(len(x), 16, rng=rng):
            optimizer.zero_grad()
            vmap(loss, in_dims=(0, None, None))(weights, x[rows], y[rows]).sum().backward()
            optimizer.step()
            steps -= 1
            if steps < 50 and len(late) < 50:
                late.append({name: one.detach().clone() for name, one in weights.items()})
    one_run = {name: torch.stack([now[name][0] for now in late]) for name in weights}
    two_runs = {name: one.clone() for name, one in late[-1].items()}
    points = one_run if of == "one run" else two_runs

    def losses(points: dict[str, Tensor]) -> Tensor:
        with torch.no_grad():
            return vmap(loss, in_dims=(0, None, None))(points, x, y).double()

    def means(points: dict[str, Tensor]) -> dict[str, Tensor]:
        """Average the points, one after the other; give the average after each of them."""
        carrier, seen = MLP([64, hidden, 10], rng=seed.torch()), []
        average = WeightAverage(carrier)
        for number in range(len(next(iter(points.values())))):
            carrier.load_state_dict({name: one[number] for name, one in points.items()})
            average.update_parameters(carrier)
            seen.append({name: p.detach().clone() for name, p in average.module.named_parameters()})
        return {name: torch.stack([one[name] for one in seen]) for name in points}

    at, averaged = losses(points), losses(means(points))
    ends, middle = losses(two_runs), losses(means(two_runs))[-1]
    k = range(1, len(at) + 1)
    return every({
        of: at_most(averaged[-1], at.mean(), why="noise of the steps, averaged away").drawn(
            Series("loss of each point", k, at, "other", "points"),
            Series("mean of these losses", k, at.mean().expand(len(at)), "bound"),
            Series("loss of the average so far", k, averaged, style="line"),
            x="point", y="training loss", log="y",
        ),
        "hill between two runs": at_least(
            middle, 2 * ends.mean(), why="a hill, not a wave: at least as high again"
        ),
    })


@experiment(
    reaches={"gain_in_errors": at_least_goal(1.0)}, floor={"gain": at_least_goal(0.0)},
    source="Izmailov et al. (2018), table 1: averages of epoch ends against the last weights; to "
    "beat is the last iterate at the same constant rate, by one standard error over three seeds",
)
def swa(
    run: Run, *, lr: Annotated[float, Range(0.001, 0.5)] = 0.2,
    epochs: Annotated[int, Range(ENDS, 30)] = 10,
    samples: Annotated[int, Range(500, 60_000)] = 20_000,
) -> None:
    """Averages the last five epoch ends of a small convolutional network at a constant rate."""
    if run.full:
        (x, y), test = (fashion(split, data_dir=run.data_dir) for split in ("train", "test"))
    else:
        x, y, *test = digits()
    batch = 128 if run.full else 32  # the digits are soon fitted: less noise would leave no gain
    x, y, test = x[:samples, None], y[:samples], (test[0][:, None], test[1])
    errors = []
    for name in SEEDS:
        own = run.seed.child(name)
        model = _Ends(_network(x.shape[-1], own.child("init").torch()))
        sgd = SGD(model.parameters(), lr=lr, momentum=0.9)
        fit(
            model, (x, y), Supervised(F.cross_entropy), sgd, epochs=epochs, batch_size=batch,
            parts=[_KeepEnds()], validation=test, metrics=SCORE, seed=own, run=run, name=name,
        )
        model.cpu()
        average = WeightAverage(model.net)
        for end in model.ends:
            vector_to_parameters(end, model.net.parameters())
            average.update_parameters(model.net)
        update_bn(x.split(500), average)
        errors.append([1 - evaluate(one, test, SCORE)["accuracy"] for one in (model, average)])
        if name == SEEDS[0]:
            run.figure("plane", _plane(model, test))
    last, averaged = torch.tensor(errors, dtype=torch.float64).T
    gains = last - averaged
    noise = float(gains.std()) / len(SEEDS) ** 0.5
    gain = float(gains.mean())
    run.record(last_error=float(last.mean()), averaged_error=float(averaged.mean()), gain=gain)
    run.record(gain_in_errors=gain / max(noise, 1e-12))


SCORE = {"accuracy": accuracy}


@final
class _Ends(nn.Module):
    """A network that carries its weights at the ends of the last epochs, one a row."""

    ends: Tensor

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("ends", torch.zeros(ENDS, sum(p.numel() for p in net.parameters())))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


@final
class _KeepEnds(Part):
    """Puts the weights at the end of every epoch behind the others."""

    def after_epoch(self, model: nn.Module, row: dict[str, float]) -> str:
        assert isinstance(model, _Ends)  # noqa: S101
        newest = parameters_to_vector(model.net.parameters()).detach()
        model.ends.copy_(torch.cat([model.ends[1:], newest[None]]))
        return ""


def _network(side: int, rng: torch.Generator) -> nn.Sequential:
    """Build two normalized convolutions and a linear layer; all weights are of the generator."""
    net = nn.Sequential(
        skip_init(nn.Conv2d, 1, 8, 5, stride=2, padding=2), nn.BatchNorm2d(8), nn.ReLU(),
        skip_init(nn.Conv2d, 8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Flatten(), skip_init(nn.Linear, 16 * math.ceil(side / 4) ** 2, 10),
    )
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                p = layer.weight
                p.copy_((2 / p[0].numel()) ** 0.5 * torch.randn(p.shape, generator=rng))
                layer.bias.zero_()  # type: ignore[union-attr]
    return net


@torch.no_grad()
def _plane(model: _Ends, data: tuple[Tensor, Tensor]) -> go.Figure:
    """Draw the loss on the plane through three epoch ends, with their mean in the middle."""
    net, (x, y) = copy.deepcopy(model.net).train(), (one[:1000] for one in data)
    a, b, c = model.ends[[0, ENDS // 2, -1]].double()
    right = (b - a) / (b - a).norm()
    up = c - a - (c - a) @ right * right
    axes = torch.stack([right, up / up.norm()])
    corners = torch.stack([a, b, c]) @ axes.T - a @ axes.T  # (3, 2)
    low, high = corners.amin(dim=0), corners.amax(dim=0)
    ticks = [
        torch.linspace(float(i - (j - i) / 3), float(j + (j - i) / 3), 17).double()
        for i, j in zip(low, high, strict=True)
    ]
    heights = []
    for place in torch.cartesian_prod(*ticks):
        vector_to_parameters((a + place @ axes).float(), net.parameters())
        heights.append(F.cross_entropy(net(x), y))  # with the statistics of these pictures
    mean = corners.mean(dim=0)
    figure = figures.draw(Picture((
        Series("epoch ends", corners[:, 0], corners[:, 1]),
        Series("their mean", mean[:1], mean[1:], "predicted", "points"),
    ), "along the first two ends", "across, toward the last end"))
    figure.add_trace(go.Contour(
        x=ticks[0].numpy(), y=ticks[1].numpy(), z=torch.stack(heights).view(17, 17).T.numpy(),
        colorscale="Greys", contours={"coloring": "lines"}, name="test loss", showscale=False,
    ))
    return figure.update_layout(height=480)


def _times(first: float, last: int) -> Tensor:
    """Space whole steps evenly on a logarithmic axis."""
    return torch.logspace(math.log10(first), math.log10(last), 21).round().long().unique()


def _exact(lam: Tensor, sigma: float, steps: int) -> Tensor:
    """Compute t times the average's expected squared error, steps t^(-1/2) from σ, by recursion."""
    point, cross, total = sigma**2 * torch.ones_like(lam), torch.zeros_like(lam), 0 * lam
    errors = []
    for t in range(1, steps + 1):
        lr = t**-0.5
        shrunk = 1 - lr * lam
        point = shrunk**2 * point + (lr * sigma) ** 2  # E θ²
        total = total + 2 * shrunk * cross + point  # E (sum of all θ)²
        cross = shrunk * cross + point  # E θ (sum of all θ)
        errors.append((total / t).sum())
    return torch.stack(errors)
