r"""Matrices: which are positive, how large they are, and how to invert them cheaply.

A symmetric matrix is positive semidefinite if no vector makes $x^\top Ax$ negative: covariances,
Gram matrices of kernels and Hessians at minima are. Eigenvalues, principal minors and the factor
$LL^\top$ each decide it; trace, determinant and the leading minors do not. A norm says how far a
matrix can stretch a vector, and a few products with $A$ and $A^\top$ find it. An inverse is seldom
worth computing: that of a sum of small rank needs only a small system, that of a Kronecker product
only its factors, and where there is none, the limit of a ridge takes its place.

$$ A \succeq 0 \iff x^\top Ax\ge0\ \ \forall x \iff \lambda_i\ge0 \iff
\det A_{SS}\ge0\ \ \forall S \iff A=LL^\top $$

$$ \Vert A\Vert_2 = \max_{\Vert x\Vert=1}\Vert Ax\Vert = \sigma_1, \quad
\Vert A\Vert_F^2 = \sum_{ij}A_{ij}^2 = \mathrm{Tr}\,A^\top A = \sum_i\sigma_i^2 $$

$$ (A+UCV)^{-1} = A^{-1}-A^{-1}U(C^{-1}+VA^{-1}U)^{-1}VA^{-1}, \quad
(I+AB)^{-1}A = A(I+BA)^{-1} $$

$$ W^+ = \lim_{\sigma\to0}W^\top(WW^\top+\sigma^2I)^{-1}
= \lim_{\sigma\to0}(W^\top W+\sigma^2I)^{-1}W^\top, \quad
(A\otimes B)\,\mathrm{vec}(X) = \mathrm{vec}(AXB^\top) $$

Symbols:
    $\lambda_i, \sigma_i$: eigenvalues and singular values, $\sigma_1$ being `spectral_norm`
    $A_{SS}$: rows and columns $S$ of $A$; its determinant is one of the `principal_minors`
    $L$: a factor of $A$, `psd_factor`; triangular where $A$ is positive definite
    $U, C, V$: factors of a change of small rank, for `woodbury_solve`
    $W^+, \sigma^2$: pseudo-inverse, and the ridge `sigma2` that `ridge_pinv` adds
    $\mathrm{vec}$: rows of a matrix one after the other, `flatten`, for `kron_matvec`

References:
    Horn and Johnson (2013), Matrix analysis, second edition. Cambridge University Press.
        doi:10.1017/CBO9781139020411
    Prussing (1986), The principal minor test for semidefinite matrices. Journal of Guidance,
        Control, and Dynamics 9(1). doi:10.2514/3.20077
    Eckart and Young (1936), The approximation of one matrix by another of lower rank.
        Psychometrika 1(3). doi:10.1007/BF02288367
    Hager (1989), Updating the inverse of a matrix. SIAM Review 31(2). doi:10.1137/1031049
    Penrose (1955), A generalized inverse for matrices. Mathematical Proceedings of the Cambridge
        Philosophical Society 51(3). doi:10.1017/S0305004100030401
    Van Loan (2000), The ubiquitous Kronecker product. Journal of Computational and Applied
        Mathematics 123. doi:10.1016/S0377-0427(00)00393-9
"""

__all__ = [
    "is_psd", "leading_minors", "principal_minors", "definiteness", "psd_factor", "spectral_norm",
    "frobenius_norm", "woodbury_solve", "ridge_pinv", "kron_matvec",
]

import functools
import itertools
import math
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import avg_pool2d

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.photographs import photographs
from principia.lab.domains import Count, NonNegative, Range
from principia.lab.draws import randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_least, at_most, equal, every, identical, never, slope
from principia.lab.seeds import Seed
from principia.lab.timing import fastest

Kind = Literal["PD", "PSD", "ND", "NSD", "indefinite"]
Products = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor], int]
Draws = Annotated[int, Range(20, 1000)]
MOST_ROWS = 12  # of which all 2^n - 1 principal minors are still computed
# the least and the greatest sign of the eigenvalues of a kind
SIGNS = {"PD": (1, 1), "PSD": (0, 1), "ND": (-1, -1), "NSD": (-1, 0), "indefinite": (-1, 1)}
ALIKE = "equivalent: no exception"


@checked
def is_psd(
    A: Float[Tensor, "*B n n"], *, method: Literal["eigh", "cholesky", "minors"] = "eigh",
    tol: NonNegative = 1e-10,
) -> Bool[Tensor, "*B"]:
    r"""Decides whether no vector makes $x^\top Ax$ negative.

    Args:
        A: Symmetric matrices.
        method: Eigenvalues, exact to rounding; a Cholesky factor, the fastest; or all principal
            minors, for 12 rows or fewer, which small eigenvalues make smaller than rounding.
        tol: What counts as 0, as a share of the largest entry; at least the rounding of the type.

    Example:
        >>> is_psd(torch.tensor([[[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, -1.0]]]))
        tensor([ True, False])
    """
    slack, tiny = _slack("is_psd", A, tol), torch.finfo(A.dtype).tiny
    if method == "eigh":
        return torch.linalg.eigvalsh(A)[..., 0] >= -slack
    if method == "cholesky":  # raised by the slack, so that a pivot of 0 is no failure
        raised = slack.clamp(min=tiny)[..., None, None] * torch.eye(A.shape[-1]).to(A)
        return torch.linalg.cholesky_ex(A + raised).info == 0
    largest = A.abs().amax(dim=(-2, -1)).clamp(min=tiny)[..., None]
    return (principal_minors(A / largest[..., None]) >= -slack[..., None] / largest).all(dim=-1)


