r"""RMSprop: every coordinate is divided by the size that its gradients lately had.

Adagrad's sum of squares never forgets, so that its steps only shrink. RMSprop takes an average that
forgets: with a weight $1-\rho$ for what is new, the root of the average is the size of the gradient
itself, steps are about as long as the learning rate, and they recover when gradients shrink. The
weight matters: without it the sum is $\frac1{1-\rho}$ times as large, and called an average it is
wrong. Multiplying the loss by a constant changes nothing. It is Adam without momentum and without
the correction of the start at 0. `torch.optim.RMSprop` is it, with $\varepsilon$ beside the root.

$$ v^t = \rho v^{t-1}+(1-\rho)(g^t)^2 = (1-\rho)\sum_{s\le t}\rho^{t-s}(g^s)^2, \quad
\theta^t = \theta^{t-1}-\eta\frac{g^t}{\sqrt{v^t}+\varepsilon} $$

$$ \frac\eta{\sqrt{v^{t+k}}} = \frac\eta{\sqrt{1+(c^2-1)\rho^k}} \quad
\text{after the gradient falls from } c \text{ to } 1 $$

Symbols:
    $g^t$: gradient at $\theta^{t-1}$; squares and roots are taken in each coordinate
    $v$: average of squared gradients, `square_avg` in the state of torch's optimizer
    $\rho, \eta, \varepsilon$: `rho` (torch says `alpha`), `lr`, `eps`

References:
    Tieleman and Hinton (2012), Lecture 6.5: RMSprop. Coursera, Neural Networks for Machine
        Learning.
    Graves (2013), Generating sequences with recurrent neural networks. arXiv:1308.0850
    Kingma and Ba (2015), Adam: a method for stochastic optimization. International Conference on
        Learning Representations. arXiv:1412.6980
"""

__all__ = ["rmsprop_reference"]

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Adagrad, Optimizer, RMSprop

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import NonNegative, Positive, Range
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.optimizers import steps_along
from principia.lab.relations import at_least, equal, every, tends_to
from principia.lab.seeds import Seed
from principia.lab.training import Part, Supervised, accuracy, fit
from principia.networks.mlp import MLP
from principia.optimization.adagrad import effective_lr
from principia.optimization.adam import Adam
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Quadratic, noisy_logistic

Rho = Annotated[float, Range(0.5, 0.95)]
Dim = Annotated[int, Range(1, 50)]
FORGOTTEN = 12  # so many times 1 / (1 - rho) steps, and what was before weighs e^-12


@checked
def rmsprop_reference(
    gradients: Float[Tensor, " T *shape"], lr: Positive = 0.01,
    rho: Annotated[float, Range(0, 1, open="high")] = 0.99, eps: NonNegative = 1e-8, *,
    eps_inside: bool = False,
) -> Float[Tensor, " T *shape"]:
    r"""Gives the steps of RMSprop along given gradients, as the formula has them.

    Args:
        gradients: One a row.
        lr: $\eta$.
        rho: Weight of the past.
        eps: $\varepsilon$.
        eps_inside: Whether it stands under the root, $\sqrt{v+\varepsilon}$, as in some texts.

    Example:
        >>> rmsprop_reference(torch.tensor([3.0, 3.0]), lr=0.1, rho=0.75, eps=0.0)
        tensor([-0.2000, -0.1512])
    """
    v, steps = torch.zeros_like(gradients[0]), []
    for g in gradients:
        v = rho * v + (1 - rho) * g**2
        steps.append(-lr * g / ((v + eps).sqrt() if eps_inside else v.sqrt() + eps))
    return torch.stack(steps)


