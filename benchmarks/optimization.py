"""Races of the optimization chapter: steps along given gradients."""

import functools
import itertools
import os
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from benchmarks._steps import (
    BETA,
    LR,
    PARAMETERS,
    PRICE,
    ROUNDING,
    STEPS,
    given,
    network,
    shrink,
    steps,
)
from principia.lab.racing import race, within
from principia.networks import MLP
from principia.optimization import (
    Adam,
    EMAMomentum,
    HeavyBall,
    Muon,
    Nesterov,
    Newton,
    NoisyGD,
    PreconditionedGD,
    WeightAverage,
    exponential,
)
from principia.regression import ProximalSGD

FUSED = (
    "Its fused kernel passes over every tensor once; ours is a chain of foreach operations that "
    "show the formula, each with a pass of its own."
)
ISA = "ONEDNN_MAX_CPU_ISA"  # instructions that products in bfloat16 may use


class WrittenOut(torch.optim.Optimizer):
    """Steps by a function, in the shortest class that schedules and hooks can use as they use ours.

    The function gets the parameters, their gradients, and what else the race hands to all sides.
    """

    def __init__(self, params, move, *more):
        super().__init__(params, {"lr": LR})
        self.move, self.more = move, more

    @torch.no_grad()
    def step(self):
        """Move the parameters."""
        params = self.param_groups[0]["params"]
        self.move(params, [p.grad for p in params], *self.more)


@race(parameters=PARAMETERS, agree=ROUNDING)
def heavy_ball(parameters):
    """Take 20 steps with momentum along given gradients."""
    return network(parameters)


heavy_ball.ours(steps(lambda params: HeavyBall(params, lr=LR, beta=BETA)))
heavy_ball.peer("torch.optim.SGD", package="torch", slower=FUSED)(
    steps(lambda params: torch.optim.SGD(params, LR, BETA, fused=True))
)


@heavy_ball.peer(
    "pytorch_optimizer.SGDW", package="pytorch_optimizer",
    slower="It changes a velocity in place; ours remembers the last point, which stays exact while "
    "lr changes, and makes a new copy of it at every step.",
)
@steps
def _(params):
    from pytorch_optimizer import SGDW

    return SGDW(params, LR, BETA)


@race(parameters=PARAMETERS, agree=ROUNDING)
def ema_momentum(parameters):
    """Take 20 steps along the corrected moving average of given gradients."""
    return network(parameters)


def corrected(optimizer, t):
    """Give a sum of discounted gradients the rate that makes it their mean."""
    optimizer.param_groups[0]["lr"] = LR * (1 - BETA) / (1 - BETA**t)


def corrected_mean(optimizer, t):
    """Correct the rate for a mean that started at 0."""
    optimizer.param_groups[0]["lr"] = LR / (1 - BETA**t)


ema_momentum.ours(steps(lambda params: EMAMomentum(params, lr=LR, alpha=BETA)))
ema_momentum.peer("torch.optim.SGD", package="torch", slower=FUSED)(
    steps(lambda params: torch.optim.SGD(params, LR, BETA, fused=True), before=corrected)
)


def _quasi_hyperbolic(params):
    from pytorch_optimizer import QHM

    return QHM(params, LR, BETA, nu=1.0, foreach=True)  # its foreach is off unless told


ema_momentum.peer(
    "pytorch_optimizer.QHM", package="pytorch_optimizer",
    slower="With few parameters calls are most of the time, and ours also counts its steps, lets "
    "the weight of the past rise, and corrects the mean itself.",
)(steps(_quasi_hyperbolic, before=corrected_mean))


@race(parameters=PARAMETERS, agree=ROUNDING)
def nesterov(parameters):
    """Take 20 steps with Nesterov's momentum along given gradients."""
    return network(parameters)


nesterov.ours(steps(lambda params: Nesterov(params, lr=LR, beta=BETA)))
nesterov.peer("torch.optim.SGD", package="torch", slower=FUSED)(
    steps(lambda params: torch.optim.SGD(params, LR, BETA, nesterov=True, fused=True))
)