def leading_minors(A: Float[Tensor, "*B n n"]) -> Float[Tensor, "*B n"]:
    r"""Computes the determinants of the upper left blocks, from 1 x 1 to the whole matrix.

    Example:
        >>> leading_minors(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
        tensor([2., 3.])
    """
    blocks = (A[..., :k, :k] for k in range(1, A.shape[-1] + 1))
    return torch.stack([torch.linalg.det(block) for block in blocks], dim=-1)


def principal_minors(A: Float[Tensor, "*B n n"]) -> Float[Tensor, "*B M"]:
    r"""Computes the determinants of all $2^n-1$ blocks with the same rows as columns.

    They come by size, and within a size in the order of the alphabet.

    Example:
        >>> principal_minors(torch.diag(torch.tensor([0.0, -1.0])))
        tensor([ 0., -1., -0.])
    """
    n = A.shape[-1]
    if n > MOST_ROWS:
        hint = f"There are {2**n - 1} minors; is_psd(A) decides by eigenvalues."
        raise refuse("principal_minors", "A", f"of {MOST_ROWS} rows or fewer", n, hint)
    sizes = (list(itertools.combinations(range(n), k)) for k in range(1, n + 1))
    subsets = [torch.tensor(of_size, device=A.device) for of_size in sizes]
    dets = [torch.linalg.det(A[..., s[:, :, None], s[:, None, :]]) for s in subsets]
    return torch.cat(dets, dim=-1)


@checked
def definiteness(A: Float[Tensor, "n n"], *, tol: NonNegative = 1e-10) -> Kind:
    r"""Names the signs that $x^\top Ax$ takes: PD, PSD, ND, NSD (0 too), or indefinite.

    Example:
        >>> definiteness(torch.eye(2)), definiteness(torch.ones(2, 2)), definiteness(-torch.eye(2))
        ('PD', 'PSD', 'ND')
    """
    slack = _slack("definiteness", A, tol)
    least, greatest = torch.linalg.eigvalsh(A)[[0, -1]]
    if least > slack or greatest < -slack:
        return "PD" if least > slack else "ND"
    if least >= -slack or greatest <= slack:
        return "PSD" if least >= -slack else "NSD"
    return "indefinite"


@checked
def psd_factor(A: Float[Tensor, "*B n n"], *, tol: NonNegative = 1e-10) -> Float[Tensor, "*B n n"]:
    r"""Factors $A=LL^\top$: by Cholesky, or from the eigenvectors where A is singular.

    Example:
        >>> psd_factor(torch.tensor([[4.0, 2.0], [2.0, 2.0]]))
        tensor([[2., 0.],
                [1., 1.]])
    """
    slack = _slack("psd_factor", A, tol)
    L, failed = torch.linalg.cholesky_ex(A)
    if not bool(failed.any()):
        return L
    values, vectors = torch.linalg.eigh(A)
    if bool((values[..., 0] < -slack).any()):
        hint = "Only x'Ax >= 0 has a factor; a covariance needs shrinkage, a Hessian damping."
        least = float(values[..., 0].min())
        raise refuse("psd_factor", "A", "without an eigenvalue below 0", least, hint)
    roots = vectors * values.clamp(min=0).sqrt()[..., None, :]
    return torch.where(failed[..., None, None] == 0, L, roots)


@checked
def spectral_norm(
    A: Float[Tensor, "*B m n"] | Products, *, steps: Count = 100,
    rng: torch.Generator | None = None, dtype: torch.dtype = torch.float64,
) -> Float[Tensor, "*B"]:
    r"""Finds the largest stretch $\max\Vert Ax\Vert/\Vert x\Vert$ by power iteration on $A^\top A$.

    It comes from below; the relative error falls as $(\sigma_2/\sigma_1)^{4t}$ in t steps.

    Args:
        A: Matrices, or what stands for one: $x\mapsto Ax$, $y\mapsto A^\top y$ and the length n.
        steps: Number of steps, each one product with A and one with its transpose.
        rng: Draws the first vector; by default torch's global generator.
        dtype: Of the vectors, where A is given by its products.

    Example:
        >>> A = torch.tensor([[3.0, 0.0], [4.0, 0.0]])
        >>> spectral_norm(A, rng=torch.Generator().manual_seed(0))
        tensor(5.)
    """
    if isinstance(A, Tensor):
        lead, dtype, device = (*A.shape[:-2], A.shape[-1]), A.dtype, A.device
        times, back = (functools.partial(torch.einsum, "...ij,...j->...i", M) for M in (A, A.mT))
    else:
        (times, back, n), device = A, None
        lead = (n,)
    tiny = torch.finfo(dtype).tiny  # the zero matrix has norm 0, not 0/0
    x = torch.randn(lead, generator=rng, dtype=dtype).to(device)
    for _ in range(steps):
        y = times(x / x.norm(dim=-1, keepdim=True).clamp(min=tiny))
        x = back(y / y.norm(dim=-1, keepdim=True).clamp(min=tiny))
    return times(x / x.norm(dim=-1, keepdim=True).clamp(min=tiny)).norm(dim=-1)


@checked
def frobenius_norm(
    A: Float[Tensor, "*B m n"], *,
    method: Literal["entries", "trace", "singular values"] = "entries",
) -> Float[Tensor, "*B"]:
    r"""Measures the root of $\sum A_{ij}^2$, of $\mathrm{Tr}\,A^\top A$, or of $\sum\sigma_i^2$.

    Example:
        >>> frobenius_norm(torch.tensor([[1.0, 1.0], [1.0, 1.0]]), method="trace")
        tensor(2.)
    """
    if method == "trace":
        return (A.mT @ A).diagonal(dim1=-2, dim2=-1).sum(dim=-1).sqrt()
    parts = A.flatten(-2) if method == "entries" else torch.linalg.svdvals(A)
    return parts.square().sum(dim=-1).sqrt()


