r"""Preconditioning: measure lengths by the curvature, and the steepest way is the short one.

Gradient descent is slow because one step size must do for all directions. Dividing the gradient by
a matrix $A$ is gradient descent in other coordinates, in which the curvature is that of $\nabla^2h$
relative to $A$: only the ends $a$ and $b$ of that relative spectrum count. Where $A$ lies above the
Hessian, $b=1$, every step below 2 converges, however small $a$ is. The best $A$ is the Hessian
itself: Newton's method, whose right digits double with every step near a minimum, and which any
other critical point attracts as well, so that it needs $\vert\nabla^2h\vert$ near saddles. For
least squares the Hessian is $E[xx^\top]$, and to whiten the inputs is to precondition by it. For
logistic regression it is the Fisher information, and Newton's step is the natural gradient.
Conjugate gradients find the step from products with vectors, where a Hessian would be too large.

$$ x^{t+1} = x^t-\eta A^{-1}\nabla h(x^t), \quad aA\preceq\nabla^2h\preceq bA $$

$$ \Vert x^{t+1}-x^*\Vert_A\le\max(\vert1-\eta a\vert, \vert1-\eta b\vert)\,\Vert x^t-x^*\Vert_A,
\quad \eta<\frac2b, \quad \eta_{best} = \frac2{a+b} $$

$$ A_{Newton} = \nabla^2h(x^t)+\lambda I, \quad
A_{saddle\text{-}free} = \vert\nabla^2h(x^t)\vert+\lambda I $$

$$ F = E_xE_{y\sim p(\cdot\mid x)}\big[\nabla\ln p(y\mid x)\,\nabla\ln p(y\mid x)^\top\big] $$

Symbols:
    $h, x$: function and point, a `Problem` and its `theta`
    $A$: preconditioner, by its Cholesky factor or a way to solve, of `PreconditionedGD`
    $a, b$: ends of the spectrum of $\nabla^2h$ relative to $A$, `relative_conditioning`
    $\eta$: step size, `lr`; of `Newton` it is 1
    $\lambda$: `damping`, added to every curvature
    $\vert\nabla^2h\vert$: the Hessian with its eigenvalues made positive, mode "saddle_free"
    $F$: `fisher_information` of a model $p(y\mid x)$; $F^{-1}\nabla h$ is `natural_gradient`

References:
    Hestenes and Stiefel (1952), Methods of conjugate gradients for solving linear systems. Journal
        of Research of the NBS 49(6). doi:10.6028/jres.049.044
    Amari (1998), Natural gradient works efficiently in learning. Neural Computation 10(2).
        doi:10.1162/089976698300017746
    LeCun, Bottou, Orr and Müller (1998), Efficient BackProp. Neural Networks: Tricks of the Trade.
        doi:10.1007/3-540-49430-8_2
    Nocedal and Wright (2006), Numerical optimization, ch. 3, 5 and 7. Springer.
        doi:10.1007/978-0-387-40065-5
    Dauphin, Pascanu, Gulcehre, Cho, Ganguli and Bengio (2014), Identifying and attacking the saddle
        point problem in high-dimensional non-convex optimization. NeurIPS. arXiv:1406.2572
    Martens (2020), New insights and perspectives on the natural gradient method. Journal of Machine
        Learning Research 21(146). arXiv:1412.1193
"""

__all__ = [
    "PreconditionedGD", "Newton", "relative_conditioning", "fisher_information", "natural_gradient",
]

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, cast, final

import numpy as np
import torch
from jaxtyping import Float, Shaped
from scipy.linalg import eigh
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap
from torch.nn import functional as F
from torch.optim import LBFGS, SGD, Optimizer
from torch.overrides import TorchFunctionMode

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.mnist import mnist
from principia.lab.domains import Count, Natural, NonNegative, Positive, Range
from principia.lab.draws import randn
from principia.lab.errors import UsageError, refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.optimizers import GroupOptimizer
from principia.lab.relations import at_most, equal, every, identical
from principia.lab.seeds import Seed
from principia.mathematics.taylor import newton
from principia.networks.linear_dynamics import Whitener
from principia.optimization.gradient_descent import best_fixed_lr, descend
from principia.optimization.nesterov import Nesterov
from principia.optimization.problems import LogisticRisk, Problem, Quadratic, Saddle
from principia.optimization.sgd import per_sample_gradients
from principia.regression.softmax import softmax_jacobian

Law = Literal["classes", "normal"]
Solve = Callable[[Tensor], Tensor]
RESIDUAL = 1e-10  # of the gradient, at which conjugate gradients have solved for the step
ROWS = 128  # of a Hessian that are computed at once
ARMIJO, HALVINGS = 1e-4, 40  # share of the promised decrease that a search wants; its tries
RACERS = ("descent", "nesterov", "lbfgs", "newton")
FLAT = 1e-8  # gradient norm at which a method of the experiment has arrived