@claim(control={"eps_inside": True}, source="Tieleman and Hinton 2012; Graves 2013, eq. 40")
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
    return equal(moved, formula, tol=1e-13, why="rounding of one step at a time").drawn(
        Series("torch.optim.RMSprop", range(1, 101), moved[:, 0]),
        Series("formula", range(1, 101), formula[:, 0], "predicted"),
        x="step t", y="step of the first coordinate",
    )


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
    steps = steps_along(RMSprop, g, lr=lr, alpha=rho, eps=0.0)[:, 0].abs() / lr
    t = torch.arange(1, count + 1, dtype=g.dtype)
    if form == "printed":
        steps = math.sqrt(1 - rho) * steps
    exact = 1 / (1 - rho**t).sqrt()
    return every({
        "limit": tends_to(
            t, steps, 1.0, tol=1e-6, why="ρ to the power of 30 / (1 - ρ) is below 1e-12",
            labels=("step t", "step, in units of lr"),
        ),
        "the way there": equal(steps, exact, tol=1e-9, why="rounding of a geometric sum"),
    }).drawn(
        Series("torch.optim.RMSprop" if form == "correct" else "with the sum", t, steps),
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
    return equal(scaled, plain, tol=1e-10, why="rounding of 200 steps").drawn(
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
    return equal(adam, ours, tol=1e-13, why="rounding of one step at a time").drawn(
        Series("Adam", range(1, 41), adam[:40, 0].abs()),
        Series("RMSprop", range(1, 41), ours[:40, 0].abs(), "predicted"),
        x="step t", y="length of the step, first coordinate",
    )


@claim(control={"optimizer": "Adagrad"}, source="by construction")
def forgets_old_gradients(
    seed: Seed, *, rho: Rho = 0.9, fall: Annotated[float, Range(2, 100)] = 100.0,
    optimizer: Literal["RMSprop", "Adagrad"] = "RMSprop",
) -> Evidence:
    r"""After the gradient falls from $c$ to 1 the rate is $\eta/\sqrt{1+(c^2-1)\rho^k}$."""
    before, after = math.ceil(40 / (1 - rho)), math.ceil(FORGOTTEN / (1 - rho))
    signs = torch.randint(0, 2, (before + after, 1), generator=seed.torch()) * 2.0 - 1
    size = torch.cat([torch.full((before, 1), fall), torch.ones(after, 1)]).double()
    if optimizer == "RMSprop":
        steps = steps_along(RMSprop, signs * size, lr=1.0, alpha=rho, eps=0.0)
    else:
        steps = steps_along(Adagrad, signs * size, lr=1.0, eps=0.0)
    rate = (steps / size).abs()[before:, 0]  # with the right sign it is η / √v
    k = torch.arange(1, after + 1, dtype=rate.dtype)
    exact = 1 / (1 + (fall**2 - 1) * rho**k).sqrt()
    return every({
        "recovered": at_least(
            rate[-1], 0.95, why="ρ to the power of 12 / (1 - ρ) is below 7e-6, times 10^4 at most"
        ),
        "formula": equal(rate, exact, tol=1e-10, why="rounding; before, 40 / (1 - ρ) steps"),
    }).drawn(
        Series(optimizer, k, rate), Series("formula", k, exact, "predicted"),
        x="steps k since the gradient fell", y="effective learning rate, in units of lr", log="y",
    )


@experiment(
    reaches={"lost_by_rmsprop": at_most_goal(0.005), "adagrad_deficit": at_least_goal(0.0)},
    floor={"rmsprop_accuracy": at_least_goal(0.9)},
    source="Tieleman and Hinton (2012): the average forgets, so that a change of scale is soon "
    "over; to compare with are the same network without the change, and Adagrad",
)
def changing_scale(
    run: Run, *, factor: Annotated[float, Range(1, 1e4)] = 100.0,
    batch_size: Annotated[int, Range(16, 512)] = 64,
) -> None:
    """Trains a network whose loss is multiplied by a large factor during the first epoch."""
    x, y, x_test, y_test = handwriting(run)
    x, x_test, epochs = x.flatten(1), x_test.flatten(1), 4 if run.full else 12
    kinds: dict[str, Any] = {
        "rmsprop": lambda p: RMSprop(p, lr=1e-3, alpha=0.9),
        "adagrad": lambda p: Adagrad(p, lr=1e-2),
    }
    found, watched = {}, {}
    for name, kind in kinds.items():
        for scale in (factor, 1.0):
            label = f"{name}-{scale:g}"
            model = MLP([x.shape[1], 128, 10], rng=run.seed.child("init").torch())
            louder, watch = _Louder(scale, math.ceil(len(x) / batch_size)), _Rates()
            trained = fit(
                model, (x, y), Supervised(F.cross_entropy), kind(model.parameters()),
                epochs=epochs, batch_size=batch_size, parts=[louder, watch],
                seed=run.seed.child("order"), validation=(x_test, y_test),
                metrics={"accuracy": accuracy}, run=run, name=label,
            )
            found[name, scale] = trained.history[-1]["validation_accuracy"]
            watched[label] = watch.state_dict()["rates"]
            if (name, scale) == ("rmsprop", factor):
                run.keep(model)
    lost = {name: found[name, 1.0] - found[name, factor] for name in kinds}
    run.record(
        rmsprop_accuracy=found["rmsprop", factor], adagrad_accuracy=found["adagrad", factor],
        rmsprop_unperturbed=found["rmsprop", 1.0], adagrad_unperturbed=found["adagrad", 1.0],
        lost_by_rmsprop=lost["rmsprop"], lost_by_adagrad=lost["adagrad"],
        adagrad_deficit=found["rmsprop", factor] - found["adagrad", factor],
    )
    run.figure("effective_rates", figures.draw(Picture(tuple(
        Series(label, range(1, len(rates) + 1), rates, "other") for label, rates in watched.items()
    ), "step", "median effective learning rate, η/(√v + ε)", "xy")))


@final
class _Louder(Part):
    """Multiplies the gradients of the first steps, as a factor of the loss would."""

    def __init__(self, factor: float, steps: int) -> None:
        self.factor, self.steps, self._taken = factor, steps, 0

    def before_step(self, model: nn.Module) -> None:
        if self._taken < self.steps:
            gradients = [p.grad for p in model.parameters() if p.grad is not None]
            torch._foreach_mul_(gradients, self.factor)
        self._taken += 1

    def state_dict(self) -> dict[str, Any]:
        return {"taken": self._taken}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._taken = state["taken"]


@final
class _Rates(Part):
    """Writes down the median effective learning rate of the last layer after every step."""

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        (self._optimizer,), self._rates = optimizers.values(), []

    def after_step(self, model: nn.Module) -> None:
        self._rates.append(float(effective_lr(self._optimizer)[2].median()))

    def state_dict(self) -> dict[str, Any]:
        return {"rates": self._rates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._rates = list(state["rates"])