def woodbury_solve(
    solve_A: Callable[[Tensor], Tensor] | Float[Tensor, " n"], U: Float[Tensor, "n k"],
    C: Float[Tensor, "k l"], V: Float[Tensor, "l n"], b: Float[Tensor, " n *m"],
) -> Float[Tensor, " n *m"]:
    r"""Solves $(A+UCV)x=b$ with a solver for $A$ and a k x k system: $O(nk^2)$, not $O(n^3)$.

    C may be singular, or not even square: it is never inverted.

    Args:
        solve_A: Gives $A^{-1}Y$ for Y of shape (n, any); or the diagonal of a diagonal A.
        U: Columns of the change.
        C: Its core.
        V: Its rows.
        b: One right-hand side, or one a column.

    Example:
        >>> U, b = torch.tensor([[1.0], [1.0]]), torch.tensor([3.0, 6.0])
        >>> woodbury_solve(torch.ones(2), U, torch.eye(1), U.mT, b)
        tensor([0., 3.])
    """
    (n, k), diagonal = U.shape, solve_A if isinstance(solve_A, Tensor) else None
    shapes = [tuple(one.shape) for one in (U, C, V, b)]
    if C.shape != (k, len(V)) or V.shape[1:] != (n,) or len(b) != n:
        raise refuse("woodbury_solve", "U, C, V, b", "of shapes (n, k), (k, l), (l, n), (n, ...)",
                     shapes, "The product U @ C @ V must be square, with the rows of b.")
    if diagonal is not None and (diagonal.shape != (n,) or not bool(diagonal.all())):
        domain = f"a function, or a diagonal of {n} entries without a 0"
        raise refuse("woodbury_solve", "solve_A", domain, diagonal.tolist())
    columns = torch.cat([b.reshape(n, -1), U], dim=1)
    solved = columns / diagonal[:, None] if diagonal is not None else solve_A(columns)  # type: ignore[operator]
    x, Y = solved.split([solved.shape[1] - k, k], dim=1)  # of b and of U
    core = torch.eye(k).to(U) + C @ (V @ Y)  # C times the usual one, which needs its inverse
    small, singular = torch.linalg.solve_ex(core, C @ (V @ x))
    if bool(singular):
        raise refuse("woodbury_solve", "A + U C V", "invertible", "a singular matrix")
    return (x - Y @ small).reshape(b.shape)


@checked
def ridge_pinv(
    W: Float[Tensor, "*B m n"], sigma2: NonNegative, side: Literal["left", "right"] = "right"
) -> Float[Tensor, "*B n m"]:
    r"""Inverts W as well as it can be, with a ridge $\sigma^2$; with 0 it is the limit, $W^+$.

    Args:
        W: Matrices of any rank.
        sigma2: What is added to the squared singular values.
        side: Right is $W^\top(WW^\top+\sigma^2I)^{-1}$, with an m x m system; left is
            $(W^\top W+\sigma^2I)^{-1}W^\top$, with an n x n one. They are equal.

    Example:
        >>> ridge_pinv(torch.tensor([[1.0, 2.0]]), 5.0), ridge_pinv(torch.tensor([[1.0, 2.0]]), 0.0)
        (tensor([[0.1000],
                [0.2000]]), tensor([[0.2000],
                [0.4000]]))
    """
    if sigma2 == 0:
        return torch.linalg.pinv(W)
    tall = W if side == "left" else W.mT
    gram = tall.mT @ tall + sigma2 * torch.eye(tall.shape[-1]).to(W)
    inverse = torch.linalg.solve(gram, tall.mT)
    return inverse if side == "left" else inverse.mT


def kron_matvec(
    A: Float[Tensor, "m n"], B: Float[Tensor, "p q"], x: Float[Tensor, "*batch n*q"]
) -> Float[Tensor, "*batch m*p"]:
    r"""Multiplies by $A\otimes B$ without forming it: $(A\otimes B)\,\mathrm{vec}(X)=AXB^\top$.

    Args:
        A: Left factor.
        B: Right factor.
        x: Rows of X (n, q), one after the other.

    Example:
        >>> A, B, x = torch.tensor([[1.0, 2.0]]), torch.eye(2), torch.arange(4.0)
        >>> kron_matvec(A, B, x), torch.kron(A, B) @ x
        (tensor([4., 7.]), tensor([4., 7.]))
    """
    n, q = A.shape[1], B.shape[1]
    if x.shape[-1] != n * q:
        hint = f"It holds the {n} rows of X, {q} entries each."
        raise refuse("kron_matvec", "x", f"of width {n * q}", tuple(x.shape), hint)
    return (A @ x.unflatten(-1, (n, q)) @ B.mT).flatten(-2)


def _slack(owner: str, A: Tensor, tol: float) -> Tensor:
    """Refuse what is not symmetric, and give what counts as 0 for each matrix."""
    rows = A.shape[-1]
    share = max(tol, 10 * rows * torch.finfo(A.dtype).eps)
    slack = share * A.abs().amax(dim=(-2, -1))
    if A.shape[-2] != rows or not bool(((A - A.mT).abs() <= slack[..., None, None]).all()):
        hint = "x'Ax is that of the symmetric part: pass (A + A.mT) / 2."
        raise refuse(owner, "A", "square and symmetric, of finite numbers", A.tolist(), hint)
    return slack