@nesterov.peer("pytorch_optimizer.SGDW", package="pytorch_optimizer")
@steps
def _(params):
    from pytorch_optimizer import SGDW

    return SGDW(params, LR, BETA, nesterov=True)


@race(parameters=PARAMETERS, agree=ROUNDING)
def adam(parameters):
    """Take 20 steps of Adam along given gradients."""
    return network(parameters)


adam.ours(steps(lambda params: Adam(params, lr=LR)))
adam.peer(
    "torch.optim.Adam", package="torch",
    slower="Its fused kernel passes over every tensor once; ours shows the formula in six foreach "
    "operations, each with a pass of its own.",
)(
    steps(lambda params: torch.optim.Adam(params, lr=LR, fused=True))
)


@race(parameters=(10_000, 30_000, 100_000),  # bfloat16 is slow where the processor lacks it
      agree=within(0.02, why="the peers' iterations run in bfloat16, with 8 bits"))
def muon(parameters):
    """Take 3 steps of Muon along given gradients of matrices."""
    if ISA not in os.environ:  # a virtual machine may name AMX and forbid it; peers are fresh
        product = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x"
        failed = subprocess.run([sys.executable, "-c", product], capture_output=True).returncode
        os.environ[ISA] = "AVX512_CORE_BF16" if failed else "DEFAULT"
    return network(parameters, bias=False)


muon.ours(steps(lambda params: Muon(params, nesterov=True, scale="torch"), count=3))
muon.peer("torch.optim.Muon", package="torch", fresh=True)(
    steps(lambda params: torch.optim.Muon(params, lr=0.02, weight_decay=0.0), count=3)
)


def _muon(params):
    from pytorch_optimizer import Muon

    return Muon([{"params": params, "use_muon": True}], lr=0.02)


muon.peer("pytorch_optimizer.Muon", package="pytorch_optimizer", fresh=True)(steps(_muon, count=3))


def orthogonal_steps(params, gradients, momenta):
    """Step as the author of Muon does, in float32 in place of bfloat16."""
    for p, gradient, momentum in zip(params, gradients, momenta, strict=True):
        momentum.lerp_(gradient, 0.05)
        X, tall = gradient.lerp(momentum, 0.95), len(p) > p.shape[1]
        X = X.mT if tall else X
        X = X / X.norm().clamp(min=1e-7)
        for _ in range(5):
            gram = X @ X.mT
            factor = torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)
            X = torch.addmm(X, factor, X, beta=3.4445)
        p.add_(X.mT if tall else X, alpha=-0.02 * max(1, len(p) / p.shape[1]) ** 0.5)


@muon.peer(
    "torch, written out in float32", package="torch",
    slower="Ours divides by the largest entry first, so that no square overflows, and has the "
    "groups and checks of an optimizer.",
)
@functools.partial(steps, count=3)
def _(params):
    return WrittenOut(params, orthogonal_steps, [torch.zeros_like(p) for p in params])


@race(parameters=PARAMETERS, agree=ROUNDING)
def noisy_gd(parameters):
    """Take 20 steps of gradient descent with Gaussian noise along given gradients."""
    return network(parameters)


def add_noise(params, gradients):
    """Step against the gradients, then anywhere."""
    torch._foreach_add_(params, gradients, alpha=-LR)
    for p in params:
        p.add_(torch.randn(p.shape, generator=noise), alpha=0.01)


noise = torch.Generator()
noisy_gd.ours(steps(lambda params: NoisyGD(params, lr=LR, rng=noise.manual_seed(1))))
noisy_gd.peer(
    "torch, written out with foreach", package="torch",
    slower="Ours has groups, checks its settings when it is made, and counts its steps.",
)(
    steps(lambda params: noise.manual_seed(1) and WrittenOut(params, add_noise))
)


