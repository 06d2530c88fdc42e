r"""RMSprop: what is true of it, and what would refute it.

Knobs:
    dim: Coordinates of the point that moves.
    rho: Weight of the past in the average of squared gradients.
    eps: The small number beside the root, here large enough to be seen.
    eps_inside: Whether eps stands under the root; torch adds it to the root.
    gradient: Size of the gradient, which stays as it is.
    form: Whether squares are averaged, or added up as it is misprinted; a sum is too large.
    scale: What the loss is multiplied by.
    optimizer: Who steps; the steps of SGD grow with the loss.
    bias_correction: Whether Adam corrects its start at 0; RMSprop does not.
    fall: How many times smaller the gradients become.
"""

import math
from typing import Annotated, Literal

import torch
from torch.optim import Adagrad, RMSprop

from principia.lab.draws import randn
from principia.lab.evidence import Evidence, Series, at_least, claim, equal, every, tends_to
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training.optimizers import fed, steps_along
from principia.optimization.adam import Adam
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Quadratic, noisy_logistic
from principia.optimization.rmsprop import rmsprop_reference

Rho = Annotated[float, Range(0.5, 0.95)]
Dim = Annotated[int, Range(1, 50)]
FORGOTTEN = 12  # so many times 1 / (1 - rho) steps, and what was before weighs e^-12


@claim(
    control={"eps_inside": True},
    refutes=["steps"],
    source="Tieleman and Hinton 2012; Graves 2013, eq. 40",
)
def torch_is_the_formula(
    seed: Seed, *, dim: Dim = 8, rho: Rho = 0.9, eps: Annotated[float, Range(1e-8, 1)] = 0.1,
    eps_inside: bool = False,
) -> Evidence:
    r"""`torch.optim.RMSprop` is the formula, step for step, with $\varepsilon$ beside the root."""
    risk = noisy_logistic(seed.torch(), dim=dim)
    trace = descend(
        risk, RMSprop(risk.parameters(), lr=0.05, alpha=rho, eps=eps), 100,
        record=("theta", "value"),
    )
    theta = trace["theta"][:, 0]
    formula = rmsprop_reference(
        risk.gradient(theta[:-1]), 0.05, rho, eps, eps_inside=eps_inside
    )
    moved = theta.diff(dim=0)
    # gradients of all sizes, so that every eps counts somewhere; by rho torch means alpha
    g = randn(seed.child("sizes").torch(), 12, 3, 4)
    g *= torch.logspace(-9, 1, 4, dtype=g.dtype)
    t = torch.arange(12, dtype=g.dtype)
    weights = ((1 - rho) * rho ** (t[:, None] - t)).tril()
    root = (torch.einsum("ts,s...->t...", weights, g**2) + eps).sqrt()
    parts = {
        "steps": equal(moved, formula, tol=1e-13, why="rounding of one step at a time").drawn(
            Series("torch.optim.RMSprop", range(1, 101), moved[:, 0]),
            Series("formula", range(1, 101), formula[:, 0], "predicted"),
            x="step t", y="step of the first coordinate",
        )
    }
    found = {
        "defaults": (rmsprop_reference(g), steps_along(RMSprop, g)),
        "under the root, as a sum": (
            rmsprop_reference(g, 0.05, rho, eps, eps_inside=True), -0.05 * g / root
        ),
        "one gradient": (rmsprop_reference(g[:1]), steps_along(RMSprop, g[:1])),
    }
    return every(parts | {
        name: equal(one / other, 1, tol=1e-8, why="rounding of θ, of which steps are differences")
        for name, (one, other) in found.items()
    })