@claim(
    control={"test": "trace and determinant"},
    source="Horn and Johnson 2013, thms. 7.2.1, 7.2.5 and 7.2.7",
)
def psd_characterizations(
    seed: Seed, *, matrices: Draws = 500, dim: Annotated[int, Range(3, 8)] = 5,
    test: Literal["each of the four", "trace and determinant"] = "each of the four",
) -> Evidence:
    r"""$x^\top Ax\ge0$, $\lambda_i\ge0$, all principal minors $\ge0$ and $A=LL^\top$ are one."""
    rng = seed.torch()
    names, spectra = _spectra(rng, matrices, dim, *SIGNS)
    # trace and determinant cannot tell -1, -1, 3, 1, ... from positive eigenvalues
    names[-1], spectra[-1] = "indefinite", torch.tensor([-1, -1, 3] + [1] * (dim - 3))
    A, least = _turned(rng, spectra), spectra.amin(dim=1)
    truth, trace, det = least >= 0, _trace(A), torch.linalg.det(A)
    if test == "trace and determinant":
        verdict = (trace >= 0) & (det >= -1e-12)
        return never(verdict != truth, why=ALIKE).drawn(
            Series("matrices", least, torch.minimum(trace, det)),
            x="smallest eigenvalue", y="smaller one of trace and determinant",
        )
    # a search for x with x'Ax < 0: powers of cI - A turn any x to the smallest eigenvalue
    lowered = torch.eye(dim).to(A) - A / frobenius_norm(A)[:, None, None]
    x = torch.linalg.matrix_power(lowered, 256) @ randn(rng, matrices, dim, 8)
    x = x / x.norm(dim=1, keepdim=True)
    found = (x * (A @ x)).sum(dim=1).amin(dim=1)
    return every({
        "principal minors": never(is_psd(A, method="minors") != truth, why=ALIKE).drawn(
            Series("matrices", least, principal_minors(A).amin(dim=1)),
            x="smallest eigenvalue", y="smallest principal minor",
        ),
        "x'Ax": never((found >= -1e-10) != truth, why=ALIKE),
        "eigenvalues": never(is_psd(A) != truth, why=ALIKE),
        "A = LL'": never(is_psd(A, method="cholesky") != truth, why=ALIKE),
        "names": never(np.array([definiteness(one) for one in A]) != np.array(names), why=ALIKE),
        "trace and determinant": at_least(
            torch.stack([trace, det])[:, truth], 0.0, slack=1e-12,
            why="sum and product of numbers >= 0, after rounding",
        ),
    })


@claim(control={"symmetric": False}, source="Sylvester 1852; Horn and Johnson 2013, thm. 7.2.5")
def sylvester_definite(
    seed: Seed, *, matrices: Draws = 500, dim: Annotated[int, Range(2, 10)] = 5,
    symmetric: bool = True,
) -> Evidence:
    r"""PD: all leading minors are $>0$; ND: their signs alternate, the first being negative."""
    rng = seed.torch()
    A = _turned(rng, _spectra(rng, matrices, dim, "PD", "ND", "indefinite")[1])
    A[-1] = torch.eye(dim)
    A[-1, 0, 1] = A[-1, 1, 0] = 2  # [[1, 2], [2, 1]] is indefinite; with [[1, 4], [0, 1]] as well
    values = torch.linalg.eigvalsh(A)
    if not symmetric:  # x'Ax remains what it was
        A = A.triu() + A.tril(-1).mT
    minors = leading_minors(A)
    signs = (-1.0) ** torch.arange(1, dim + 1)
    return every({
        "PD": never((minors > 0).all(dim=1) != (values[:, 0] > 0), why=ALIKE).drawn(
            Series("matrices", values[:, 0], minors.amin(dim=1)),
            x="smallest eigenvalue of the quadratic form", y="smallest leading minor",
        ),
        "ND": never((minors * signs > 0).all(dim=1) != (values[:, -1] < 0), why=ALIKE),
    })


@claim(
    control={"minors": "leading > 0"}, source="Prussing 1986",
    misprint=r"PSD iff the leading minors are positive, otherwise indefinite",
)
def sylvester_semidefinite(
    seed: Seed, *, matrices: Draws = 500, dim: Annotated[int, Range(2, 8)] = 4,
    minors: Literal["all principal ≥ 0", "leading > 0", "leading ≥ 0"] = "all principal ≥ 0",
) -> Evidence:
    r"""PSD needs every principal minor $\ge0$, not only the leading ones."""
    rng = seed.torch()
    spectra = _spectra(rng, matrices, dim, "PSD", "NSD", "indefinite")[1]
    spectra[:, 2:3] = 0  # all singular, but for indefinite ones of two rows
    A = _turned(rng, spectra)
    A[-2:] = 0
    A[-2, 1, 1], A[-1, :2, :2] = -1, 1  # diag(0, -1), and ones
    least = torch.linalg.eigvalsh(A)[:, 0]
    lowest = (principal_minors if minors.startswith("all") else leading_minors)(A).amin(dim=1)
    verdict = lowest > 1e-10 if minors == "leading > 0" else lowest >= -1e-10
    if minors.startswith("all"):
        verdict = is_psd(A, method="minors")
    return never(verdict != (least >= -1e-10), why=ALIKE).drawn(
        Series("matrices", least, lowest), x="smallest eigenvalue", y=f"smallest minor ({minors})"
    )


