r"""Gradient descent: step against the gradient, and know how far.

The gradient is normal to the level set, and minus the gradient is the direction in which a function
falls the fastest; how far it may be trusted, curvature decides. If no curvature exceeds $L$, a step
of $1/L$ is sure to gain $\Vert\nabla h\Vert^2/2L$, and one of $2/L$ may gain nothing for ever. All
rates follow from this one inequality: without convexity the gradient gets short; with convexity the
gap falls like $1/t$, which is sublinear; under the PL condition by a constant factor a step, convex
or not. What it costs is the condition number $\kappa=L/\mu$. To second order the change of the loss
is known before the step is taken: where the curvature along the gradient eats up the gain, the step
is too long.

$$ \theta^{t+1} = \theta^t-\eta\nabla h(\theta^t) = \theta^t+\operatorname{argmin}_s\Big(
s^\top\nabla h(\theta^t)+\frac\lambda2\Vert s\Vert^2\Big), \quad \eta = \frac1\lambda $$

$$ h(\theta^{t+1})-h(\theta^t) \le -\eta\Big(1-\frac{L\eta}2\Big)\Vert\nabla h(\theta^t)\Vert^2,
\quad h(\theta^{t+1})-h(\theta^t) = -\eta\Vert g\Vert^2+\frac{\eta^2}2g^\top Hg+O(\eta^3) $$

$$ h(\theta^t)-h^* \le \Big(1-\frac\mu L\Big)^t\big(h(\theta^0)-h^*\big), \quad
h(\theta^t)-h^* \le \frac{2L}{t+1}\Vert\theta^0-\theta^*\Vert^2, \quad
\min_{k<t}\Vert\nabla h(\theta^k)\Vert^2 \le \frac{2L}t\big(h(\theta^0)-h^*\big) $$

Symbols:
    $h, \theta$: function and point, a `Problem` and its `theta`; `descend` records $\theta^t$
    $h^*, \theta^*$: the smallest value and where it is, `minimum` and `minimizer`
    $\eta$: step size, `lr` of `torch.optim.SGD`; the best fixed one is `best_fixed_lr`
    $L, \mu$: largest curvature and PL constant, `smoothness` and `pl`; $\kappa=L/\mu$
    $g, H$: gradient and Hessian at $\theta^t$; the change is `taylor_prediction`
    $\lambda$: price of a long step $s$, `lam` of `proximal_step`
    $t$: number of steps; `critical_budget` of them make the gradient short

References:
    Cauchy (1847), Méthode générale pour la résolution des systèmes d'équations simultanées.
        Comptes Rendus de l'Académie des Sciences 25.
    Polyak (1963), Gradient methods for the minimisation of functionals. USSR Computational
        Mathematics and Mathematical Physics 3(4). doi:10.1016/0041-5553(63)90382-3
    LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document
        recognition. Proceedings of the IEEE 86(11). doi:10.1109/5.726791
    Karimi, Nutini and Schmidt (2016), Linear convergence of gradient and proximal-gradient methods
        under the Polyak-Łojasiewicz condition. ECML PKDD. arXiv:1608.04636
    Nesterov (2018), Lectures on convex optimization. Springer. doi:10.1007/978-3-319-91578-4
"""

__all__ = [
    "descend", "Trace", "proximal_step", "taylor_prediction", "PredictedChange", "critical_budget",
    "best_fixed_lr",
]

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from principia.gradients.modes import hvp
from principia.lab.params import NonNegativeFloat, PositiveFloat, PositiveInt, checked, usage_error
from principia.lab.training import Callback, Objective
from principia.lab.training.generators import generator_state, set_generator_state
from principia.optimization.problems import Problem

Recorded = Literal["value", "theta", "gradient_norm"]


