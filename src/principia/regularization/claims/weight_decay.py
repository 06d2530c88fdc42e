r"""Weight decay: what is true of it, and what would refute it."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Normal
from torch.optim import LBFGS, SGD, Adam, AdamW

from principia.lab.draws import randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    claim,
    equal,
    equal_to_rounding,
    every,
    mean_is,
    never,
    slope,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.networks.mlp import MLP
from principia.optimization.problems import LogisticRisk, Quadratic, noisy_logistic
from principia.regression.lasso import soft_threshold
from principia.regression.ridge import ridge_path
from principia.regularization.weight_decay import (
    ProximalL1,
    decay,
    decay_groups,
    l1_penalty,
    shrinkage,
)

Rate = Annotated[float, Range(0.01, 1)]
MINIMIZED = "L-BFGS ends where the gradient is below 1e-11"
CURVED = f"{MINIMIZED}, and curvatures are above 0.05"
CONTRACTS = "float64 rounding of steps that contract"


@claim(
    control={"form": "printed"},
    refutes=["without a risk", "torch and formula"],
    source="Krogh and Hertz 1992; Goodfellow et al. 2016, eq. 7.5",
    misprint=r"$\theta-\eta(\nabla\ell-\mu\theta)$, then $(1-\eta\mu)\theta-\nabla\ell$",
)
def sgd_decay_is_l2(
    seed: Seed, *, lr: Rate = 0.1, mu: Annotated[float, Range(0.001, 0.9)] = 0.1,
    steps: Annotated[int, Range(10, 200)] = 100,
    form: Literal["correct", "printed", "printed, second line"] = "correct",
) -> Evidence:
    r"""SGD: decay $\mu$ is the gradient of $\frac\mu2\Vert\theta\Vert^2$; $\eta\mu<1$."""
    rng = seed.torch()
    risk, start = noisy_logistic(rng, l2=0.0), randn(rng, 1, 8)

    def formula(theta: Tensor, g: Tensor) -> Tensor:
        if form == "printed":
            return theta - lr * (g - mu * theta)
        return decay(theta, g if form == "correct" else g / lr, lr=lr, mu=mu)

    priced = partial(_gradient, lambda at: risk.value(at).sum() + mu / 2 * (at * at).sum())
    theta = [start]
    for _ in range(steps):
        theta.append(formula(theta[-1], risk.gradient(theta[-1])))
    by_torch = _path(SGD, risk.gradient, start, steps, lr=lr, weight_decay=mu)
    penalty = _path(SGD, priced, start, steps, lr=lr)
    mlp, t = MLP([4, 3, 2], rng=rng).double(), torch.arange(steps + 1, dtype=start.dtype)
    left = (1 + lr * mu if form == "printed" else 1 - lr * mu) ** t
    free = _path(SGD, torch.zeros_like, start, steps, lr=lr, weight_decay=mu)[:, 0] / start
    strengths = {"layers.0.weight": mu, "layers.1.weight": mu / 2}
    parts = {
        "without a risk": equal_to_rounding(free, left[:, None].expand_as(free)).drawn(
            Series("share of a weight, torch", t, free[:, 0]),
            Series(f"{form}: (1 {'+' if form == 'printed' else '-'} ημ)ᵗ", t, left, "predicted"),
            x="step t", y="θₜ / θ₀, without a risk",
        ),
        "torch and formula": _same_path(by_torch, torch.stack(theta)),
        "torch and explicit penalty": _same_path(by_torch, penalty),
    }
    for name, given, second in ("one strength", mu, mu), ("strengths by layer", strengths, mu / 2):
        expected = [(1 - lr * mu) ** steps, 1.0, (1 - lr * second) ** steps, 1.0]
        parts[f"groups, {name}"] = equal_to_rounding(_free_shares(mlp, given, lr, steps), expected)
    return every(parts)


def _gradient(value: Callable[[Tensor], Tensor], theta: Tensor) -> Tensor:
    at = theta.detach().requires_grad_()
    return torch.autograd.grad(value(at), at)[0]


def _path(
    kind: Any, gradient: Callable[[Tensor], Tensor], start: Tensor, steps: int, *,
    shrink: float = 0.0, **options: Any,
) -> Tensor:
    """Give all points of an optimizer; `shrink` is a decay beside its steps."""
    p = nn.Parameter(start.clone())
    optimizer, points = kind([p], **options), [start]
    for _ in range(steps):
        p.grad = gradient(p.detach())
        p.data.mul_(1 - shrink)
        optimizer.step()
        points.append(p.detach().clone())
    return torch.stack(points)


def _same_path(one: Tensor, other: Tensor) -> Evidence:
    return equal(one, other, tol=1e-13 * (1 + float(one.abs().max())), why=CONTRACTS)


@torch.no_grad()
def _free_shares(model: nn.Module, strengths: Any, lr: float, steps: int) -> list[float]:
    """Give what is left of each parameter when nothing but the decay of its group moves it."""
    moved = copy.deepcopy(model)
    optimizer = SGD(decay_groups(moved, strengths, lr=lr))
    for p in moved.parameters():
        p.grad = torch.zeros_like(p)
    for _ in range(steps):
        optimizer.step()
    pairs = zip(moved.parameters(), model.parameters(), strict=True)
    return [float((p * before).sum() / before.square().sum()) for p, before in pairs]


@claim(
    control={"optimizer": "adam"},
    refutes=["adam: one path"],
    source="Loshchilov and Hutter 2019, proposition 1 and 2",
)
def adam_decay_is_not_l2(
    seed: Seed, *, lr: Annotated[float, Range(0.02, 0.5)] = 0.05,
    mu: Annotated[float, Range(0.1, 1)] = 0.2, steps: Annotated[int, Range(50, 400)] = 100,
    optimizer: Literal["sgd", "adam"] = "sgd",
) -> Evidence:
    """Decay in the gradient and decay beside it are one for SGD, and two for Adam."""
    rng = seed.torch()
    risk, start = noisy_logistic(rng, l2=0.0), randn(rng, 1, 8)
    both, beside = {"lr": lr, "weight_decay": mu}, {"lr": lr, "shrink": lr * mu}
    coupled, decoupled = (
        {name: _path(kind, risk.gradient, start, steps, **how) for name, (kind, how) in arm.items()}
        for arm in ({"sgd": (SGD, both), "adam": (Adam, both)},
                    {"sgd": (SGD, beside), "adam": (AdamW, both)})
    )
    one, other, t = coupled[optimizer], decoupled[optimizer], range(steps + 1)
    apart = (coupled["adam"] - decoupled["adam"]).abs().max()
    return every({
        f"{optimizer}: one path": equal(one, other, tol=1e-12, why=CONTRACTS).drawn(
            *(Series(f"{name}, in the gradient", t, path.norm(dim=-1)[:, 0], style="line")
              for name, path in coupled.items()),
            *(Series(f"{name}, beside it", t, path.norm(dim=-1)[:, 0], "predicted")
              for name, path in decoupled.items()),
            x="step t", y="norm of the weights",
        ),
        "adam: two paths": at_least(apart, 1e-2, why="a hundredth of a weight, no rounding"),
    })


@claim(
    control={"largest": 2.1},
    refutes=["contracts"],
    source="linear recursion; Goodfellow et al. 2016, sec. 7.1.1",
)
def decay_stability(
    seed: Seed, *, largest: Annotated[float, Range(0.5, 2.1)] = 1.9, lr: Rate = 0.1,
    steps: Annotated[int, Range(1, 50)] = 10,
) -> Evidence:
    r"""Decay alone contracts iff $0<\eta\mu<2$, and keeps the signs of weights iff $\eta\mu<1$."""
    inside = largest * (torch.arange(40, dtype=torch.float64) + 0.5) / 39.5  # the last is largest
    outside = torch.cat([torch.zeros(1), torch.linspace(2.01, 3, 12)]).double()
    products, start = torch.cat([inside, outside]), randn(seed.torch(), 5)
    shares = torch.stack([
        _path(SGD, torch.zeros_like, start, steps, lr=lr, weight_decay=float(one) / lr) / start
        for one in products
    ])  # (products, steps + 1, 5)
    factors, left = shares[:, 1], shares[:, -1].abs().amax(dim=1)
    return every({
        "contracts": never(left[:40] >= 1, why="a linear map: every weight by |1 - ημ|").drawn(
            Series("θ₁ / θ₀", products, factors[:, 0]),
            Series("1 - ημ", products, 1 - products, "predicted", "points"),
            Series("claimed to contract up to here", [largest] * 2, [-2, 1], "bound"),
            x="ημ", y="factor of one step",
        ),
        "grows, or stays, outside": never(left[40:] < 1 - 1e-12, why="|1 - ημ| is 1 or more"),
        "factor": equal_to_rounding(factors, (1 - products)[:, None].expand_as(factors)),
        "signs": never((factors < 0).any(dim=1) != (products > 1), why="the sign of 1 - ημ"),
    })


@claim(
    control={"share": "λ / (λ + 2μ)"},
    refutes=["coordinates", "logistic, first order"],
    source="Goodfellow et al. 2016, eq. 7.13",
)
def l2_shrinks_by_eigenvalue(
    seed: Seed, *, dim: Annotated[int, Range(2, 30)] = 10,
    mu: Annotated[float, Range(0.05, 10)] = 0.5, problems: Annotated[int, Range(2, 50)] = 20,
    share: Literal["λ / (λ + μ)", "λ / (λ + 2μ)"] = "λ / (λ + μ)",
) -> Evidence:
    r"""Quadratic risk: decay shrinks along eigenvectors by $\lambda_i/(\lambda_i+\mu)$."""
    times = 2 if share == "λ / (λ + 2μ)" else 1
    H, lam, Q, best = _quadratics(seed.torch(), problems, dim)
    found = _minimize(lambda theta: _quadratic(H, theta - best) + mu / 2 * theta**2, best)
    kept = lam / (lam + times * mu)
    along, before = ((Q.mT @ one[..., None])[..., 0] for one in (found, best))
    risk = noisy_logistic(seed.child("logistic").torch(), samples=400, dim=4, l2=0.0)
    optimum = _minimize(risk.value, torch.zeros(1, 4).double())[0]
    bend = cast("Tensor", torch.autograd.functional.hessian(risk.value, optimum))
    mus = torch.linalg.eigvalsh(bend)[0] * torch.logspace(-3, -1.5, 7, dtype=bend.dtype)
    moved = _minimize(lambda theta: risk.value(theta) + mus / 2 * (theta**2).sum(dim=-1),
                      optimum.expand(7, 4))
    first = torch.stack([shrinkage(bend, times * strength) @ optimum for strength in mus.tolist()])
    grid = torch.logspace(-1.5, 1, 60, dtype=lam.dtype)
    return every({
        "coordinates": equal(along, kept * before, tol=1e-8, why=CURVED).drawn(
            Series("share that L-BFGS leaves", lam.flatten(), (along / before).flatten()),
            Series(share, grid, grid / (grid + times * mu), "predicted"),
            x="eigenvalue λ", y="share of the coordinate that is kept", log="x",
        ),
        "shrinkage": equal_to_rounding((shrinkage(H, times * mu) @ best[..., None])[..., 0],
                               (Q @ (kept * before)[..., None])[..., 0]),
        "logistic, first order": slope(
            mus, (moved - first).norm(dim=1), 2, tol=0.1,
            why="the next term is a share μ/λ of it, at most 0.03 times a small number",
            labels=("strength μ", "distance from the shrunken optimum"),
        ),
    })


def _quadratics(rng: torch.Generator, problems: int, dim: int) -> tuple[Tensor, ...]:
    """Draw Hessians with eigenvalues from 0.05 to 5, eigenvalues, eigenvectors and minima."""
    Q = torch.linalg.qr(randn(rng, problems, dim, dim)).Q
    lam = 0.5 * 10 ** randn(rng, problems, dim).tanh()
    H = Q @ (lam[..., None] * Q.mT)
    return (H + H.mT) / 2, lam, Q, randn(rng, problems, dim)


def _minimize(value: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """Minimize a sum of values by L-BFGS."""
    theta = nn.Parameter(start.clone())

    def loss() -> Tensor:
        theta.grad = None
        total = value(theta).sum()
        total.backward()
        return total

    for search in ("strong_wolfe", None):  # values are too coarse to search by at the very end
        LBFGS(
            [theta], max_iter=500, tolerance_grad=1e-11, tolerance_change=0, history_size=50,
            line_search_fn=search,
        ).step(loss)  # type: ignore[arg-type]
    return theta.detach()


def _quadratic(H: Tensor, z: Tensor) -> Tensor:
    return z * (H @ z[..., None])[..., 0] / 2


@claim(
    control={"form": "printed"}, source="stationarity of the regularized risk",
    misprint=r"$Q(\Lambda+\mathrm{diag}\,d)^{-1}\Lambda Q^\top\theta^*$ for a vector $d$",
)
def unequal_decay_does_not_diagonalize(
    seed: Seed, *, dim: Annotated[int, Range(2, 30)] = 10,
    mu: Annotated[float, Range(0.1, 10)] = 1.0, spread: Annotated[float, Range(0.3, 2)] = 1.5,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""A strength for each weight: the minimum is at $(H+\mathrm{diag}\,d)^{-1}H\theta^*$."""
    rng, problems = seed.torch(), 5
    H, lam, Q, best = _quadratics(rng, problems, dim)
    d = mu * torch.exp(spread * randn(rng, problems, dim).clamp(-2, 2))
    found = _minimize(lambda theta: _quadratic(H, theta - best) + d / 2 * theta**2, best)
    printed = Q @ ((lam / (lam + d))[..., None] * (Q.mT @ best[..., None]))
    predicted = (shrinkage(H, d) @ best[..., None] if form == "correct" else printed)[..., 0]
    ends = [found.min(), found.max()]
    return equal(found, predicted, tol=1e-8, why=CURVED).drawn(
        Series("weights", predicted.flatten(), found.flatten()),
        Series("found = formula", ends, ends, "predicted"),
        x=f"{form} formula", y="weight at the minimum, by L-BFGS",
    )


