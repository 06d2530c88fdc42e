r"""Weight decay: what is true of it, and what would refute it.

Knobs:
    lr: Step size η.
    mu: Strength μ of the decay.
    steps: Steps of the optimizer.
    form: The formula as it is, or as it is misprinted.
    optimizer: What takes the steps; what is said is true of SGD, and not of Adam.
    largest: The largest product ημ that is tried inside; beyond 2, steps grow.
    dim: Number of weights.
    problems: Random quadratic risks that are solved.
    share: What is predicted to be left along an eigenvector; twice the μ shrinks too far.
    spread: How unequal the strengths of single weights are, as a deviation of their logarithm.
    samples: Labels that a model is fit to.
    tau: Width τ of the prior of the weights.
    count: What the strength is divided by; without the number of samples it is no posterior.
    sigma: Noise σ of the labels; without any there is nothing that decay could suppress.
    data_sets: Independent sets of data that are averaged.
    price: The strength that is said to be best; the price of a sum is s times too high.
    alpha: Factor α of the first layer; with 1 nothing is rescaled.
    width: Hidden units.
    biases: Whether biases of the first layer are scaled, too; if not, the function changes.
    lam: Price λ of each weight's absolute value.
    penalty: What is priced, and how; squares, or steps without a threshold, leave no exact 0.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Normal
from torch.nn.utils import parameters_to_vector, parametrizations
from torch.optim import LBFGS, SGD, Adam, AdamW

from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    claim,
    equal,
    equal_to_rounding,
    every,
    mean_is,
    never,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.networks.mlp import MLP
from principia.optimization.problems import noisy_logistic
from principia.regression.lasso import soft_threshold
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
WEIGHTS: Any = "linear.weight", "conv.weight", "normalized.parametrizations.weight.original1"
CONTRACTS = "float64 rounding of steps that contract"


@claim(
    control={"form": "printed"}, source="Krogh and Hertz 1992; Goodfellow et al. 2016, eq. 7.5",
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

    priced = torch.func.grad(lambda at: risk.value(at).sum() + mu / 2 * (at * at).sum())
    theta, sign = [start], 1 if form == "printed" else -1
    for _ in range(steps):
        g = risk.gradient(theta[-1])
        theta.append(theta[-1] - lr * (g - mu * theta[-1]) if form == "printed" else
                     decay(theta[-1], g if form == "correct" else g / lr, lr=lr, mu=mu))
    by_formula, t = torch.stack(theta), range(steps + 1)
    decayed = _path(SGD, risk.gradient, start, steps, lr=lr, weight_decay=mu)
    penalized = _path(SGD, priced, start, steps, lr=lr)
    parts = {
        "torch and formula": equal(decayed, by_formula, tol=1e-12, why=CONTRACTS).drawn(
            Series("torch", t, decayed.norm(dim=-1)[:, 0]),
            Series(f"{form} formula", t, by_formula.norm(dim=-1)[:, 0], "predicted"),
            x="step t", y="norm of the weights",
        ),
        "explicit penalty and formula": equal(penalized, by_formula, tol=1e-12, why=CONTRACTS),
    }
    model, by_name = _many_layers(rng), {"linear.weight": mu, "gains.bias": mu / 2}
    for name, given, strengths in (("one strength", mu, dict.fromkeys(WEIGHTS, mu)),
                                   ("strengths by name", by_name, by_name)):
        moved = copy.deepcopy(model)
        optimizer = SGD(decay_groups(moved, given, lr=lr))
        for p in moved.parameters():
            p.grad = torch.zeros_like(p)
        for _ in range(steps):
            optimizer.step()
        before = dict(model.named_parameters())
        parts[f"without a risk, {name}"] = equal_to_rounding(
            [(p / before[one]).mean().item() for one, p in moved.named_parameters()],
            [(1 + sign * lr * strengths.get(one, 0.0)) ** steps for one in before],
        )
    return every(parts)


def _many_layers(rng: torch.Generator) -> nn.ModuleDict:
    """Give layers of all kinds, with gains and biases of two axes, too, and a frozen weight."""
    with torch.random.fork_rng(devices=[]):  # what layers draw is drawn anew below
        model = nn.ModuleDict({
            "linear": nn.Linear(4, 3), "conv": nn.Conv1d(2, 3, 5), "gains": nn.LayerNorm([2, 3]),
            "others": nn.RMSNorm([3, 2]), "frozen": nn.Linear(3, 2).requires_grad_(False),
            "normalized": parametrizations.weight_norm(nn.Linear(3, 2)),
        })
    for name in ("bias", "weight_g"):  # of many networks at once; of torch's older weight_norm
        model.register_parameter(name, nn.Parameter(torch.empty(3, 1)))
    for p in model.parameters():
        p.data = randn(rng, *p.shape)
    return model


def _path(
    kind: Any, gradient: Callable[[Tensor], Tensor], start: Tensor, steps: int, *, lr: float,
    beside: float = 0.0, **options: Any,
) -> Tensor:
    """Give all points of an optimizer; `beside` is a decay of which it knows nothing."""
    p = nn.Parameter(start.clone())
    optimizer, points = kind([p], lr=lr, **options), [start]
    for _ in range(steps):
        p.grad = gradient(p.detach())
        optimizer.step()
        if beside:  # the step itself stands for a gradient
            p.data = decay(points[-1], (points[-1] - p.detach()) / lr, lr=lr, mu=beside)
        points.append(p.detach().clone())
    return torch.stack(points)


@claim(
    control={"optimizer": "adam"}, refutes=["one path", "two paths"],
    source="Loshchilov and Hutter 2019, proposition 1 and 2",
)
def adam_decay_is_not_l2(
    seed: Seed, *, lr: Annotated[float, Range(0.02, 0.5)] = 0.05,
    mu: Annotated[float, Range(0.1, 1)] = 0.2, steps: Annotated[int, Range(50, 400)] = 100,
    optimizer: Literal["sgd", "adam"] = "sgd",
) -> Evidence:
    """Decay in the gradient and decay beside it are one for SGD, and two for Adam."""
    rng, coupled, beside = seed.torch(), {}, {}
    risk, start = noisy_logistic(rng, l2=0.0), randn(rng, 1, 8)
    for name, kind in {"sgd": SGD, "adam": Adam}.items():
        path = partial(_path, kind, risk.gradient, start, steps, lr=lr)
        coupled[name], beside[name] = path(weight_decay=mu), path(beside=mu)
    adamw = _path(AdamW, risk.gradient, start, steps, lr=lr, weight_decay=mu)
    other, t = "adam" if optimizer == "sgd" else "sgd", range(steps + 1)
    return every({
        "one path": equal(coupled[optimizer], beside[optimizer], tol=1e-12, why=CONTRACTS).drawn(
            *(Series(f"{name}, in the gradient", t, path.norm(dim=-1)[:, 0])
              for name, path in coupled.items()),
            *(Series(f"{name}, beside it", t, path.norm(dim=-1)[:, 0], "predicted")
              for name, path in beside.items()), x="step t", y="norm of the weights",
        ),
        "two paths": at_least((coupled[other] - beside[other]).abs().max(), 1e-2,
                              why="a hundredth of a weight, no rounding"),
        "beside Adam it is AdamW": equal(adamw, beside["adam"], tol=1e-10, why=CONTRACTS),
    })


@claim(
    control=[
        Control({"largest": 2.1}, ["contracts"], "steps beyond 2"),
        Control({"optimizer": "Adam"}, ["not outside", "factor", "signs"], "steps of one length"),
    ],
    source="linear recursion; Goodfellow et al. 2016, sec. 7.1.1",
)
def decay_stability(
    seed: Seed, *, largest: Annotated[float, Range(0.5, 2.1)] = 1.9, lr: Rate = 0.1,
    steps: Annotated[int, Range(1, 50)] = 10, optimizer: Literal["SGD", "Adam"] = "SGD",
) -> Evidence:
    r"""Decay alone contracts iff $0<\eta\mu<2$, and keeps the signs of weights iff $\eta\mu<1$."""
    inside = largest * (torch.arange(40, dtype=torch.float64) + 0.5) / 39.5  # the last is largest
    products = torch.cat([inside, torch.zeros(1), torch.linspace(2.01, 3, 12).double()])
    start = 0.5 + rand(seed.torch(), 5)
    weights = nn.ParameterList([start.clone() for _ in products])
    mus = {str(k): one / lr for k, one in enumerate(products.tolist())}
    stepper = {"SGD": SGD, "Adam": Adam}[optimizer](decay_groups(weights, mus), lr=lr)
    for p in weights:
        p.grad = torch.zeros_like(p)
    shares = []  # of every step: (products, 5)
    for _ in range(steps):
        stepper.step()
        shares.append(torch.stack([p.detach() / start for p in weights]))
    factors, left = shares[0], shares[-1].abs().amax(dim=1)
    return every({
        "contracts": never(left[:40] >= 1, why="a linear map: every weight by |1 - ημ|").drawn(
            Series("θ₁ / θ₀", products, factors[:, 0]),
            Series("1 - ημ", products, 1 - products, "predicted", "points"),
            x="ημ", y="factor of one step",
        ),
        "not outside": never(left[40:] < 1 - 1e-12, why="|1 - ημ| is 1 or more"),
        "factor": equal_to_rounding(factors, (1 - products)[:, None].expand_as(factors)),
        "signs": never((factors < 0).any(dim=1) != (products > 1), why="the sign of 1 - ημ"),
    })


@claim(control={"share": "λ / (λ + 2μ)"}, source="Goodfellow et al. 2016, eq. 7.13")
def l2_shrinks_by_eigenvalue(
    seed: Seed, *, dim: Annotated[int, Range(2, 30)] = 10,
    mu: Annotated[float, Range(0.05, 10)] = 0.5, problems: Annotated[int, Range(2, 50)] = 20,
    share: Literal["λ / (λ + μ)", "λ / (λ + 2μ)"] = "λ / (λ + μ)",
) -> Evidence:
    r"""Quadratic risk: decay shrinks along eigenvectors by $\lambda_i/(\lambda_i+\mu)$."""
    times = 2 if share == "λ / (λ + 2μ)" else 1
    H, lam, Q, best = _quadratics(seed.torch(), problems, dim)
    found = _minimize(lambda theta: _quadratic(H, theta - best) + mu / 2 * theta**2, best)
    kept, grid = lam / (lam + times * mu), torch.logspace(-1.5, 1, 60, dtype=lam.dtype)
    along, before = ((Q.mT @ one[..., None])[..., 0] for one in (found, best))
    return every({
        "coordinates": equal(along, kept * before, tol=1e-8, why=CURVED).drawn(
            Series("share that L-BFGS leaves", lam.flatten(), (along / before).flatten()),
            Series(share, grid, grid / (grid + times * mu), "predicted"),
            x="eigenvalue λ", y="share of the coordinate that is kept", log="x",
        ),
        "shrinkage, in any unit": equal_to_rounding(
            torch.stack([shrinkage(c * H, c * mu) for c in (1, 1e4)]) @ best[..., None],
            (Q @ (kept * before)[..., None]).expand(2, -1, -1, -1),
        ),
    })


def _quadratics(rng: torch.Generator, problems: int, dim: int) -> tuple[Tensor, ...]:
    """Draw Hessians with eigenvalues from 0.05 to 5, eigenvalues, eigenvectors and minima."""
    Q = torch.linalg.qr(randn(rng, problems, dim, dim)).Q
    lam = 0.5 * 10 ** randn(rng, problems, dim).tanh()
    return Q @ (lam[..., None] * Q.mT), lam, Q, randn(rng, problems, dim)


def _minimize(value: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """Minimize a sum of values by L-BFGS."""
    theta = nn.Parameter(start.clone())

    def loss() -> Tensor:
        theta.grad = None
        total = value(theta).sum()
        total.backward()
        return total

    for search in ("strong_wolfe", None):  # values are too coarse to search by at the very end
        LBFGS([theta], max_iter=500, tolerance_grad=1e-11, tolerance_change=0, history_size=50,
              line_search_fn=search).step(loss)  # type: ignore[arg-type]
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
    rng = seed.torch()
    H, lam, Q, best = _quadratics(rng, 5, dim)
    d = mu * torch.exp(spread * randn(rng, 5, dim).clamp(-2, 2))
    found = _minimize(lambda theta: _quadratic(H, theta - best) + d / 2 * theta**2, best)
    printed = Q @ ((lam / (lam + d))[..., None] * (Q.mT @ best[..., None]))
    predicted = (shrinkage(H, d) @ best[..., None] if form == "correct" else printed)[..., 0]
    return equal(found, predicted, tol=1e-8, why=CURVED).named("weights at the minimum").drawn(
        Series("weights", predicted.flatten(), found.flatten()),
        Series("found = formula", found.flatten(), found.flatten(), "predicted"),
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
    mus, start = 1 / ((samples if count == "s" else 1) * taus**2), taus.new_zeros(9, dim)
    found = _minimize(lambda theta: risk.value(theta) + mus / 2 * (theta**2).sum(dim=-1), start)

    def surprise(theta: Tensor) -> Tensor:
        likelihood = Bernoulli(logits=theta @ risk.signed.mT)  # turned so that all labels are 1
        prior = Normal(0.0, taus[:, None]).log_prob(theta).sum(dim=-1)
        return -likelihood.log_prob(theta.new_ones(())).sum(dim=-1) - prior

    mode = _minimize(surprise, start)
    return equal(found, mode, tol=1e-8, why=MINIMIZED).named("weights of the posterior mode").drawn(
        Series(f"minimum with decay, μ = 1/({count} τ²)", taus, found.norm(dim=1)),
        Series("posterior mode", taus, mode.norm(dim=1), "predicted"),
        x="width τ of the prior", y="norm of the weights", log="x",
    )


@claim(
    control=[
        Control({"sigma": 0.0}, ["decay helps"], "labels without noise"),
        Control({"price": "σ²/τ²"}, ["best strength"], "the price of a sum, not of a mean"),
    ],
    source="Krogh and Hertz 1992; Hoerl and Kennard 1970",
)
def decay_suppresses_noise(
    seed: Seed, *, sigma: Annotated[float, Range(0, 5)] = 1.0,
    tau: Annotated[float, Range(0.2, 5)] = 1.0, samples: Annotated[int, Range(30, 200)] = 50,
    data_sets: Annotated[int, Range(500, 5000)] = 2000,
    price: Literal["σ²/(sτ²)", "σ²/τ²"] = "σ²/(sτ²)",
) -> Evidence:
    r"""Noisy labels: the excess risk is smallest at $\mu=\sigma^2/(s\tau^2)$, above 0."""
    rng, dim = seed.torch(), 20
    lam = torch.logspace(-4, 0, dim, dtype=torch.float64)
    Q, U = torch.linalg.qr(randn(rng, dim, dim)).Q, torch.linalg.qr(randn(rng, samples, dim)).Q
    X = samples**0.5 * (U * lam.sqrt()) @ Q.mT  # X'X / s has eigenvalues lam
    theta = tau * randn(rng, dim, data_sets)
    Y = X @ theta + sigma * randn(rng, samples, data_sets)
    predicted = sigma**2 / tau**2 / (samples if price == "σ²/(sτ²)" else 1)

    def risk(mu: Tensor) -> Tensor:
        bias, noise = lam * (mu[:, None] * tau) ** 2, lam**2 * sigma**2 / samples
        return ((bias + noise) / (lam + mu[:, None]) ** 2).sum(dim=1)

    around = (predicted or 1e-3) * torch.logspace(-2, 2, 4001, dtype=lam.dtype)
    grid = torch.cat([around.new_zeros(1), around])
    best, some = grid[risk(grid).argmin()], around[::500]
    shrunken = shrinkage(X.mT @ X / samples, some[:, None].expand(-1, dim))
    factor = torch.linalg.cholesky(X.mT @ X)  # the last bits of lstsq differ from call to call
    W = shrunken @ torch.cholesky_solve(X.mT @ Y, factor)  # (9, dim, data sets)
    excess = ((lam.sqrt()[:, None] * (Q.mT @ (W - theta))) ** 2).sum(dim=1)
    return every({
        "decay helps": at_least(best, around[0], why="the first point of the grid above 0"),
        "best strength": equal(best, predicted, tol=0.003 * predicted, why="a step of the grid"),
        "Monte Carlo": mean_is(
            excess, risk(some), axis=1, k=4, bias=1e-12, why="mean over the data sets"
        ).drawn(
            Series("mean of the data sets", some, excess.mean(dim=1)),
            Series("exact", around[::40], risk(around[::40]), "predicted"),
            x="strength μ", y="excess risk", log="x",
        ),
    })


@claim(
    control=[
        Control({"alpha": 1.0}, ["norm"], "nothing rescaled"),
        Control({"biases": "kept"}, ["outputs", "norm along the valley"], "biases as they were"),
    ],
    source="Dinh et al. 2017, sec. 3; Neyshabur et al. 2015",
)
def norm_is_not_the_function(
    seed: Seed, *, alpha: Annotated[float, Range(1, 10_000)] = 100.0,
    width: Annotated[int, Range(5, 100)] = 20, biases: Literal["scaled", "kept"] = "scaled",
) -> Evidence:
    r"""$(\alpha W^1,\alpha b^1,W^2/\alpha)$: one function of a ReLU net, 50 times the norm."""
    rng = seed.torch()
    mlp = MLP([8, width, 3], rng=rng).double().requires_grad_(False)
    x, factors = randn(rng, 500, 8), alpha ** torch.linspace(-1, 1, 11, dtype=torch.float64)
    nets = [copy.deepcopy(mlp) for _ in factors]
    for net, factor in zip(nets, factors, strict=True):
        into = factor if biases == "scaled" else 1
        for p, times in zip(net.parameters(), (factor, into, 1 / factor, 1), strict=True):
            p.mul_(times)
    outputs = torch.stack([net(x) for net in nets])
    norms = torch.stack([parameters_to_vector(net.parameters()).norm() for net in nets])
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


@claim(
    control=[
        Control({"penalty": "l2"}, ["zeros", "values", "subgradient: near"], "squared weights"),
        Control({"penalty": "exchanged"}, ["subgradient: no zeros", "zeros"], "no threshold"),
    ],
    source="Tibshirani 1996, sec. 2.2",
)
def l1_gives_exact_zeros(
    seed: Seed, *, lam: Annotated[float, Range(0.1, 2)] = 0.7,
    dim: Annotated[int, Range(5, 200)] = 30, penalty: Literal["l1", "l2", "exchanged"] = "l1",
) -> Evidence:
    r"""Proximal L1 sets $\theta_i$ to exactly 0 where $|h_i\theta_i^*|\le\lambda$, no other."""
    rng, problems = seed.torch(), 20
    h, best = 5 ** randn(rng, dim).tanh(), randn(rng, problems, dim)
    lr, steps = 1 / float(h.max()), 600

    def slopes(theta: Tensor) -> Tensor:
        return h * (theta - best)

    def subgradient(theta: Tensor) -> Tensor:
        if penalty == "l2":
            return slopes(theta) + lam * theta
        at = nn.Parameter(theta)
        return slopes(theta) + torch.autograd.grad(l1_penalty(nn.ParameterList([at]), lam), at)[0]

    how = {"kind": SGD, "weight_decay": lam} if penalty == "l2" else {
        "kind": ProximalL1, "base_optimizer": SGD, "lam": lam}
    theta = _path(gradient=slopes, start=best, steps=steps, lr=lr, **how)[-1]
    plain = _path(SGD, subgradient, best, steps // 3, lr=lr)[-1]
    if penalty == "exchanged":
        theta, plain = plain, theta
    zero, predicted = (h * best).abs() <= lam, soft_threshold(best, lam / h)
    return every({
        "zeros": never((theta == 0) != zero, why="exactly 0 there, and nowhere else").drawn(
            Series(f"{penalty}: trained", (h * best)[:5].flatten(), (h * theta)[:5].flatten()),
            Series("soft threshold", (h * best)[:5].flatten(), (h * predicted)[:5].flatten(),
                   "predicted", "points"),
            x="pull of the data, h θ*", y="h θ",
        ),
        "values": equal(theta, predicted, tol=1e-8, why="gradient steps at a linear rate"),
        "subgradient: no zeros": never(plain == 0, why="it steps across 0"),
        "subgradient: near": equal(plain, predicted, tol=2 * lr * lam,
                                   why="it hops over 0 by up to η(|h θ*| + λ)"),
        **_groups_and_prices(rng, lam),
    })


def _groups_and_prices(rng: torch.Generator, lam: float) -> dict[str, Evidence]:
    """Train groups with momentum over a restart; price the weights of many layers."""
    ours = [nn.Parameter(randn(rng, *shape)) for shape in ((3, 4), (3,), (2,))]
    theirs = copy.deepcopy(ours)

    def made() -> ProximalL1:
        groups = decay_groups(nn.ParameterList(ours[:1]), lam, name="lam", lr=2.0)
        return ProximalL1([*groups, {"params": ours[1:]}], SGD, lr=0.3, momentum=0.5)

    plain = SGD([{"params": theirs[:1], "lr": 2.0}, {"params": theirs[1:]}], lr=0.3, momentum=0.5)
    optimizer = made()
    for step in range(10):
        if step == 5:
            state, optimizer = optimizer.state_dict(), made()
            optimizer.load_state_dict(state)
            optimizer.param_groups[0]["lr"] = plain.param_groups[0]["lr"] = 1.0
        for one, other in zip(ours, theirs, strict=True):
            one.grad = other.grad = randn(rng, *one.shape)
        optimizer.step()
        plain.step()
        theirs[0].data = soft_threshold(theirs[0].data, plain.param_groups[0]["lr"] * lam)
    model = _many_layers(rng)
    sizes = {name: one.detach().abs().sum() for name, one in model.named_parameters()}
    whole = lam * sum(sizes[name] for name in (*WEIGHTS, "frozen.weight"))
    by_name = l1_penalty(model, {"gains.bias": 2.0, "conv.weight": 0.5})
    return {
        "groups, momentum, a restart": equal_to_rounding(
            parameters_to_vector(ours), parameters_to_vector(theirs)),
        "price of many layers": equal_to_rounding(
            [l1_penalty(model, lam).item(), by_name.item()],
            [whole, 2 * sizes["gains.bias"] + sizes["conv.weight"] / 2]),
    }