@claim(
    control={"form": "printed"}, source="Tieleman and Hinton 2012",
    misprint=r"$\gamma^2=\sum_s\rho^{t-s}(g^s)^2$ called a moving average; $1-\rho$ is missing",
)
def accumulator_is_an_average(
    seed: Seed, *, rho: Rho = 0.9, gradient: Annotated[float, Range(0.1, 100)] = 3.0,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""If the gradient stays, the root of $v$ tends to its size, and the step to $\eta$."""
    lr, count = 0.01, math.ceil(30 / (1 - rho))
    sign = 1.0 if float(torch.rand((), generator=seed.torch())) < 0.5 else -1.0
    g = torch.full((count, 1), sign * gradient, dtype=torch.float64)
    if form == "printed":  # the sum as it stands, and steps that are divided by its root
        v, sums = torch.zeros(1, dtype=g.dtype), []
        for one in g:
            v = rho * v + one**2
            sums.append(v)
        roots = torch.cat(sums).sqrt()
        steps = (lr * g[:, 0] / roots)[None]
    else:
        run = fed(RMSprop, g, lr=lr, alpha=rho, eps=0.0)
        roots = torch.cat([one.state[p]["square_avg"].clone() for one, p in run]).sqrt()
        torchs = -steps_along(RMSprop, g, lr=lr, alpha=rho, eps=0.0)[:, 0]
        steps = torch.stack([torchs, -rmsprop_reference(g, lr, rho, 0.0)[:, 0]])
    t = torch.arange(1, count + 1, dtype=g.dtype)
    exact, lengths = 1 / (1 - rho**t).sqrt(), sign * steps / lr
    return every({
        "root of v": tends_to(
            t, roots / gradient, 1.0, tol=1e-6, labels=("step t", "root of v, over the gradient"),
            why="ρ to the power of 30 / (1 - ρ) is below 1e-12",
        ),
        "step": equal(
            lengths, exact.expand_as(lengths), tol=1e-9, why="rounding of a geometric sum"
        ),
    }).drawn(
        Series("torch.optim.RMSprop" if form == "correct" else "with the sum", t, lengths[0]),
        Series("1 / √(1 − ρᵗ)", t, exact, "predicted"), x="step t", y="step, in units of lr",
    )


@claim(control={"optimizer": "SGD"}, source="by construction")
def invariant_to_loss_scale(
    seed: Seed, *, scale: Annotated[float, Range(2, 1e4)] = 1000.0, dim: Dim = 5,
    optimizer: Literal["RMSprop", "SGD"] = "RMSprop",
) -> Evidence:
    r"""$h$ and $ch$ give the same path, if $\varepsilon=0$."""
    lam = torch.logspace(-1, 0, dim, dtype=torch.float64)
    start = 1 + torch.rand(1, dim, generator=seed.torch(), dtype=lam.dtype)
    paths = []
    for factor in (1.0, scale):
        bowl = Quadratic(factor * lam).at(start)
        kind = (
            RMSprop(bowl.parameters(), lr=0.003, alpha=0.9, eps=0.0) if optimizer == "RMSprop"
            else torch.optim.SGD(bowl.parameters(), lr=0.003 / scale)
        )
        paths.append(descend(bowl, kind, 200, record=("theta",))["theta"][:, 0])
    plain, scaled = paths
    return equal(scaled, plain, tol=1e-10, why="rounding of 200 steps").named(
        "points of the path"
    ).drawn(
        Series(f"{scale:g} h", range(201), scaled[:, 0]),
        Series("h", range(201), plain[:, 0], "predicted"), x="step t", y="first coordinate",
    )


@claim(control={"bias_correction": True}, source="Kingma and Ba 2015, sec. 5")
def is_adam_without_momentum(
    seed: Seed, *, rho: Rho = 0.9, dim: Dim = 5, bias_correction: bool = False,
) -> Evidence:
    r"""RMSprop is Adam with $\beta_1=0$ and without the correction of its start."""
    g = torch.randn(100, dim, generator=seed.torch(), dtype=torch.float64)
    ours = steps_along(RMSprop, g, lr=0.01, alpha=rho, eps=1e-8)
    adam = steps_along(
        Adam, g, lr=0.01, betas=(0.0, rho), eps=1e-8, bias_correction=bias_correction
    )
    return equal(
        adam, ours, tol=1e-13, why="rounding of one step at a time"
    ).named("steps of Adam").drawn(
        Series("Adam", range(1, 41), adam[:40, 0].abs()),
        Series("RMSprop", range(1, 41), ours[:40, 0].abs(), "predicted"),
        x="step t", y="length of the step, first coordinate",
    )


@claim(control={"optimizer": "Adagrad"}, source="by construction")
def forgets_old_gradients(
    seed: Seed, *, rho: Rho = 0.9, fall: Annotated[float, Range(2, 100)] = 100.0,
    optimizer: Literal["RMSprop", "Adagrad"] = "RMSprop",
) -> Evidence:
    r"""After the gradient falls from $c$ to 1 the rate is $\eta/\sqrt{1+(c^2-1)\rho^k}$.

    Args:
        optimizer: Who steps; Adagrad never forgets, and its steps stay short.
    """
    before, after = math.ceil(40 / (1 - rho)), math.ceil(FORGOTTEN / (1 - rho))
    signs = torch.randint(0, 2, (before + after, 1), generator=seed.torch()) * 2.0 - 1
    size = torch.cat([torch.full((before, 1), fall), torch.ones(after, 1)]).double()
    if optimizer == "RMSprop":
        torchs = steps_along(RMSprop, signs * size, lr=1.0, alpha=rho, eps=0.0)
        steps = torch.cat([torchs, rmsprop_reference(signs * size, 1.0, rho, 0.0)], dim=1)
    else:
        steps = steps_along(Adagrad, signs * size, lr=1.0, eps=0.0)
    rate = -(steps / (signs * size))[before:]  # it is η / √v
    k = torch.arange(1, after + 1, dtype=rate.dtype)
    exact = 1 / (1 + (fall**2 - 1) * rho**k).sqrt()
    return every({
        "recovered": at_least(
            rate[-1], 0.95, why="ρ to the power of 12 / (1 - ρ) is below 7e-6, times 10^4 at most"
        ),
        "formula": equal(
            rate, exact[:, None].expand_as(rate), tol=1e-10,
            why="rounding; before, 40 / (1 - ρ) steps",
        ),
    }).drawn(
        Series(optimizer, k, rate[:, 0]), Series("formula", k, exact, "predicted"),
        x="steps k since the gradient fell", y="effective learning rate, in units of lr", log="y",
    )
