r"""Smoothness: three numbers of a function that decide how fast one can go down.

$L$ bounds how fast the gradient turns: below a parabola of curvature $L$ nothing surprises a step,
and steps up to $2/L$ are stable. $\mu$ bounds the function from the other side: strong convexity
puts a parabola of curvature $\mu$ under it, and the Polyak-Łojasiewicz (PL) condition, which asks
for less, only wants the gradient to be long wherever the value is high; the function need not be
convex. $\kappa=L/\mu$ is how many steps gradient descent needs for a constant factor. $L$ is the
largest $\vert\lambda\vert$ of the Hessian, not its largest $\lambda$; it bounds how the gradient
changes, not how long it is. The loss of a wide network has a PL constant along the way that
training takes, and none everywhere: there are saddles. The test problems of the chapter live here.

$$ \Vert\nabla h(w)-\nabla h(v)\Vert\le L\Vert w-v\Vert\ \text{for all}\ v, w
\iff -LI\preceq\nabla^2h\preceq LI $$

$$ h(w)\le h(v)+\nabla h(v)^\top(w-v)+\frac L2\Vert w-v\Vert^2 $$

$$ h(w)\ge h(v)+\nabla h(v)^\top(w-v)+\frac\mu2\Vert w-v\Vert^2
\implies \frac12\Vert\nabla h(w)\Vert^2\ge\mu\,(h(w)-\min h) $$

Symbols:
    $h$: function to minimize, a `Problem`: `value`, `gradient`, `minimum`, `minimizer`
    $v, w$: two points, rows of `a` and `b`; a problem's own points are the rows of `theta`
    $L$: smoothness, `smoothness`; `smoothness_ratio` bounds it from below by pairs of points,
        `spectral_smoothness` by the Hessian at one point
    $\nabla^2h$: Hessian, whose ends `hessian_extremes` finds by Lanczos' method
    $\mu$: curvature of the parabola below, `strong_convexity`, and the PL constant, `pl`: the
        infimum of `pl_ratio`
    $\kappa$: condition number $L/\mu$

References:
    Nesterov (2018), Lectures on convex optimization, sec. 1.2.2 and 2.1. Springer.
        doi:10.1007/978-3-319-91578-4
    Polyak (1963), Gradient methods for the minimisation of functionals. USSR Computational
        Mathematics and Mathematical Physics 3(4). doi:10.1016/0041-5553(63)90382-3
    Karimi, Nutini and Schmidt (2016), Linear convergence of gradient and proximal-gradient methods
        under the Polyak-Łojasiewicz condition. ECML PKDD. arXiv:1608.04636
    Liu, Zhu and Belkin (2022), Loss landscapes and optimization in over-parameterized non-linear
        systems and neural networks. Applied and Computational Harmonic Analysis 59.
        arXiv:2003.00307
    Lessard, Recht and Packard (2016), Analysis and design of optimization algorithms via integral
        quadratic constraints. SIAM Journal on Optimization 26(1). arXiv:1408.3595
    Lanczos (1950), An iteration method for the solution of the eigenvalue problem of linear
        differential and integral operators. Journal of Research of the NBS 45(4).
        doi:10.6028/jres.045.026
    Böhning (1992), Multinomial logistic regression algorithm. Annals of the Institute of
        Statistical Mathematics 44(1). doi:10.1007/BF00048682
    LeCun, Bottou, Orr and Müller (1998), Efficient BackProp. Neural Networks: Tricks of the Trade.
        doi:10.1007/3-540-49430-8_2
"""

__all__ = [
    "smoothness_ratio", "hessian_extremes", "spectral_smoothness", "pl_ratio",
]

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn
from torch.func import functional_call, hessian, vmap

from principia.lab.forward_mode import warm_up
from principia.lab.params import PositiveInt, checked, usage_error
from principia.optimization.problems import Problem

Loss = Callable[[Tensor, Tensor], Tensor]
DENSE = 64  # up to so many parameters all eigenvalues cost less than a few of them by Lanczos