@race(parameters=PARAMETERS, agree=within(1e-4, why="float32, a factor of condition 10"))
def preconditioned_gd(parameters):
    """Take 20 steps against gradients that are divided by a matrix (100, 100)."""
    rng = torch.Generator().manual_seed(0)
    A = torch.randn(300, 100, generator=rng).double()
    rows = parameters // 100 * torch.tensor([0.5, 0.4, 0.1])
    params = [torch.nn.Parameter(torch.randn(int(n), 100, generator=rng)) for n in rows]
    gradients = [[torch.randn(p.shape, generator=rng) for p in params] for _ in "1234"]
    return *given(params, gradients), torch.linalg.cholesky(A.mT @ A / 300).float()


def solve(params, gradients, factor):
    """Solve for all rows of all gradients at once."""
    found = torch.cholesky_solve(torch.cat(gradients).mT, factor).mT
    torch._foreach_add_(params, found.split([len(p) for p in params]), alpha=-LR)


preconditioned_gd.ours(
    steps(lambda params, factor: PreconditionedGD(params, lr=LR, preconditioner=factor))
)
preconditioned_gd.peer(
    "torch, written out with cholesky_solve", package="torch",
    slower="Ours checks that the factor is one when it is made, and keeps a copy of it.",
)(
    steps(lambda params, factor: WrittenOut(params, solve, factor))
)


@race(parameters=(20, 100, 300), agree=within(1e-8, why="systems of condition < 1e4, float64"))
def newton(parameters):
    """Take 4 steps of Newton's method on the logistic risk of 1,000 rows."""
    rng = torch.Generator().manual_seed(0)
    X = torch.randn(1000, parameters, generator=rng, dtype=torch.float64)
    y = (X[:, :5].sum(dim=1) + torch.randn(1000, generator=rng, dtype=torch.float64) > 0).double()
    return X, y


def risk(w, X, y):
    """Average the logistic loss, with a little weight decay."""
    return F.binary_cross_entropy_with_logits(X @ w, y) + 0.01 * w @ w


@newton.ours
def _(X, y):
    w = torch.nn.Parameter(torch.zeros_like(X[0]))
    optimizer = Newton([w])

    def closure():
        optimizer.zero_grad()
        loss = risk(w, X, y)
        loss.backward()
        return loss

    for _ in range(4):
        optimizer.step(closure)
    return w.detach()


@newton.peer(
    "torch.func.hessian and torch.linalg.solve", package="torch",
    slower="With many parameters most of both are products with the Hessian: theirs go forward "
    "over reverse, which needs the function; ours, of a closure, can only go back twice.",
)
def _(X, y):
    w = torch.zeros_like(X[0])
    for _ in range(4):
        slope, curvature = torch.func.grad(risk)(w, X, y), torch.func.hessian(risk)(w, X, y)
        w = w - torch.linalg.solve(curvature, slope)
    return w


@race(parameters=PARAMETERS, agree=ROUNDING)
def exponential_average(parameters):
    """Average the weights of a network at 20 points, older ones less."""
    width = round((parameters / 2) ** 0.5) - 3
    model = MLP([width, width, width, 10], rng=torch.Generator().manual_seed(0))
    return model, [[torch.randn_like(p) for p in model.parameters()] for _ in "1234"]


def averages(make):
    """Build the side that averages with what `make` makes of the model."""

    def run(model, points):
        average, params = make(model), list(model.parameters())
        for point in itertools.islice(itertools.cycle(points), STEPS):
            with torch.no_grad():
                torch._foreach_copy_(params, point)
            average.update_parameters(model)
        return torch.cat([p.detach().flatten() for p in average.module.parameters()])

    return run


exponential_average.ours(averages(lambda model: WeightAverage(model, exponential(1 - BETA))))
exponential_average.peer("torch.optim.swa_utils.AveragedModel", package="torch")(
    averages(lambda model: AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(BETA)))
)


@race(parameters=PARAMETERS, agree=ROUNDING)
def proximal_sgd(parameters):
    """Take 20 steps of gradient descent with soft thresholds along given gradients."""
    return network(parameters)


proximal_sgd.ours(steps(lambda params: ProximalSGD(params, lr=LR, l1=PRICE)))
proximal_sgd.peer("torch.optim.SGD, then softshrink", package="torch")(
    steps(lambda params: torch.optim.SGD(params, LR, fused=True), after=shrink)
)