@final
@dataclass(frozen=True, eq=False)
class Trace:
    """Holds what was seen on the way down, at every step that was looked at.

    Attributes:
        step: The steps (T,); 0 is the start.
        recorded: "value" (T, B), "theta" (T, B, D) and "gradient_norm" (T, B), if asked for.

    Example:
        >>> trace = Trace(torch.arange(2), {"value": torch.tensor([[4.0], [1.0]])})
        >>> trace["value"].flatten()
        tensor([4., 1.])
    """

    step: Int[Tensor, " T"]
    recorded: Mapping[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        """Give one of the recorded tensors."""
        if name not in self.recorded:
            domain = " or ".join(self.recorded)
            raise usage_error("Trace", "name", domain, name, f'Pass record=("{name}",) to descend.')
        return self.recorded[name]


@checked
def descend(
    problem: Problem, optimizer: Optimizer, steps: PositiveInt, *,
    schedule: LRScheduler | None = None,
    record: Sequence[Recorded] = ("value",), at: Sequence[int] | Int[Tensor, " T"] | None = None,
    iterate: Callable[[], Float[Tensor, "B D"]] | None = None,
    after: Callable[[], None] | None = None,
) -> Trace:
    """Runs an optimizer on a test problem, all rows at once: the only loop over time.

    Args:
        problem: What is minimized; `problem.theta` holds the last points afterwards.
        optimizer: Any optimizer of `problem.parameters()`.
        steps: How many steps.
        schedule: Moves the learning rate after every step.
        record: What is recorded: "value", "theta", "gradient_norm" (of the gradient that the
            optimizer gets, with its noise).
        at: The steps that are recorded; by default all from 0 to `steps`.
        iterate: Gives the points whose value is recorded, for methods whose gradients are taken
            elsewhere; by default `problem.theta`.
        after: Called after every step, without gradients: a projection, an average, a test.

    Example:
        >>> from principia.optimization import Quadratic
        >>> bowl = Quadratic([1.0])
        >>> descend(bowl, torch.optim.SGD(bowl.parameters(), lr=0.5), 2)["value"].flatten()
        tensor([0.5000, 0.1250, 0.0312], dtype=torch.float64)
    """
    for group in optimizer.param_groups:
        if not 0 < group["lr"] < math.inf:
            raise usage_error("descend", "lr", "in (0, inf)", group["lr"])
    if not problem().detach().isfinite().all():
        raise usage_error("descend", "problem", "finite at the start", problem().detach())
    chosen = range(steps + 1) if at is None else sorted({int(t) for t in at})
    if not chosen or chosen[0] < 0 or chosen[-1] > steps:
        raise usage_error("descend", "at", f"one or more steps in [0, {steps}]", list(chosen))
    wanted, kept = set(chosen), {name: [] for name in record}
    upcoming = 0  # the first gradient of a step is taken where the last one ended

    def evaluate() -> Tensor:
        nonlocal upcoming
        with torch.enable_grad():
            problem.theta.grad = None  # zero_grad takes longer than the step
            values = problem()
            values.sum().backward()
        if upcoming in wanted:
            look(values.detach())
            wanted.discard(upcoming)
        return values.detach().sum()

    def look(values: Tensor) -> None:
        point = problem.theta.detach() if iterate is None else iterate().detach()
        seen = {
            "value": lambda: values if iterate is None else problem.value(point),
            "theta": point.clone,
            "gradient_norm": lambda: cast("Tensor", problem.theta.grad).norm(dim=-1),
        }
        for name, found in kept.items():
            found.append(seen[name]())

    for upcoming in range(steps):  # noqa: B007 (evaluate looks at it)
        optimizer.step(evaluate)  # type: ignore[arg-type]
        if schedule is not None:
            schedule.step()
        if after is not None:
            with torch.no_grad():
                after()
    upcoming = steps
    evaluate()
    recorded = {name: torch.stack(found) for name, found in kept.items()}
    return Trace(torch.tensor(list(chosen)), recorded)


@checked
def proximal_step(grad: Float[Tensor, "*B D"], lam: PositiveFloat) -> Float[Tensor, "*B D"]:
    r"""Gives $\arg\min_s\,s^\top\nabla h+\frac\lambda2\Vert s\Vert^2=-\nabla h/\lambda$.

    Example:
        >>> proximal_step(torch.tensor([2.0, -4.0]), 2.0)
        tensor([-1.,  2.])
    """
    return -grad / lam


@checked
def taylor_prediction(
    problem: Problem, lr: PositiveFloat
) -> tuple[Float[Tensor, " B"], Bool[Tensor, " B"]]:
    r"""Predicts the change of the value by a step, and tells whether the step is too long.

    The change is $-\eta\Vert g\Vert^2+\frac{\eta^2}2g^\top Hg$; the step is too long for the
    curvature along it where $\frac\eta2g^\top Hg\ge\Vert g\Vert^2$. The Hessian is never formed.

    Args:
        problem: Where the step starts: one in every row of `problem.theta`.
        lr: Step size.

    Example:
        >>> from principia.optimization import Quadratic
        >>> taylor_prediction(Quadratic([1.0, 10.0]).at(torch.eye(2)), 0.25)
        (tensor([-0.2188,  6.2500], dtype=torch.float64), tensor([False,  True]))
    """
    theta = problem.theta.detach()
    g = problem.gradient(theta)
    Hg = hvp(lambda at: problem.value(at).sum(), theta, g)  # rows do not see each other
    fall, bend = (g * g).sum(dim=-1), lr / 2 * (g * Hg).sum(dim=-1)
    return lr * (bend - fall), bend >= fall


@final
class PredictedChange(Callback):
    r"""Logs the predicted change of the loss beside the actual one, while a network trains.

    Predicted is $g^\top s+\frac12s^\top Hs$ for the step $s$ that the optimizer took, whichever it
    is; without momentum and the like that is `taylor_prediction`. Every epoch gets the means of
    both and the share of steps that were too long: the prediction was no decrease. Watching does
    not change the training. Let it be the last of the parts, so that it sees the final batch.

    Args:
        objective: The objective that is trained.
        every: Steps from one look to the next; a look costs about three steps.

    Example:
        >>> from principia.lab.training import Supervised, fit
        >>> model, x = nn.Linear(1, 1, bias=False), torch.ones(4, 1)
        >>> objective = Supervised(nn.functional.mse_loss)
        >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> part = PredictedChange(objective)
        >>> row = fit(model, (x, 3 * x), objective, sgd, steps=1, callbacks=[part]).history[0]
        >>> abs(row["predicted_change"] - row["actual_change"]) < 1e-5  # the loss is a parabola
        True
    """

    @checked
    def __init__(self, objective: Objective, *, every: PositiveInt = 1) -> None:
        self.objective, self.every = objective, every
        self._step, self._seen = 0, []
        self._batch: tuple[Tensor, ...] = ()
        self._weights: list[Tensor] = []

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        """Forget an earlier training."""
        self._step, self._seen, self._batch = 0, [], ()

    def prepare(self, batch: tuple[Tensor, ...], rng: torch.Generator) -> tuple[Tensor, ...]:
        """Keep the batch and the state of all generators, if it is time to look."""
        if self._step % self.every == 0:
            self._batch, self._rng = batch, rng.get_state()
            self._generators = generator_state(batch[0].device)
        return batch

    def before_step(self, model: nn.Module) -> None:
        """Keep the weights; a search asks for several gradients, the first is where it starts."""
        if self._batch and not self._weights:
            self._weights = [one.detach().clone() for one in model.parameters()]

    def after_step(self, model: nn.Module) -> None:
        """Compare the losses before and after the step, and what the derivatives promised."""
        self._step += 1
        if not self._batch:
            return
        now = generator_state(self._batch[0].device)
        buffers = [buffer.clone() for buffer in model.buffers()]
        params, old = list(model.parameters()), self._weights
        with torch.no_grad():
            after = float(self._loss(model))
        step = [new.detach() - one for new, one in zip(params, old, strict=True)]
        _exchange(params, old)
        loss = self._loss(model)
        change = _along(loss, params, step)
        curvature = _along(change, params, step)
        _exchange(params, old)
        predicted = change.item() + curvature.item() / 2
        self._seen.append([predicted, after - loss.item(), float(predicted >= 0)])
        for one, value in zip(model.buffers(), buffers, strict=True):
            one.copy_(value)
        set_generator_state(self._batch[0].device, now)
        self._batch, self._weights = (), []

    def after_epoch(self, model: nn.Module, row: dict[str, float]) -> str:
        """Add the means of the epoch to its numbers, if there was a look."""
        if self._seen:
            means = torch.tensor(self._seen, dtype=torch.float64).mean(dim=0).tolist()
            row |= dict(zip(("predicted_change", "actual_change", "long_steps"), means))  # noqa: B905
        self._seen = []
        return ""

    def state_dict(self) -> dict[str, Any]:
        """Give the count of steps and what was seen in this epoch."""
        return {"step": self._step, "seen": self._seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back the count and what was seen."""
        self._step, self._seen = state["step"], [list(one) for one in state["seen"]]

    def _loss(self, model: nn.Module) -> Tensor:
        """Compute the loss of the batch with the random numbers of the step."""
        set_generator_state(self._batch[0].device, self._generators)
        rng = torch.Generator()
        rng.set_state(self._rng)
        return self.objective(model, self._batch, rng)


def _exchange(params: Sequence[Tensor], others: Sequence[Tensor]) -> None:
    """Let parameters and other tensors change places, without copying them."""
    for one, other in zip(params, others, strict=True):
        one.data, other.data = other.data, one.data


def _along(value: Tensor, params: Sequence[Tensor], step: Sequence[Tensor]) -> Tensor:
    """Differentiate a value along a step; it is 0 where nothing depends on the parameters."""
    if not value.requires_grad:
        return torch.zeros_like(value)
    found = torch.autograd.grad(
        value, params, create_graph=True, materialize_grads=True  # type: ignore[arg-type]
    )
    return torch.stack([(g * s).sum() for g, s in zip(found, step, strict=True)]).sum()


@checked
def critical_budget(gap: NonNegativeFloat, L: PositiveFloat, tol: PositiveFloat) -> int:
    r"""Counts the steps that meet a gradient below `tol`: $\lceil2L\,gap/tol^2\rceil$.

    Args:
        gap: $h(\theta^0)-\min h$.
        L: Smoothness; the step is 1/L.
        tol: Length of the gradient that is short enough.

    Example:
        >>> critical_budget(0.5, 8.0, 0.1)
        800
    """
    return math.ceil(2 * L * gap / tol**2)


@checked
def best_fixed_lr(L: PositiveFloat, mu: PositiveFloat) -> float:
    r"""Gives the step $2/(L+\mu)$, which shrinks every quadratic with this spectrum the fastest.

    Example:
        >>> best_fixed_lr(9.0, 1.0)
        0.2
    """
    if mu > L:
        hint = "It is the smallest curvature, L the largest."
        raise usage_error("best_fixed_lr", "mu", f"at most L = {L:g}", mu, hint)
    return 2 / (L + mu)