@claim(control={"kernel": "tanh(1 - 3 x·y)"}, source="Schölkopf and Smola 2002, ch. 2")
def kernel_gram_psd(
    seed: Seed, *, sets: Annotated[int, Range(2, 200)] = 100,
    points: Annotated[int, Range(4, 60)] = 30, dim: Annotated[int, Range(1, 10)] = 3,
    kernel: Literal["all three", "RBF", "Laplacian", "polynomial", "tanh(1 - 3 x·y)"] = "all three",
) -> Evidence:
    r"""Gram matrices $k(x_i,x_j)$ of RBF, Laplacian and polynomial kernels are PSD."""
    x = randn(seed.torch(), sets, points, dim)
    apart, inner = x[:, :, None] - x[:, None], x @ x.mT
    kernels = {
        "RBF": lambda: (-apart.square().sum(dim=-1) / 2).exp(),
        "Laplacian": lambda: (-apart.abs().sum(dim=-1)).exp(),
        "polynomial": lambda: (1 + inner) ** 3,
        "tanh(1 - 3 x·y)": lambda: (1 - 3 * inner).tanh(),
    }
    parts = {}
    for name in list(kernels)[:3] if kernel == "all three" else [kernel]:
        gram = kernels[name]()
        values = torch.linalg.eigvalsh(gram)
        least = values[:, 0] / values.abs().amax(dim=1)
        parts[name] = at_least(
            least, 0.0, slack=1e-10, why="rounding, as a share of the largest eigenvalue"
        ).drawn(
            Series(name, range(1, points + 1), values[0].flip(0), style="line"),
            Series("0", [1, points], [0, 0], "bound"), x="number", y="eigenvalue of a Gram matrix",
        )
        parts[f"{name}, by factors"] = never(~is_psd(gram, method="cholesky"), why=ALIKE)
    return every(parts)


@claim(control={"kind": "indefinite"}, source="Horn and Johnson 2013, cor. 7.2.9")
def cholesky(
    seed: Seed, *, matrices: Draws = 100, dim: Annotated[int, Range(2, 30)] = 10,
    kind: Literal["PD", "indefinite"] = "PD",
) -> Evidence:
    r"""$A=LL^\top$ with a triangular $L$ of positive diagonal iff A is PD; jitter helps others."""
    rng = seed.torch()
    spectra = _spectra(rng, matrices, dim, kind)[1]
    spectra[:, 0] *= torch.logspace(-6, 0, matrices, dtype=spectra.dtype)  # some nearly singular
    A = _turned(rng, spectra)
    L, failed = torch.linalg.cholesky_ex(A)
    L = psd_factor(A) if kind == "PD" else L
    minors = leading_minors(A)
    pivots = torch.cat([minors[:, :1], minors[:, 1:] / minors[:, :-1]], dim=1)
    singular = _turned(rng, _spectra(rng, matrices, dim, "PSD")[1])
    root, jitter = psd_factor(singular), 1e-8
    raised = torch.linalg.cholesky(singular + jitter * torch.eye(dim).to(A))
    missed = torch.linalg.matrix_norm(raised @ raised.mT - singular, ord=2)
    return every({
        "no factor": never(failed > 0, why="a pivot that is not positive has no root").drawn(
            Series("matrices", spectra.amin(dim=1), pivots.amin(dim=1)),
            x="smallest eigenvalue", y="smallest pivot", log="xy" if kind == "PD" else "",
        ),
        "LL' = A": identical(L @ L.mT, A),
        "above the diagonal": never(L.triu(1) != 0, why="triangular"),
        "roots of the pivots": equal(
            L.diagonal(dim1=1, dim2=2), pivots.sqrt(), tol=1e-8,
            why="rounding of minors, whose blocks have conditions of up to 1e7",
        ),
        "singular, from eigenvectors": identical(root @ root.mT, singular),
        "singular, with jitter": equal(
            missed, jitter, tol=1e-12, why="the jitter itself, and rounding of numbers up to 1"
        ),
    })


@claim(control={"order": "ACB"}, source="Horn and Johnson 2013, ch. 1")
def trace_rules(
    seed: Seed, *, matrices: Draws = 100, dim: Annotated[int, Range(2, 40)] = 6,
    order: Literal["CAB", "ACB"] = "CAB",
) -> Evidence:
    r"""Tr is linear, $\sum\lambda_i$, that of $A^\top$ too, and $\mathrm{Tr}ABC=\mathrm{Tr}CAB$."""
    A, B, C = randn(seed.torch(), 3, matrices, dim, dim)
    v, w = A[:, 0], B[:, 0]
    moved = C @ A @ B if order == "CAB" else A @ C @ B
    return every({
        "cyclic": _titled(
            identical(_trace(moved), _trace(A @ B @ C)), "Tr(ABC)", f"Tr({order})"
        ),
        "eigenvalues": identical(torch.linalg.eigvals(A).real.sum(dim=1), _trace(A)),
        "linear": identical(_trace(2 * A - 3 * B), 2 * _trace(A) - 3 * _trace(B)),
        "transpose": identical(_trace(A.mT), _trace(A)),
        "inner product": identical(_trace(v[:, :, None] * w[:, None]), (v * w).sum(dim=1)),
        "expectation": identical(_trace(A).mean(), _trace(A.mean(dim=0))),
    })


@claim(control={"Q": "Gaussian"}, source="Horn and Johnson 2013, sec. 5.6")
def frobenius(
    seed: Seed, *, matrices: Draws = 100, rows: Annotated[int, Range(2, 40)] = 8,
    columns: Annotated[int, Range(1, 40)] = 5,
    Q: Literal["orthogonal", "Gaussian"] = "orthogonal",
) -> Evidence:
    r"""$\sum A_{ij}^2=\mathrm{Tr}A^\top A=\sum\sigma_i^2$, and $\Vert QA\Vert_F=\Vert A\Vert_F$."""
    rng = seed.torch()
    A, turn = randn(rng, matrices, rows, columns), randn(rng, matrices, rows, rows)
    if Q == "orthogonal":
        turn = torch.linalg.qr(turn).Q
    exact = torch.linalg.matrix_norm(A)
    return every({
        "‖QA‖": _titled(identical(frobenius_norm(turn @ A), exact), "‖A‖", "‖QA‖"),
        "entries": identical(frobenius_norm(A), exact),
        "trace": identical(frobenius_norm(A, method="trace"), exact),
        "singular values": identical(frobenius_norm(A, method="singular values"), exact),
    })