@claim(control={"count": "1"}, source="MacKay 1992; Bayes' rule")
def decay_is_a_gaussian_prior(
    seed: Seed, *, samples: Annotated[int, Range(50, 1000)] = 100,
    tau: Annotated[float, Range(0.2, 5)] = 1.0, dim: Annotated[int, Range(1, 10)] = 5,
    count: Literal["s", "1"] = "s",
) -> Evidence:
    r"""Decay $\mu=1/(s\tau^2)$ of the mean loss: the posterior mode of a prior $N(0,\tau^2I)$."""
    risk = noisy_logistic(seed.torch(), samples=samples, dim=dim, l2=0.0)
    taus = tau * torch.logspace(-0.5, 0.5, 9, dtype=torch.float64)
    mus, start = 1 / ((samples if count == "s" else 1) * taus**2), torch.zeros(9, dim).double()
    found = _minimize(lambda theta: risk.value(theta) + mus / 2 * (theta**2).sum(dim=-1), start)
    mode = _posterior_mode(risk, taus)
    return equal(found, mode, tol=1e-8, why=f"{MINIMIZED}; Newton's method doubles digits").drawn(
        Series(f"minimum with decay, μ = 1/({count} τ²)", taus, found.norm(dim=1)),
        Series("posterior mode", taus, mode.norm(dim=1), "predicted"),
        x="width τ of the prior", y="norm of the weights", log="x",
    )