@final
class PreconditionedGD(GroupOptimizer):
    r"""Steps against $A^{-1}\nabla h$: gradient descent in coordinates that suit the curvature.

    $A$ acts on the last axis of every parameter, so that rows of a test problem stay independent.
    No inverse is formed.

    Args:
        params: Parameters, or groups of them.
        lr: $\eta$; below 2 where $A$ lies above the Hessian.
        preconditioner: The Cholesky factor (D, D) of A, its diagonal (D,) if it has no more, or a
            function that solves $As=\nabla h$ for each parameter; without one $A=I$.

    Example:
        >>> x = nn.Parameter(torch.tensor([1.0, 1.0]))
        >>> x.grad = torch.tensor([1.0, 100.0])  # of a bowl with curvatures 1 and 100
        >>> PreconditionedGD([x], lr=1.0, preconditioner=torch.tensor([1.0, 100.0])).step()
        >>> x.tolist()
        [0.0, 0.0]
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: Positive = 0.1,
        preconditioner: Float[Tensor, "D D"] | Float[Tensor, " D"] | Solve | None = None,
    ) -> None:
        super().__init__(params, {"lr": lr})
        shapes = [p.shape for group in self.param_groups for p in group["params"]]
        self._solve = _solver(preconditioner, shapes)

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Subtract the solutions of the systems."""
        torch._foreach_add_(params, self._solve(gradients), alpha=-group["lr"])


def _solver(
    given: Tensor | Solve | None, shapes: list[torch.Size]
) -> Callable[[list[Tensor]], list[Tensor]]:
    """Give the way to divide gradients by a preconditioner; refuse one that is none."""
    if given is None:
        return lambda gradients: gradients
    if not isinstance(given, Tensor):
        return lambda gradients: [given(g) for g in gradients]
    name, A = "preconditioner", given.detach().clone()
    wrong = [tuple(shape) for shape in shapes if tuple(shape[-1:]) != (len(A),)]
    if wrong:
        domain = "of the size of the last axis of each parameter"
        raise refuse("PreconditionedGD", name, domain, f"{len(A)} for {wrong[0]}")
    if A.ndim == 2 and bool(A.triu(1).any()):
        hint = "Pass torch.linalg.cholesky(A)."
        raise refuse("PreconditionedGD", name, "a lower triangular factor", "a full matrix", hint)
    diagonal = A if A.ndim == 1 else A.diagonal()
    if not bool((diagonal > 0).all() & A.isfinite().all()):
        what = "eigenvalue" if A.ndim == 1 else "pivot"
        sentence = f"PreconditionedGD: {name} must be positive definite; got smallest {what}"
        raise UsageError(f"{sentence} {float(diagonal.min()):.3g}.")
    if A.ndim == 1:
        return lambda gradients: [g / A for g in gradients]

    def solve(gradients: list[Tensor]) -> list[Tensor]:
        rows = [g.reshape(-1, len(A)) for g in gradients]
        found = torch.cholesky_solve(torch.cat(rows).mT, A).mT.split([len(one) for one in rows])
        return [one.reshape(g.shape) for one, g in zip(found, gradients, strict=True)]

    return solve