@claim(control={"norm": "largest entry"}, source="Horn and Johnson 2013, sec. 5.6")
def spectral_norm_claim(
    seed: Seed, *, rows: Annotated[int, Range(2, 100)] = 30,
    columns: Annotated[int, Range(2, 100)] = 20, ratio: Annotated[float, Range(0, 0.9)] = 0.8,
    pairs: Annotated[int, Range(100, 20_000)] = 10_000,
    norm: Literal["spectral", "largest entry"] = "spectral",
) -> Evidence:
    r"""$\max\Vert Ax\Vert/\Vert x\Vert=\sigma_1$; $\Vert AB\Vert\le\Vert A\Vert\,\Vert B\Vert$."""
    rng = seed.torch()
    A = _with_values(rng, rows, columns, ratio ** torch.arange(min(rows, columns)))  # σ_1 = 1
    exact, numbers = torch.linalg.svdvals(A)[0], np.arange(1, 13)
    found = [spectral_norm(A, steps=int(t), rng=seed.child("start").torch()) for t in numbers]
    errors = (exact - torch.stack(found)).clamp(min=1e-16)
    x = randn(rng, columns, 1000)
    L, R = randn(rng, 2, pairs, 4, 4)
    L[0] = R[0] = 1
    size = functools.partial(torch.linalg.matrix_norm, ord=2)
    if norm == "largest entry":
        size = lambda M: M.abs().amax(dim=(1, 2))  # noqa: E731
    products, bounds = size(L @ R), size(L) * size(R)
    few = slice(0, 300)
    return every({
        "‖AB‖ ≤ ‖A‖‖B‖": never(products > bounds * (1 + 1e-12), why="a theorem").drawn(
            Series("products", bounds[few], products[few]),
            Series("bound", bounds[few].sort().values, bounds[few].sort().values, "bound"),
            x="‖A‖ ‖B‖", y="‖AB‖",
        ),
        "power iteration": equal(
            spectral_norm(A, rng=rng), exact, tol=1e-6,
            why="(σ2/σ1)^400 is below 1e-18: all but a start almost orthogonal to v1 is forgotten",
        ).drawn(
            Series("1 - estimate", numbers, errors),
            Series("(σ2/σ1)^(4t)", numbers, ratio ** (4.0 * numbers) + 1e-16, "predicted"),
            x="steps t", y="error", log="y",
        ),
        "by products": equal(
            spectral_norm((A.mv, A.mT.mv, columns), rng=rng), exact, tol=1e-6, why="as above"
        ),
        "from below": at_most(torch.stack(found), exact, slack=1e-12, why="a maximum; rounding"),
        "no vector is stretched more": at_most(
            (A @ x).norm(dim=0) / x.norm(dim=0), exact, slack=1e-12, why="a maximum; rounding"
        ),
    })


@claim(control={"inner": "C"}, source="Woodbury 1950; Hager 1989")
def woodbury(
    seed: Seed, *, n: Annotated[int, Range(60, 400)] = 200, k: Annotated[int, Range(1, 50)] = 5,
    inner: Literal["inverse of C", "C"] = "inverse of C",
) -> Evidence:
    r"""$(A+UCV)^{-1}=A^{-1}-A^{-1}U(C^{-1}+VA^{-1}U)^{-1}VA^{-1}$, and the same with $A=I$."""
    rng = seed.torch()
    U, V, C = randn(rng, n, k) / n**0.5, randn(rng, k, n) / n**0.5, randn(rng, k, k)
    A = _turned(rng, 1 + torch.rand(1, n, generator=rng, dtype=U.dtype))[0]
    core, b, parts = C if inner == "C" else torch.linalg.inv(C), randn(rng, n, 3), {}
    for name, one in (("general A", A), ("A = I", torch.eye(n).to(A))):
        inverse, exact = torch.linalg.inv(one), torch.linalg.inv(one + U @ C @ V)
        ours = inverse - inverse @ U @ torch.linalg.inv(core + V @ inverse @ U) @ V @ inverse
        parts[name] = _titled(identical(ours, exact), "entry of the inverse", "by the formula")
        solver = functools.partial(torch.linalg.solve, one)
        parts[f"woodbury_solve, {name}"] = identical(woodbury_solve(solver, U, C, V, b), exact @ b)
    diagonal = 1 + torch.rand(n, generator=rng, dtype=U.dtype)
    solved = woodbury_solve(diagonal, U, C, V, b[:, 0])
    return every({
        **parts, "a diagonal": identical(diagonal * solved + U @ (C @ (V @ solved)), b[:, 0])
    })