def _posterior_mode(risk: LogisticRisk, taus: Tensor) -> Tensor:
    """Climb the log posterior by Newton's method, one row for each width of the prior."""
    X = risk.signed  # turned so that all labels are 1
    theta = X.new_zeros(len(taus), X.shape[1])

    def log_posterior(theta: Tensor) -> Tensor:
        prior = Normal(0.0, taus[:, None]).log_prob(theta).sum()
        return prior + Bernoulli(logits=theta @ X.mT).log_prob(X.new_ones(())).sum()

    narrow = torch.diag_embed((taus**-2)[:, None].expand_as(theta))
    for _ in range(20):
        odds = (theta @ X.mT).sigmoid()
        bend = X.mT @ ((odds * (1 - odds))[..., None] * X) + narrow
        theta = theta + torch.linalg.solve(bend, _gradient(log_posterior, theta))
    return theta


@claim(
    control={"sigma": 0.0},
    refutes=["decay helps"],
    source="Krogh and Hertz 1992; Hoerl and Kennard 1970",
)
def decay_suppresses_noise(
    seed: Seed, *, sigma: Annotated[float, Range(0, 5)] = 1.0,
    tau: Annotated[float, Range(0.2, 5)] = 1.0, samples: Annotated[int, Range(30, 200)] = 50,
    data_sets: Annotated[int, Range(500, 5000)] = 2000,
) -> Evidence:
    r"""Noisy labels: the excess risk is smallest at $\mu=\sigma^2/(s\tau^2)$, above 0."""
    rng, dim = seed.torch(), 20
    lam = torch.logspace(-4, 0, dim, dtype=torch.float64)
    Q, U = torch.linalg.qr(randn(rng, dim, dim)).Q, torch.linalg.qr(randn(rng, samples, dim)).Q
    X = samples**0.5 * (U * lam.sqrt()) @ Q.mT  # X'X / s has eigenvalues lam
    theta = tau * randn(rng, dim, data_sets)
    Y = X @ theta + sigma * randn(rng, samples, data_sets)
    predicted = sigma**2 / (samples * tau**2)

    def risk(mu: Tensor) -> Tensor:
        bias, noise = lam * (mu[:, None] * tau) ** 2, lam**2 * sigma**2 / samples
        return ((bias + noise) / (lam + mu[:, None]) ** 2).sum(dim=1)

    around = (predicted or 1e-3) * torch.logspace(-2, 2, 4001, dtype=lam.dtype)
    grid = torch.cat([around.new_zeros(1), around])
    best, some = grid[risk(grid).argmin()], around[::500]
    W = ridge_path(X, Y, samples * some)  # (9, dim, data sets)
    excess = ((lam.sqrt()[:, None] * (Q.mT @ (W - theta))) ** 2).sum(dim=1)
    found, error = excess.mean(dim=1), excess.std(dim=1) / data_sets**0.5
    return every({
        "decay helps": at_least(best, around[0], why="the first point of the grid above 0"),
        "best strength": equal(best, predicted, tol=0.003 * predicted, why="a step of the grid"),
        "Monte Carlo": mean_is(
            excess, risk(some), axis=1, k=4, bias=1e-12, why="mean over the data sets"
        ).drawn(
            Series("mean of the data sets", some, found, error=4 * error),
            Series("exact", around[::40], risk(around[::40]), "predicted"),
            Series("μ = σ²/(sτ²)", [predicted] * 2, [0, float(found.max())], "bound"),
            x="strength μ", y="excess risk", log="x",
        ),
    })


