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
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from principia.lab.params import NonNegativeFloat, PositiveInt, checked, usage_error

Kind = Literal["PD", "PSD", "ND", "NSD", "indefinite"]
Products = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor], int]
MOST_ROWS = 12  # of which all 2^n - 1 principal minors are still computed


@checked
def is_psd(
    A: Float[Tensor, "*B n n"], *, method: Literal["eigh", "cholesky", "minors"] = "eigh",
    tol: NonNegativeFloat = 1e-10,
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


def _slack(owner: str, A: Tensor, tol: float) -> Tensor:
    """Refuse what is not symmetric, and give what counts as 0 for each matrix."""
    rows = A.shape[-1]
    share = max(tol, 10 * rows * torch.finfo(A.dtype).eps)
    slack = share * A.abs().amax(dim=(-2, -1))
    if A.shape[-2] != rows or not bool(((A - A.mT).abs() <= slack[..., None, None]).all()):
        hint = "x'Ax is that of the symmetric part: pass (A + A.mT) / 2."
        raise usage_error(owner, "A", "square and symmetric, of finite numbers", A.tolist(), hint)
    return slack


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
        raise usage_error("principal_minors", "A", f"of {MOST_ROWS} rows or fewer", n, hint)
    sizes = (list(itertools.combinations(range(n), k)) for k in range(1, n + 1))
    subsets = [torch.tensor(of_size, device=A.device) for of_size in sizes]
    dets = [torch.linalg.det(A[..., s[:, :, None], s[:, None, :]]) for s in subsets]
    return torch.cat(dets, dim=-1)


@checked
def definiteness(A: Float[Tensor, "n n"], *, tol: NonNegativeFloat = 1e-10) -> Kind:
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
def psd_factor(A: Float[Tensor, "*B n n"], *, tol: NonNegativeFloat = 1e-10) -> Float[
    Tensor, "*B n n"
]:
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
        raise usage_error("psd_factor", "A", "without an eigenvalue below 0", least, hint)
    roots = vectors * values.clamp(min=0).sqrt()[..., None, :]
    return torch.where(failed[..., None, None] == 0, L, roots)


@checked
def spectral_norm(
    A: Float[Tensor, "*B m n"] | Products, *, steps: PositiveInt = 100,
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
        domain = "of shapes (n, k), (k, l), (l, n), (n, ...)"
        hint = "The product U @ C @ V must be square, with the rows of b."
        raise usage_error("woodbury_solve", "U, C, V, b", domain, shapes, hint)
    if diagonal is not None and (diagonal.shape != (n,) or not bool(diagonal.all())):
        domain = f"a function, or a diagonal of {n} entries without a 0"
        raise usage_error("woodbury_solve", "solve_A", domain, diagonal.tolist())
    columns = torch.cat([b.reshape(n, -1), U], dim=1)
    solved = columns / diagonal[:, None] if diagonal is not None else solve_A(columns)  # type: ignore[operator]
    x, Y = solved.split([solved.shape[1] - k, k], dim=1)  # of b and of U
    core = torch.eye(k).to(U) + C @ (V @ Y)  # C times the usual one, which needs its inverse
    small, singular = torch.linalg.solve_ex(core, C @ (V @ x))
    if bool(singular):
        raise usage_error("woodbury_solve", "A + U C V", "invertible", "a singular matrix")
    return (x - Y @ small).reshape(b.shape)


@checked
def ridge_pinv(
    W: Float[Tensor, "*B m n"], sigma2: NonNegativeFloat, side: Literal["left", "right"] = "right"
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
        raise usage_error("kron_matvec", "x", f"of width {n * q}", tuple(x.shape), hint)
    return (A @ x.unflatten(-1, (n, q)) @ B.mT).flatten(-2)