def smoothness_ratio(
    problem: Problem, a: Float[Tensor, "N D"], b: Float[Tensor, "N D"]
) -> float:
    r"""Measures $\max\Vert\nabla h(a)-\nabla h(b)\Vert/\Vert a-b\Vert$: a lower bound of $L$.

    Example:
        >>> from principia.optimization import Quadratic
        >>> a, b = torch.eye(2, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64)
        >>> smoothness_ratio(Quadratic([1.0, -10.0]), a, b)
        10.0
    """
    distance = (a - b).norm(dim=-1)
    if not (distance > 0).all():
        hint = "A slope needs two points."
        raise usage_error(
            "smoothness_ratio", "a and b", "different in every row", "equal rows", hint
        )
    change = (problem.gradient(a) - problem.gradient(b)).norm(dim=-1)
    return float((change / distance).max())


@checked
def hessian_extremes(
    loss_fn: Callable[..., Tensor], params: Tensor | Mapping[str, Tensor], k: PositiveInt = 1
) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
    r"""Finds the k lowest eigenvalues of a Hessian, and the k highest, by products with vectors.

    Lanczos' method asks for $Hv$ alone, so that the Hessian is never formed, except where it is
    small. The extremes come first in both. At worst, amid a cluster such as that of a singular
    Hessian at 0, they are found to 1e-4 of the largest $\vert\lambda\vert$; where they stand apart
    the error is about the square of that.

    Args:
        loss_fn: Computes the loss, one number, from the parameters.
        params: A tensor, or the named parameters of a module (see `torch.func.functional_call`).
        k: How many eigenvalues at either end.

    Example:
        >>> lowest, highest = hessian_extremes(lambda x: x[0] ** 2 - x[1] ** 2, torch.zeros(2))
        >>> lowest.item(), highest.item()
        (-2.0, 2.0)
    """
    flat, rebuild = flattened(params)
    value = loss_fn(rebuild(flat))
    if value.numel() != 1:
        domain, hint = "a function with one number as value", "Average the losses of the samples."
        raise usage_error(
            "hessian_extremes", "loss_fn", domain, f"shape {tuple(value.shape)}", hint
        )

    def loss(point: Tensor) -> Tensor:
        return loss_fn(rebuild(point)).sum()

    size = len(flat)
    if size <= max(DENSE, 2 * k):
        warm_up()
        found = torch.linalg.eigvalsh(hessian(loss)(flat).detach().double())  # type: ignore[arg-type]
        return found[:k], found.flip(0)[:k]

    found = lanczos_ends(hessian_product(loss, flat), flat, 2 * k, "BE")
    return found[:k], found.flip(0)[:k]


def flattened(
    params: Tensor | Mapping[str, Tensor]
) -> tuple[Tensor, Callable[[Tensor], Tensor | dict[str, Tensor]]]:
    """Lay parameters out as one vector, and give the way back."""
    if isinstance(params, Tensor):
        shape = params.shape
        return params.detach().flatten(), lambda flat: flat.view(shape)
    pieces = {name: one.detach() for name, one in params.items()}
    flat = torch.cat([one.flatten() for one in pieces.values()])
    return flat, lambda flat: cut(flat, pieces)