@claim(
    control={"alpha": 1.0},
    refutes=["norm"],
    source="Dinh et al. 2017, sec. 3; Neyshabur et al. 2015",
)
def norm_is_not_the_function(
    seed: Seed, *, alpha: Annotated[float, Range(1, 10_000)] = 100.0,
    width: Annotated[int, Range(5, 100)] = 20,
) -> Evidence:
    r"""$(\alpha W^1,\alpha b^1,W^2/\alpha)$: one function of a ReLU net, 50 times the norm."""
    rng = seed.torch()
    mlp = MLP([8, width, 3], rng=rng).double().requires_grad_(False)
    x, factors = randn(rng, 500, 8), alpha ** torch.linspace(-1, 1, 11, dtype=torch.float64)
    nets = [copy.deepcopy(mlp) for _ in factors]
    for net, factor in zip(nets, factors, strict=True):
        for p, times in zip(net.parameters(), (factor, factor, 1 / factor, 1), strict=True):
            p.mul_(times)
    outputs = torch.stack([net(x) for net in nets])
    norms = torch.stack([nn.utils.parameters_to_vector(net.parameters()).norm() for net in nets])
    first, into, second, out = (p.square().sum() for p in mlp.parameters())
    formula = (factors**2 * (first + into) + second / factors**2 + out).sqrt()
    return every({
        "norm": at_least(norms[-1] / norms[5], 50, why="half of α = 100 is asked for").drawn(
            Series("‖θ‖ of nets with one function", factors, norms),
            Series("√(α²|W¹|² + |W²|²/α² + …)", factors, formula, "predicted"),
            x="factor α", y="norm of all weights", log="xy",
        ),
        "outputs": equal_to_rounding(outputs, mlp(x).expand_as(outputs)),
        "norm along the valley": equal_to_rounding(norms, formula),
    })