@final
class Newton(Optimizer):
    r"""Steps to where the quadratic model of the loss has its critical point.

    All parameters of all groups are one vector: a test problem must have one row, one run a call.
    `step` needs a closure as L-BFGS does: clear the gradients, compute the loss, call
    `loss.backward()`, return the loss. While it runs, its `backward` keeps the graph, for products
    with the Hessian. Beyond `dense` parameters conjugate gradients solve for the step; they
    stop at a direction of negative curvature, so that their step never goes uphill.

    Args:
        params: Parameters, or groups of them, with their own `lr` and `damping`.
        lr: $\eta$, share of the step.
        damping: $\lambda$, added to every curvature; at a singular Hessian it must be positive.
        mode: "plain", or "saddle_free" with the eigenvalues of the Hessian made positive.
        search: Whether to halve the step until the decrease is worth it (Armijo's condition).
        dense: Up to so many parameters the Hessian is formed.
        inner: Conjugate-gradient steps at most.

    Example:
        >>> x = nn.Parameter(torch.tensor([3.0, -2.0]))
        >>> optimizer = Newton([x])
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (x * x * torch.tensor([2.0, 32.0])).sum()
        ...     loss.backward()
        ...     return loss
        >>> loss = optimizer.step(closure)
        >>> loss.item(), closure().item()
        (146.0, 0.0)
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: Positive = 1.0, damping: NonNegative = 0.0, *,
        mode: Literal["plain", "saddle_free"] = "plain", search: bool = False,
        dense: Natural = 2000, inner: Count = 250,
    ) -> None:
        super().__init__(params, {"lr": lr, "damping": damping})
        self._mode, self._search, self._dense, self._inner = mode, search, dense, inner

    @torch.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Move all parameters that the loss depends on, and give the loss before the step."""
        params = [p for group in self.param_groups for p in group["params"]]
        with torch.enable_grad(), _Recorder(params) as recorder:
            loss = closure()
        params = [p for p in params if p in recorder.slopes]
        products = _products([recorder.slopes[p] for p in params], params)
        lr, damping = (
            torch.cat([
                torch.full_like(p, group[name]).flatten() for group in self.param_groups
                for p in group["params"] if p in recorder.slopes
            ]) for name in ("lr", "damping")
        )
        g = torch.cat([cast("Tensor", p.grad).flatten() for p in params])
        move = -lr * self._direction(products, g, damping)
        self._walk(closure, loss, params, move, float(g @ move))
        return loss

    def _direction(self, products: Solve, g: Tensor, damping: Tensor) -> Tensor:
        """Divide the gradient by the damped Hessian."""
        if not bool(g.isfinite().all()):
            raise refuse("Newton", "gradient", "finite", g.tolist(), "Start elsewhere.")
        if len(g) > self._dense:
            if self._mode == "saddle_free":
                domain = f'"plain" for more than dense={self._dense} parameters'
                raise refuse("Newton", "mode", domain, self._mode, "Its eigenvectors are needed.")
            return _conjugate_gradients(lambda v: products(v) + damping * v, g, self._inner)
        eye = torch.eye(len(g)).to(g)
        H = torch.cat([products(rows) for rows in eye.split(ROWS)])
        H = (H + H.mT) / 2
        if self._mode == "saddle_free":
            values, vectors = torch.linalg.eigh(H)
            H = (vectors * values.abs()) @ vectors.mT
        return _solved("Newton", "Hessian", H + damping.diag(), g)

    def _walk(
        self, closure: Callable[[], Any], loss: Any, params: list[Tensor], move: Tensor,
        decline: float,
    ) -> None:
        """Go the whole step; with a search, the first of its halves that is worth it, or none."""
        starts, steps = [p.clone() for p in params], _split(move, params)
        if not self._search:
            torch._foreach_add_(params, steps)
            return
        if decline > 0:
            domain, hint = "downhill with search=True", 'Set mode="saddle_free" or damping.'
            raise refuse("Newton", "step", domain, f"slope {decline:.3g}", hint)
        value = float(loss)
        rounding = 8 * torch.finfo(move.dtype).eps * abs(value)
        for length in [*0.5 ** np.arange(HALVINGS), 0.0]:
            torch._foreach_copy_(params, torch._foreach_add(starts, steps, alpha=float(length)))
            with torch.enable_grad():
                reached = closure()
            if float(reached) <= value + ARMIJO * length * decline + rounding:
                return