@claim(control={"form": "(I + BA)^-1 A"}, source="Henderson and Searle 1981, sec. 1")
def push_through(
    seed: Seed, *, rows: Annotated[int, Range(2, 100)] = 12,
    columns: Annotated[int, Range(1, 100)] = 5,
    form: Literal["A (I + BA)^-1", "(I + BA)^-1 A"] = "A (I + BA)^-1",
) -> Evidence:
    r"""$(I+AB)^{-1}A=A(I+BA)^{-1}$, and $(I+AB)^{-1}=I-A(I+BA)^{-1}B$, for A and B of any shape."""
    rng, swapped = seed.torch(), form != "A (I + BA)^-1"
    columns = rows if swapped else columns  # else the shapes would tell
    A, B = (randn(rng, *size) for size in ((rows, columns), (columns, rows)))
    A, B = (0.9 * M / torch.linalg.matrix_norm(M, ord=2) for M in (A, B))  # I + AB is invertible
    left, right = torch.eye(rows).to(A), torch.eye(columns).to(A)
    outer, inner = torch.linalg.inv(left + A @ B), torch.linalg.inv(right + B @ A)
    return every({
        "push through": _titled(
            identical(inner @ A if swapped else A @ inner, outer @ A),
            "entry of (I + AB)^-1 A", f"entry of {form}",
        ),
        "inverse": identical(left - A @ inner @ B, outer),
        "determinants": identical(torch.linalg.det(right + B @ A), torch.linalg.det(left + A @ B)),
    })


@claim(control={"sigma2": 1.0}, source="Albert 1972, thm. 3.4; Penrose 1955")
def pseudoinverse_limits(
    seed: Seed, *, rows: Annotated[int, Range(10, 80)] = 12,
    columns: Annotated[int, Range(10, 80)] = 20, rank: Annotated[int, Range(1, 10)] = 6,
    sigma2: Annotated[float, Range(1e-4, 10)] = 1e-3,
) -> Evidence:
    r"""Both ridge forms tend to $W^+$, at any rank, and miss it by $O(\sigma^2)$."""
    W = _with_values(seed.torch(), rows, columns, torch.linspace(1, 3, rank))  # the smallest is 1
    ridges, exact = sigma2 * torch.logspace(-1, 0, 9, dtype=W.dtype), ridge_pinv(W, 0.0)
    parts = {}
    for side in ("left", "right"):
        tries = torch.stack([ridge_pinv(W, float(s), side) for s in ridges])
        missed = torch.linalg.matrix_norm(tries - exact, ord=2)
        parts[side] = slope(
            ridges, missed, 1.0, tol=0.02, why="the line bends by σ²/d², the largest of which is "
            "0.001 unless the knob is turned", labels=("σ²", "distance from the pseudo-inverse"),
        )
        parts[f"{side}, closed form"] = equal(
            missed, ridges / (1 + ridges), tol=1e-8, why="rounding of squares up to 9, over σ²"
        )
    fourfold = [exact @ W @ exact - exact, (exact @ W).mT - exact @ W, (W @ exact).mT - W @ exact]
    defects = torch.stack([one.abs().max() for one in [W @ exact @ W - W, *fourfold]])
    return every({**parts, "Penrose's four equations": identical(defects, 0.0)})


@claim(
    control={"wide_product": "pinv(W) W"}, source="Penrose 1955",
    misprint=r"names swapped: the left inverse is the one with $WW^+=I$",
)
def one_sided_inverses(
    seed: Seed, *, few: Annotated[int, Range(1, 40)] = 5, many: Annotated[int, Range(50, 200)] = 60,
    wide_product: Literal["W pinv(W)", "pinv(W) W"] = "W pinv(W)",
) -> Evidence:
    r"""Wide W of full rank: $W^\top(WW^\top)^{-1}$ has $WW^+=I$; tall W has a left inverse."""
    wide, tall = randn(seed.torch(), 2, few, many)
    tall = tall.mT
    right = wide.mT @ torch.linalg.inv(wide @ wide.mT)
    left = torch.linalg.inv(tall.mT @ tall) @ tall.mT
    product = wide @ right if wide_product == "W pinv(W)" else right @ wide
    values = torch.linalg.eigvalsh((product + product.mT) / 2)
    return every({
        "wide": identical(product, torch.eye(len(product)).to(wide)).drawn(
            Series(wide_product, range(1, len(values) + 1), values.flip(0)),
            Series("identity", [1, len(values)], [1, 1], "predicted"),
            x="number", y=f"eigenvalue of {wide_product}",
        ),
        "tall": identical(left @ tall, torch.eye(few).to(tall)),
        "right inverse is pinv": identical(right, ridge_pinv(wide, 0.0)),
        "left inverse is pinv": identical(left, ridge_pinv(tall, 0.0, "left")),
    })


@claim(control={"vec": "column-major"}, source="Van Loan 2000, sec. 2")
def kronecker(
    seed: Seed, *, rows: Annotated[int, Range(2, 15)] = 4,
    columns: Annotated[int, Range(2, 15)] = 3,
    vec: Literal["row-major", "column-major"] = "row-major",
) -> Evidence:
    r"""$(A\otimes B)\mathrm{vec}X=\mathrm{vec}AXB^\top$; a product of Kronecker products is one."""
    rng, (m, n, p, q) = seed.torch(), (rows, columns, rows + 1, columns + 2)
    A, B, X = randn(rng, m, n), randn(rng, p, q), randn(rng, n, q)
    A2, B2 = randn(rng, n, m), randn(rng, q, p)
    listed = torch.ravel if vec == "row-major" else lambda M: M.mT.ravel()
    many, big = randn(rng, 3, n * q), torch.kron(A, B)
    return every({
        "vec": _titled(
            identical(listed(A @ X @ B.mT), big @ listed(X)), "(A⊗B) vec(X)", "vec(AXB')"
        ),
        "product": identical(big @ torch.kron(A2, B2), torch.kron(A @ A2, B @ B2)),
        "kron_matvec": identical(kron_matvec(A, B, many), many @ big.mT),
    })