@claim(control={"penalty": "l2"}, refutes=["zeros", "values"], source="Tibshirani 1996, sec. 2.2")
def l1_gives_exact_zeros(
    seed: Seed, *, lam: Annotated[float, Range(0.1, 2)] = 0.7,
    dim: Annotated[int, Range(5, 200)] = 30, penalty: Literal["l1", "l2"] = "l1",
) -> Evidence:
    r"""Proximal L1 sets $\theta_i$ to exactly 0 where $|h_i\theta_i^*|\le\lambda$, no other."""
    rng, problems = seed.torch(), 20
    h, best = 5 ** randn(rng, dim).tanh(), randn(rng, problems, dim)
    bowl, lr, steps = Quadratic(h), 1 / float(h.max()), 600

    def slopes(theta: Tensor) -> Tensor:
        return h * (theta - best)

    def subgradient(theta: Tensor) -> Tensor:
        bowl.theta.data, bowl.theta.grad = theta, None
        l1_penalty(bowl, lam).backward()
        return slopes(theta) + cast("Tensor", bowl.theta.grad)

    proximal = {"kind": ProximalL1, "base_optimizer": SGD, "lam": lam}
    how = proximal if penalty == "l1" else {"kind": SGD, "weight_decay": lam}
    theta = _path(gradient=slopes, start=best, steps=steps, lr=lr, **how)[-1]
    plain = _path(SGD, subgradient, best, steps // 3, lr=lr)[-1]
    zero, predicted = (h * best).abs() <= lam, soft_threshold(best, lam / h)
    near = "it hops over 0 by up to η(|h θ*| + λ)"
    return every({
        "zeros": never((theta == 0) != zero, why="exactly 0 there, and nowhere else").drawn(
            Series(f"{penalty}: trained", (h * best)[:5].flatten(), (h * theta)[:5].flatten()),
            Series("soft threshold", (h * best)[:5].flatten(), (h * predicted)[:5].flatten(),
                   "predicted", "points"),
            x="pull of the data, h θ*", y="h θ",
        ),
        "values": equal(theta, predicted, tol=1e-8, why="gradient steps at a linear rate"),
        "subgradient: no zeros": never(plain == 0, why="it steps across 0"),
        "subgradient: near": equal(plain, predicted, tol=2 * lr * lam, why=near),
    })