def cut(flat: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Cut one vector into tensors with these names and shapes, for `functional_call`."""
    return dict(zip(like, pieces_of(flat, [*like.values()]), strict=True))


def pieces_of(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Cut vectors (..., D) into tensors of these shapes."""
    pieces = zip(flat.split([one.numel() for one in like], dim=-1), like, strict=True)
    return [piece.reshape(*flat.shape[:-1], *one.shape) for piece, one in pieces]


def lanczos_ends(
    product: Callable[[Tensor], Tensor], like: Tensor, wanted: int, which: Literal["BE", "LA"]
) -> Tensor:
    """Find the eigenvalues at both ends, or the highest, in ascending order, by Lanczos' method."""
    size, start = len(like), np.random.default_rng(0).standard_normal(len(like))

    def lifted(v: np.ndarray, by: float) -> np.ndarray:
        v = v.reshape(-1)
        return product(torch.from_numpy(v).to(like)).double().numpy() + by * v

    def find(count: int, by: float = 0.0, **options: Any) -> np.ndarray:
        operator = LinearOperator((size, size), matvec=lambda v: lifted(v, by), dtype=np.float64)  # type: ignore[call-arg]
        return eigsh(operator, count, v0=start, return_eigenvectors=False, **options) - by

    if not lifted(start, 0.0).any():  # no direction to begin with
        return torch.zeros(wanted, dtype=torch.float64)
    norm = abs(float(find(1, which="LM", tol=1e-2)[0]))
    # tolerances are relative to each eigenvalue, so that one at 0 would never be good enough
    basis = min(size, max(100, 4 * wanted))
    return torch.from_numpy(np.sort(find(wanted, 2 * norm, which=which, tol=3e-5, ncv=basis)))


def hessian_product(
    loss: Callable[[Tensor], Tensor], point: Tensor
) -> Callable[[Tensor], Tensor]:
    """Give the product of vectors with the Hessian; the graph of the gradient is recorded once."""
    at = point.detach().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(loss(at), at, create_graph=True)
    return products_of([gradient], [at])


def products_of(slopes: Sequence[Tensor], params: Sequence[Tensor]) -> Callable[[Tensor], Tensor]:
    """Give the product of a Hessian with a vector (D,), or with several, rows of (k, D).

    Args:
        slopes: The gradients with their graph; those without one belong to a linear loss.
        params: What they were taken by.
    """
    bent = [slope.requires_grad for slope in slopes]

    def products(v: Tensor) -> Tensor:
        found = torch.autograd.grad(
            list(itertools.compress(slopes, bent)), params,
            list(itertools.compress(pieces_of(v, params), bent)),
            retain_graph=True, is_grads_batched=v.ndim == 2, allow_unused=True,
        )
        # what no slope depends on has a product of 0 with every vector
        pieces = [one.new_zeros(one.numel()) if part is None else part.reshape(*v.shape[:-1], -1)
                  for one, part in zip(params, found, strict=True)]
        return torch.cat([one.expand(*v.shape[:-1], -1) for one in pieces], dim=-1)

    return products


def spectral_smoothness(
    loss_fn: Callable[..., Tensor], params: Tensor | Mapping[str, Tensor]
) -> float:
    r"""Measures $\max_i\vert\lambda_i\vert$ of the Hessian at a point.

    Example:
        >>> spectral_smoothness(lambda x: x[0] ** 2 - 5 * x[1] ** 2, torch.zeros(2))
        10.0
    """
    lowest, highest = hessian_extremes(loss_fn, params)
    return max(abs(float(lowest[0])), abs(float(highest[0])))


def risk_of(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> Callable[..., Tensor]:
    """Give the loss of a model as a function of its named parameters."""
    return lambda parameters: loss(functional_call(model, parameters, (x,)), y)


@final
class NetworkRisk(Problem):
    """Measures the loss of a network, a function of all its parameters in one row.

    Args:
        model: The network; the problem starts at its parameters.
        loss: Gives one number for outputs and targets.
        x: Inputs.
        y: Targets.
    """

    def __init__(self, model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> None:
        flat, rebuild = flattened(dict(model.named_parameters()))
        super().__init__(flat[None])
        risk = risk_of(model, loss, x, y)
        # a closure: as an attribute the network's own parameters would be this problem's, too
        self.one = lambda theta: risk(rebuild(theta))

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the loss of every row's network."""
        rows = theta.reshape(-1, theta.shape[-1])
        values = self.one(rows[0])[None] if len(rows) == 1 else vmap(self.one)(rows)
        return values.reshape(theta.shape[:-1])


@checked
def pl_ratio(problem: Problem, *, minimum: float | None = None) -> Float[Tensor, " B"]:
    r"""Measures $\frac12\Vert\nabla h\Vert^2/(h-\min h)$ in every row; its infimum is the constant.

    Example:
        >>> from principia.optimization import Quadratic
        >>> pl_ratio(Quadratic([1.0, 3.0]).at(torch.eye(2)))
        tensor([1., 3.], dtype=torch.float64)
    """
    lowest = problem.minimum if minimum is None else minimum
    if lowest is None:
        raise usage_error("pl_ratio", "minimum", "a number", None, "Pass minimum=.")
    theta = problem.theta.detach().requires_grad_()
    with torch.enable_grad():
        values = problem.value(theta)
        (gradient,) = torch.autograd.grad(values.sum(), theta)
    return (gradient**2).sum(dim=-1) / 2 / (values.detach() - lowest)