@final
class _Recorder(TorchFunctionMode):
    """Makes every `backward` within it keep the graph of the gradients, in `slopes`."""

    def __init__(self, params: list[Tensor]) -> None:
        super().__init__()
        self.params, self.slopes = [p for p in params if p.requires_grad], {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is not Tensor.backward:
            return func(*args, **(kwargs or {}))
        weight = (kwargs or {}).get("gradient")
        found = torch.autograd.grad(
            args[0], self.params, weight, create_graph=True, allow_unused=True
        )
        for p, slope in zip(self.params, found, strict=True):
            if slope is not None:  # several passes add up, as they do in p.grad
                self.slopes[p] = self.slopes[p] + slope if p in self.slopes else slope
                seen = slope.detach().clone()
                p.grad = seen if p.grad is None else p.grad + seen
        return None


def _split(flat: Tensor, like: list[Tensor]) -> list[Tensor]:
    """Cut vectors (..., D) into pieces of the shapes of the parameters."""
    pieces = flat.split([p.numel() for p in like], dim=-1)
    return [one.reshape(*flat.shape[:-1], *p.shape) for one, p in zip(pieces, like, strict=True)]


def _products(slopes: list[Tensor], params: list[Tensor]) -> Solve:
    """Give the product of the Hessian with a vector (D,), or with several, rows of (k, D)."""
    bent = [one.requires_grad for one in slopes]
    if not any(bent):
        domain, got = "a function that calls loss.backward()", "gradients without a graph"
        raise refuse("Newton", "closure", domain, got, "A linear loss has no curvature.")

    def products(v: Tensor) -> Tensor:
        found = torch.autograd.grad(
            list(itertools.compress(slopes, bent)), params,
            list(itertools.compress(_split(v, params), bent)),
            retain_graph=True, is_grads_batched=v.ndim == 2, materialize_grads=True,
        )
        return torch.cat([one.reshape(*v.shape[:-1], -1) for one in found], dim=-1)

    return products


def _solved(owner: str, name: str, M: Tensor, g: Tensor) -> Tensor:
    """Solve a symmetric system, by Cholesky's factor or else by eigenvectors."""
    factor, failed = torch.linalg.cholesky_ex(M)
    rounding = len(M) * torch.finfo(M.dtype).eps
    # the share of a diagonal entry that the rows above leave over, whatever the units
    if not failed and bool((factor.diagonal() ** 2 > rounding * M.diagonal()).all()):
        return torch.cholesky_solve(g[:, None], factor)[:, 0]
    if not bool(M.isfinite().all()):
        raise refuse(owner, name, "finite", "infinite or undefined entries", "Start elsewhere.")
    values, vectors = torch.linalg.eigh(M)
    lowest = float(values.abs().min())
    if not lowest > rounding * float(values.abs().max()):
        got = f"smallest |eigenvalue| {lowest:.1g}"
        raise UsageError(f"{owner}: {name} must be invertible; got {got}. Set damping.")
    return vectors @ (vectors.mT @ g / values)


def _conjugate_gradients(product: Solve, g: Tensor, inner: int) -> Tensor:
    """Solve Hs = g from products with H; where a curvature is not positive, take what there is."""
    s, rest = torch.zeros_like(g), g.clone()
    way, size = rest, g @ g
    enough = RESIDUAL**2 * size
    for turn in range(inner):
        if size <= enough:
            break
        bent = product(way)
        curvature = way @ bent
        if not curvature > 0:
            return s if turn else g
        s = s + size / curvature * way
        rest = rest - size / curvature * bent
        size, last = rest @ rest, size
        way = rest + size / last * way
    return s


def relative_conditioning(
    A: Float[Tensor, "D D"], H: Float[Tensor, "D D"]
) -> tuple[float, float]:
    r"""Finds the largest $a$ and the smallest $b$ with $aA\preceq H\preceq bA$.

    Args:
        A: Preconditioner, positive definite.
        H: Hessian, symmetric.

    Example:
        >>> A, H = torch.diag(torch.tensor([1.0, 100.0])), torch.diag(torch.tensor([0.5, 100.0]))
        >>> relative_conditioning(A, H)
        (0.5, 1.0)
    """
    lowest = float(torch.linalg.eigvalsh(A)[0])
    if not lowest > 0:
        sentence = "relative_conditioning: A must be positive definite; got smallest eigenvalue"
        raise UsageError(f"{sentence} {lowest:.3g}.")
    found = eigh(*(one.detach().cpu().numpy() for one in (H, A)), eigvals_only=True)
    return float(found[0]), float(found[-1])


@checked
def fisher_information(
    model: nn.Module, x: Shaped[Tensor, "N ..."], *, law: Law = "classes"
) -> Float[Tensor, "P P"]:
    r"""Averages the squared scores $\nabla\ln p(y\mid x)$ over inputs, and over y as predicted.

    Args:
        model: Maps inputs to outputs (N, k); all its parameters are meant, in their order.
        x: Inputs.
        law: How outputs give the law of y: "classes", logits, one output being the log-odds of two
            classes; or "normal", means of targets with variance 1.

    Example:
        >>> line = nn.Linear(1, 1, bias=False)
        >>> fisher_information(line, torch.tensor([[1.0], [3.0]]), law="normal")
        tensor([[5.]])
    """
    weights = {name: one.detach() for name, one in model.named_parameters()}

    def outputs(weights: dict[str, Tensor], one: Tensor) -> Tensor:
        return functional_call(model, weights, (one[None],))[0]

    slopes = vmap(jacrev(outputs), in_dims=(None, 0))(weights, x)
    J = torch.cat([one.flatten(2) for one in slopes.values()], dim=2)  # (N, k, P)
    z = functional_call(model, weights, (x,)).detach()
    k = z.shape[1]
    spread = torch.eye(k).to(z) if law == "normal" else softmax_jacobian(_logits(z))[:, -k:, -k:]
    return (J.mT @ (spread @ J)).mean(dim=0)


@checked
def natural_gradient(
    model: nn.Module, x: Shaped[Tensor, "N ..."], y: Shaped[Tensor, "N ..."], *,
    law: Law = "classes", damping: NonNegative = 0.0,
) -> dict[str, Tensor]:
    r"""Divides the gradient of the mean $-\ln p(y\mid x)$ by the Fisher information.

    It is the way along which the predictions, not the parameters, change least for the gain.

    Args:
        model: As in `fisher_information`, and so is `law`.
        x: Inputs.
        y: Labels (N,) of classes, or targets (N, k).
        law: How outputs give the law of y.
        damping: Added to the Fisher information, which of a softmax is singular.

    Example:
        >>> line = nn.Linear(1, 1, bias=False)
        >>> x = torch.tensor([[1.0], [3.0]])
        >>> step = natural_gradient(line, x, 2 * x, law="normal")["weight"]
        >>> torch.allclose(line.weight - step, torch.tensor(2.0))  # one step solves least squares
        True
    """
    weights = {name: one.detach() for name, one in model.named_parameters()}
    slopes = grad(lambda at: _surprise(functional_call(model, at, (x,)), y, law))(weights)
    g = torch.cat([one.flatten() for one in slopes.values()])
    M = fisher_information(model, x, law=law) + damping * torch.eye(len(g)).to(g)
    step = _split(_solved("natural_gradient", "Fisher information", M, g), [*weights.values()])
    return dict(zip(weights, step, strict=True))


def _surprise(outputs: Tensor, y: Tensor, law: Law) -> Tensor:
    """Average the negative log-likelihood of targets."""
    if law == "normal":
        return (outputs - y).square().sum(dim=-1).mean() / 2
    return F.cross_entropy(_logits(outputs), y)


def _logits(outputs: Tensor) -> Tensor:
    """Put a 0, for the first of two classes, before a single output."""
    return F.pad(outputs, (1, 0)) if outputs.shape[-1] == 1 else outputs


@claim(
    control={"form": "printed"}, source="Nocedal and Wright 2006, sec. 3.3 and 5.1, in the norm A",
    misprint=r"$A\succeq\nabla^2f\succeq aA$ allows every $\eta<1/a$",
)
def preconditioned_step_limit(
    seed: Seed, *, a: Annotated[float, Range(0.02, 0.4)] = 0.1,
    dim: Annotated[int, Range(2, 50)] = 10, condition: Annotated[float, Range(1, 10_000)] = 100.0,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""$aA\preceq\nabla^2h\preceq A$: $\eta<2$ converges, the best by $\frac{1-a}{1+a}$ a step."""
    rng, steps = seed.torch(), 30
    Q, R = (torch.linalg.qr(randn(rng, dim, dim)).Q for _ in range(2))
    scales = torch.logspace(0, -math.log10(condition), dim, dtype=Q.dtype)
    inside = a + (1 - a) * torch.rand(dim - 2, generator=rng, dtype=Q.dtype)
    A = (Q * scales) @ Q.mT
    L = torch.linalg.cholesky(A)
    H = L @ (R * torch.cat([Q.new_tensor([a, 1.0]), inside])) @ R.mT @ L.mT
    values, vectors = torch.linalg.eigh((H + H.mT) / 2)
    bowl = Quadratic(values, rotation=vectors)
    longest = 1.9 if form == "correct" else 0.9 / a
    rates = {1.0: 1 - a, 2 / (1 + a): (1 - a) / (1 + a), 2.0: 1.0,
             longest: max(1 - longest * a, longest - 1)}
    worst = {}
    for eta in rates:  # rows start at the axes: together they are the map that a step applies
        theta = _path(bowl.at(torch.eye(dim)), eta, L, steps)
        maps = torch.linalg.solve_triangular(L, theta @ L, upper=False)  # lengths are those of A
        worst[eta] = torch.linalg.matrix_norm(maps, ord=2)
    found = [float(one[-1]) ** (1 / steps) for one in worst.values()]
    t, shown = torch.arange(steps + 1), [eta for eta in rates if eta != 2]
    small = Quadratic(scales).at(randn(rng, 3, dim))
    forms = [_path(small, 0.5, one, 5) for one in (scales, lambda g: g / scales)]
    return every({
        "factor of a step": equal(
            found, list(rates.values()), tol=1e-6, why="rounding, times the condition of A"
        ).drawn(
            *(Series(f"η = {eta:.3g}", t, worst[eta], "other", "points") for eta in shown),
            *(Series(f"factor {rates[eta]:.3g}", t, rates[eta] ** t, "predicted") for eta in shown),
            x="step", y="largest error in the norm of A, from 1", log="y",
        ),
        f"η = {longest:.3g} converges": at_most(
            worst[longest][-1], 1, why="what is allowed must not leave errors larger than before"
        ),
        "relative_conditioning": equal(
            relative_conditioning(A, H), [a, 1.0], tol=1e-9, why="rounding, times the condition"
        ),
        "diagonal and function": identical(
            torch.stack(forms), torch.stack([_path(small, 0.5, scales.sqrt().diag(), 5)] * 2)
        ),
    })


@claim(control={"inner": 2}, source="Hestenes and Stiefel 1952; Nocedal and Wright 2006, sec. 7.1")
def newton_cg_is_newton(
    seed: Seed, *, dim: Annotated[int, Range(4, 64)] = 64,
    samples: Annotated[int, Range(200, 1000)] = 300, l2: Annotated[float, Range(0.01, 1)] = 0.01,
    inner: Annotated[int, Range(1, 200)] = 64,
) -> Evidence:
    r"""Conjugate gradients on products with the Hessian give Newton's step, without the Hessian."""
    rng = seed.torch()
    X, noise = randn(rng, samples, dim), randn(rng, samples)
    risk = LogisticRisk(X, (X[:, 0] + noise > 0).long(), l2=l2).at(randn(rng, 1, dim) / dim**0.5)
    x = risk.theta.detach()[0]
    step, H = _newton_step(risk), jacrev(grad(risk.value))(x)
    curvatures = torch.linalg.eigvalsh(H)
    root = float((curvatures[-1] / curvatures[0]).sqrt())

    def length(v: Tensor) -> Tensor:
        return (v @ H @ v).sqrt() / (step @ H @ step).sqrt()

    counts = sorted({1, 2, 3, 4, 6, 8, 12, 16, 24, inner})
    short = [_newton_step(risk, dense=0, inner=one) for one in counts]
    errors = [float(length(one - step)) for one in short]
    bounds = [min(1.0, 2 * ((root - 1) / (root + 1)) ** one) for one in counts]
    gap = (short[counts.index(inner)] - step).norm() / step.norm()
    dented = Saddle(2).at(torch.tensor([[0.1, 0.3]]))  # it bends down along its gradient
    why = f"at a residual of {RESIDUAL:g} it stops, times the condition number"
    return every({
        "relative difference": at_most(gap, 1e-6, why=why).drawn(
            Series("conjugate gradients", counts, [max(one, 1e-17) for one in errors]),
            Series("2((√κ − 1)/(√κ + 1))ᵏ", counts, bounds, "bound"),
            x="inner steps k", y="distance from Newton's step, in the norm of H", log="y",
        ),
        "theory": at_most(errors, bounds, slack=1e-9, why="a theorem, but for its end by rounding"),
        "the step of the Taylor page": identical(step, x - newton(risk.value, x, 1, 0, False)[1]),
        "where the curvature is negative": at_most(
            -dented.gradient(dented.theta)[0] @ _newton_step(dented, dense=0), 0, why="downhill"
        ),
    })


@claim(control={"mode": "plain", "damping": 0.0}, source="Dauphin et al. 2014, sec. 3 and 4")
def newton_is_drawn_to_saddles(
    seed: Seed, *, y: Annotated[float, Range(0.01, 0.4)] = 0.1,
    damping: Annotated[float, Range(0, 0.3)] = 0.05, steps: Annotated[int, Range(40, 100)] = 40,
    mode: Literal["saddle_free", "plain"] = "saddle_free",
) -> Evidence:
    r"""Newton's method goes to the saddle of $x^2-y^2+\frac12y^4$; saddle-free, to a minimum."""
    random = 0.8 * torch.rand(1, 2, generator=seed.torch(), dtype=torch.float64) - 0.4
    starts = torch.cat([torch.tensor([[0.3, y]], dtype=torch.float64), random])

    def path(start: Tensor, steps: int, **options: Any) -> Tensor:
        saddle = Saddle(2).at(start[None])  # half of the function
        optimizer = Newton(saddle.parameters(), **options)
        return descend(saddle, optimizer, steps, record=("theta",))["theta"][:, 0]

    plain = torch.stack([path(one, 10) for one in starts])
    free = torch.stack([path(one, steps, mode=mode, damping=damping) for one in starts])
    (right, up), (x, down) = free[0].mT, plain[0].mT
    return every({
        f"{mode} ends at a minimum": equal(
            free[:, -1], torch.stack([starts[:, 0] * 0, starts[:, 1].sign()], dim=1), tol=1e-6,
            why="damped, the error falls by λ/(λ + curvature), at most 0.24, a step",
        ).drawn(
            Series(mode.replace("_", "-"), right, up, style="line"),
            Series("plain", x, down, "other"),
            Series("minima", [0, 0], [-1, 1], "predicted", "points"),
            Series("saddle", [0], [0], "other", "points"), x="x", y="y",
        ),
        "plain ends at the saddle": at_most(
            plain[:, -1].abs(), 1e-8, why="quadratic convergence from |y| < 1/√5"
        ),
    })


@claim(control={"inputs": "raw"}, source="LeCun, Bottou, Orr and Müller 1998, sec. 4.3 and 5.3")
def whitening_is_preconditioning(
    seed: Seed, *, features: Annotated[int, Range(2, 10)] = 10,
    stretch: Annotated[float, Range(0.1, 10)] = 1.0, kind: Literal["pca", "zca"] = "pca",
    inputs: Literal["whitened", "raw"] = "whitened",
) -> Evidence:
    r"""Least squares on whitened inputs has $\kappa=1$: one step of size 1 solves it."""
    data: Any = load_diabetes()
    X, y = torch.from_numpy(data.data[:, :features]), torch.from_numpy(data.target)
    X = (X - X.mean(dim=0)) * torch.linspace(1, stretch, features, dtype=X.dtype)  # other units
    Z = torch.from_numpy(Whitener(kind=kind).fit_transform(X.numpy()))
    start = randn(seed.torch(), 1, features)
    chosen = _LeastSquares(Z if inputs == "whitened" else X, y, start)
    moment = X.mT @ X / len(X)
    curvatures = torch.linalg.eigvalsh(moment)

    def norms(problem: Problem, lr: float, steps: int) -> Tensor:
        optimizer = SGD(problem.parameters(), lr=lr)
        return descend(problem, optimizer, steps, record=("gradient_norm",))["gradient_norm"][:, 0]

    best = best_fixed_lr(float(curvatures[-1]), float(curvatures[0]))
    raw = norms(_LeastSquares(X, y, start), best, 20)
    one = norms(chosen, 1.0, 3)
    zero = torch.zeros(1, features)
    white = _path(_LeastSquares(Z, y, zero), 0.5, None, 10)[:, 0] @ Z.mT
    divided = _path(_LeastSquares(X, y, zero), 0.5, torch.linalg.cholesky(moment), 10)[:, 0] @ X.mT
    floor = 1e-15  # to draw what rounding leaves
    return every({
        "gradient after one step of size 1": at_most(
            one[1], 1e-10, why="rounding of targets up to 346 and their mean products"
        ).drawn(
            Series(f"{inputs}, η = 1", range(4), one.clamp(min=floor)),
            Series("raw, best η", range(21), raw.clamp(min=floor), "other"),
            x="step", y="length of the gradient", log="y",
        ),
        "predictions with A = E[xx'] on raw inputs": identical(divided, white),
        "ends of the spectrum": equal(
            relative_conditioning(torch.eye(features).to(X), chosen.X.mT @ chosen.X / len(X)),
            [1.0, 1.0], tol=1e-9, why="rounding of a mean",
        ),
    })


@claim(control={"link": "squared loss on a sigmoid"}, source="Amari 1998; Martens 2020, sec. 9.2")
def natural_gradient_is_newton(
    seed: Seed, *, samples: Annotated[int, Range(100, 1000)] = 200,
    dim: Annotated[int, Range(1, 20)] = 5, classes: Annotated[int, Range(2, 6)] = 2,
    link: Literal["logistic", "squared loss on a sigmoid"] = "logistic",
) -> Evidence:
    r"""Logistic regression: the Fisher information is the Hessian, whatever the labels."""
    rng, outputs = seed.torch(), 1 if classes == 2 else classes
    x = F.pad(randn(rng, samples, dim), (0, 1), value=1.0)  # the bias is the weight of a 1
    y: Tensor = torch.randint(classes, (samples,), generator=rng)
    line, law = nn.utils.skip_init(nn.Linear, dim + 1, outputs, bias=False), cast("Law", "classes")
    line.weight = nn.Parameter(randn(rng, outputs, dim + 1) / dim**0.5)
    model = line if link == "logistic" else nn.Sequential(line, nn.Sigmoid())
    if link != "logistic":
        law, y = "normal", F.one_hot(y, classes)[:, -outputs:].double()
    ((name, weight),), size = model.named_parameters(), line.weight.numel()
    start = weight.detach().clone()

    def risk(weight: Tensor) -> Tensor:
        return _surprise(functional_call(model, {name: weight}, (x,)), y, law)

    fisher, H = fisher_information(model, x, law=law), jacrev(grad(risk))(start).view(size, size)
    expected = _expected_squares(model, x, law)
    direction = natural_gradient(model, x, y, law=law, damping=0.01)[name]
    Newton([weight], damping=0.01).step(lambda: risk(weight).backward())
    ends = [float(H.min()), float(H.max())]
    return every({
        "Fisher information and Hessian": equal(
            fisher, H, tol=1e-12 * float(H.abs().max()), why="rounding, relative to the largest"
        ).drawn(
            Series("entries", H.flatten(), fisher.flatten()), Series("equal", ends, ends, "bound"),
            x="entry of the Hessian", y="entry of the Fisher information",
        ),
        "its definition": identical(fisher, expected),
        "natural gradient and Newton's step": identical(direction, start - weight.detach()),
    })


@experiment(
    reaches={"newton_steps": at_most_goal(15), "coefficient_error": at_most_goal(1e-4)},
    floor={"newton_steps": at_most_goal(15), "coefficient_error": at_most_goal(1e-4)},
    source="Pedregosa et al. (2011), scikit-learn: the coefficients of LogisticRegression; "
    "15 steps to a gradient of 1e-8 are what Newton's quadratic rate promises",
)
def second_order(
    run: Run, *, images: Annotated[int, Range(500, 11_000)] = 3000,
    l2: Annotated[float, Range(1e-3, 1)] = 0.01, most: Annotated[int, Range(100, 20_000)] = 2000,
) -> None:
    """Races descent, Nesterov, L-BFGS and Newton to a gradient of 1e-8 on logistic regression.

    Args:
        images: Pictures of a 3 or an 8 at full budget.
        l2: Price of the squared weights.
        most: Steps after which the first-order methods are given up.
    """
    most, tumors = most if run.full else min(most, 400), cast("Any", load_breast_cancer())
    sets = {"breast_cancer": (tumors.data - tumors.data.mean(0)) / tumors.data.std(0)}
    labels = {"breast_cancer": torch.from_numpy(tumors.target)}
    if run.full:
        x, y = mnist("train", data_dir=run.data_dir)
        chosen = ((y == 3) | (y == 8)).nonzero()[:images, 0]
        sets["mnist"], labels["mnist"] = x[chosen].flatten(1).double().numpy(), y[chosen] // 8
    needed, gaps = [], []
    for name in run.steps(sets, "data sets"):
        X, y = F.pad(torch.from_numpy(sets[name]), (0, 1), value=1.0), labels[name]
        risk = LogisticRisk(X, y, l2=l2)
        races = {method: _race(risk, method, most) for method in RACERS}
        for method, (lengths, _, passes) in races.items():
            run.record(**{f"{name}_{method}_gradient": float(lengths.min())})
            if bool((lengths <= FLAT).any()):
                first = int((lengths <= FLAT).nonzero()[0])
                run.record(**{f"{name}_{method}_steps": first})
                run.record(**{f"{name}_{method}_passes": float(passes[first])})
        theirs = LogisticRegression(
            C=1 / (l2 * len(X)), fit_intercept=False, solver="newton-cholesky", tol=1e-10
        ).fit(X.numpy(), y.numpy())
        lengths, thetas, _ = races["newton"]
        needed.append(int((lengths > FLAT).sum()))
        gaps.append(float(np.abs(thetas[-1].numpy() - theirs.coef_).max()))
        _draw_race(run, name, races, cast("Tensor", risk.minimizer))
    run.record(newton_steps=max(needed), coefficient_error=max(gaps))


def _race(risk: LogisticRisk, method: str, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Run a method from 0: gradient norms, iterates, and backward passes before each step."""
    risk = risk.at(torch.zeros_like(risk.theta))
    lr, passes = 1 / cast("float", risk.smoothness), [0]
    kinds: dict[str, tuple[int, Any, dict[str, Any]]] = {
        "descent": (most, SGD, {"lr": lr}),
        "nesterov": (most, Nesterov, {"lr": lr, "beta": ("strong", 1 / (lr * risk.l2))}),
        "lbfgs": (150, LBFGS, {"max_iter": 1, "max_eval": 25, "tolerance_grad": 1e-14,
                               "tolerance_change": 0.0, "line_search_fn": "strong_wolfe"}),
        "newton": (15, Newton, {"dense": 0, "inner": 1000, "search": True}),
    }
    steps, kind, options = kinds[method]

    def count(gradient: Tensor) -> None:
        passes[-1] += 1

    risk.theta.register_hook(count)  # of every product with the Hessian, too
    trace = descend(
        risk, kind(risk.parameters(), **options), steps, record=("gradient_norm", "theta"),
        after=lambda: passes.append(passes[-1]),
    )
    return trace["gradient_norm"][:, 0], trace["theta"][:, 0], torch.tensor([0, *passes[:-1]])


def _draw_race(run: Run, name: str, races: Mapping[str, Any], best: Tensor) -> None:
    """Draw the distances from the minimum against steps and against backward passes."""
    by_step, by_pass = [], []
    for method, (_, thetas, passes) in races.items():
        errors = (thetas - best).norm(dim=1)
        seen, role = errors > 1e-13, "measured" if method == "newton" else "other"  # else rounding
        for series, x in ((by_step, torch.arange(len(errors))), (by_pass, passes)):
            series.append(Series(method, x[seen] + 1, errors[seen], role, "line"))
    for what, series in (("steps", by_step), ("backward passes", by_pass)):
        picture = Picture(tuple(series), f"{what} + 1", "distance from the minimum", "xy")
        run.figure(f"{name}_{what.split()[-1]}", figures.draw(picture))


@final
class _LeastSquares(Problem):
    """Half the mean squared error of a linear prediction."""

    def __init__(self, X: Tensor, y: Tensor, start: Tensor) -> None:
        super().__init__(start)
        self.X, self.y = X, y

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Average the squared residuals."""
        return (theta @ self.X.mT - self.y).square().mean(dim=-1) / 2


def _path(problem: Problem, lr: float, preconditioner: Any, steps: int) -> Tensor:
    """Give all points (T, B, D) of preconditioned descent from where the problem is."""
    problem = problem.at(problem.theta)
    optimizer = PreconditionedGD(problem.parameters(), lr, preconditioner)
    return descend(problem, optimizer, steps, record=("theta",))["theta"]


def _newton_step(problem: Problem, **options: Any) -> Tensor:
    """Give what one step of Newton's method subtracts."""
    twin = problem.at(problem.theta)
    descend(twin, Newton(twin.parameters(), **options), 1, at=[1])
    return (problem.theta - twin.theta).detach()[0]


def _expected_squares(model: nn.Module, x: Tensor, law: Law) -> Tensor:
    """Sum the squared scores over all y, weighted as the model predicts: what Fisher defined."""
    z = model(x).detach()
    if law == "normal":  # two values one standard deviation from one mean have the same moments
        cases = [(z + sign * one, z.new_full((len(z),), 0.5))
                 for one in torch.eye(z.shape[1]).to(z) for sign in (-1, 1)]
    else:
        p = _logits(z).softmax(1)
        cases = [(torch.full((len(z),), k), p[:, k]) for k in range(p.shape[1])]
    total = 0
    for y, weight in cases:
        scores = per_sample_gradients(model, lambda out, y: _surprise(out, y, law), x, y)
        total = total + scores.mT @ (weight[:, None] * scores)
    return cast("Tensor", total) / len(x)