@experiment(
    reaches={
        "relative_error": at_most_goal(0.104), "psnr": at_least_goal(23.4),
        "tail_difference": at_most_goal(1e-10),
    },
    floor={"relative_error": at_most_goal(0.104), "tail_difference": at_most_goal(1e-10)},
    source="Eckart and Young (1936): the error is the root of the sum of squares of the singular "
    "values that are left out; LAPACK's values for scikit-learn's china.jpg give 0.1028",
)
def photograph_rank(
    run: Run, *, photograph: Literal["china", "flower"] = "china",
    rank: Annotated[int, Range(1, 427)] = 50,
) -> None:
    """Writes a gray photograph as a sum of few products of a column and a row."""
    gray = torch.tensor(photographs()[photograph]).double().mean(dim=-1)
    U, s, Vh = torch.linalg.svd(gray, full_matrices=False)
    tails = s.square().flip(0).cumsum(0).flip(0).sqrt()  # of rank 0, 1, ...
    rest, errors = gray.clone(), [frobenius_norm(gray)]
    for k in range(len(s)):
        rest -= s[k] * torch.outer(U[:, k], Vh[k])
        errors.append(frobenius_norm(rest))
    measured, predicted = torch.stack(errors) / errors[0], torch.cat([tails, s[:1] * 0]) / errors[0]
    missed = float(measured[rank])
    peak = 255**2 * gray.numel() / float(errors[rank] ** 2)
    run.record(relative_error=missed, psnr=10 * math.log10(peak))
    run.record(tail_difference=float((measured - predicted).abs().max()))
    kept = sorted({5, 20, 50, 100, rank})
    shown = [(U[:, :k] * s[:k]) @ Vh[:k] for k in kept] + [gray]
    small = [avg_pool2d(255 - one.clamp(0, 255)[None], 3)[0].round() for one in shown]  # ink
    names = [*(f"rank {k}, error {float(measured[k]):.3f}" for k in kept), "photograph"]
    run.figure("photographs", figures.images(small, names, columns=3).update_layout(height=560))
    ranks = range(1, len(s) + 1)
    run.figure("spectrum", figures.draw(Picture(
        (Series("relative error of rank k", ranks[:-1], measured[1:-1]),
         Series("from the singular values", ranks[:-1], predicted[1:-1], "predicted"),
         Series("singular value k, in those of the norm", ranks, s / errors[0], "other")),
        x="k", y="share of the norm", log="xy",
    )))


@experiment(
    reaches={"speedup": at_least_goal(10), "difference": at_most_goal(1e-9)},
    floor={"speedup": at_least_goal(10), "difference": at_most_goal(1e-9)},
    source="Hager 1989: n k² operations in place of n³ / 3; the times are ours", timed=True,
)
def woodbury_speed(
    run: Run, *, rank: Annotated[int, Range(1, 100)] = 20,
    repeats: Annotated[int, Range(1, 20)] = 3,
) -> None:
    """Times a system of a diagonal and a change of small rank, with and without the formula."""
    sizes = [250, 500, 1000, 2000, 4000][: 5 if run.full else 4]
    times, difference = [], math.inf
    for n in run.steps(sizes, "sizes"):
        rng = run.seed.child(n).torch()
        U, V, b = randn(rng, n, rank) / n**0.5, randn(rng, rank, n), randn(rng, n)
        diagonal, C = 1 + torch.rand(n, generator=rng, dtype=U.dtype), torch.eye(rank).to(U)
        whole = diagonal.diag() + U @ C @ V
        jobs = (functools.partial(torch.linalg.solve, whole, b),
                functools.partial(woodbury_solve, diagonal, U, C, V, b))
        times.append(fastest(*jobs, repeats=repeats))
        slow, fast = (job() for job in jobs)
        difference = float((slow - fast).norm() / slow.norm())
    slow, fast = np.array(times).T
    run.record(speedup=slow[-1] / fast[-1], difference=difference)
    run.figure("times", figures.draw(Picture(
        (Series("torch.linalg.solve", sizes, 1000 * slow, "other"),
         Series("woodbury_solve", sizes, 1000 * fast, "measured", "line")),
        x="unknowns n", y="milliseconds", log="xy",
    )))


def _spectra(
    rng: torch.Generator, count: int, dim: int, *kinds: str
) -> tuple[list[str], Tensor]:
    """Draw eigenvalues (count, dim) for each kind in turn; the others have sizes of 0.3 to 1."""
    names = list(itertools.islice(itertools.cycle(kinds), count))
    ends = torch.tensor([SIGNS[name] for name in names], dtype=torch.float64)
    chosen = torch.randint(0, 2, (count, dim), generator=rng)
    chosen[:, 0], chosen[:, 1] = 0, 1  # both signs occur
    size = 0.3 + 0.7 * torch.rand(count, dim, generator=rng, dtype=torch.float64)
    return names, ends.gather(1, chosen) * size


def _turned(rng: torch.Generator, values: Tensor) -> Tensor:
    """Make symmetric matrices (B, n, n) with these eigenvalues (B, n) and random eigenvectors."""
    Q = torch.linalg.qr(randn(rng, *values.shape, values.shape[-1])).Q
    A = (Q * values[:, None, :]) @ Q.mT
    return (A + A.mT) / 2


def _with_values(rng: torch.Generator, m: int, n: int, values: Tensor) -> Tensor:
    """Make a matrix (m, n) with these singular values and random singular vectors."""
    U, V = (torch.linalg.qr(randn(rng, size, len(values))).Q for size in (m, n))
    return (U * values.double()) @ V.mT


def _trace(A: Tensor) -> Tensor:
    return A.diagonal(dim1=-2, dim2=-1).sum(dim=-1)


def _titled(evidence: Evidence, x: str, y: str) -> Evidence:
    """Name the axes of the picture of an equality."""
    return evidence.drawn(*evidence.picture.series, x=x, y=y) if evidence.picture else evidence
