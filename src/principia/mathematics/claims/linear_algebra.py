r"""Matrices: what is true of it, and what would refute it."""

import functools
import itertools
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    slope,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.mathematics.linear_algebra import (
    definiteness,
    frobenius_norm,
    is_psd,
    kron_matvec,
    leading_minors,
    principal_minors,
    psd_factor,
    ridge_pinv,
    spectral_norm,
    woodbury_solve,
)

Draws = Annotated[int, Range(20, 1000)]
# the least and the greatest sign of the eigenvalues of a kind
SIGNS = {"PD": (1, 1), "PSD": (0, 1), "ND": (-1, -1), "NSD": (-1, 0), "indefinite": (-1, 1)}
ALIKE = "equivalent: no exception"


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
    names, spectra = _drawn_spectra(rng, matrices, dim, *SIGNS)
    # trace and determinant cannot tell -1, -1, 3, 1, ... from positive eigenvalues
    names[-1], spectra[-1] = "indefinite", torch.tensor([-1, -1, 3] + [1] * (dim - 3))
    A, least = _turned(rng, spectra), spectra.amin(dim=1)
    truth, trace, det = least >= 0, _trace(A), torch.linalg.det(A)
    if test == "trace and determinant":
        return never(((trace >= 0) & (det >= -1e-12)) != truth, why=ALIKE).drawn(
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
        "names": never(np.array([definiteness(M) for M in A]) != np.array(names), why=ALIKE),
        "trace and determinant": at_least(
            torch.stack([trace, det])[:, truth], 0.0, slack=1e-12,
            why="sum and product of numbers >= 0, after rounding",
        ),
    })


def _drawn_spectra(
    rng: torch.Generator, count: int, dim: int, *kinds: str
) -> tuple[list[str], Tensor]:
    """Draw eigenvalues (count, dim) for each kind in turn; the others have sizes of 0.3 to 1."""
    names = list(itertools.islice(itertools.cycle(kinds), count))
    ends = torch.tensor([SIGNS[name] for name in names], dtype=torch.float64)
    chosen = torch.randint(0, 2, (count, dim), generator=rng)
    chosen[:, 0], chosen[:, 1] = 0, 1  # both signs occur
    return names, ends.gather(1, chosen) * (0.3 + 0.7 * rand(rng, count, dim))


def _turned(rng: torch.Generator, values: Tensor) -> Tensor:
    """Make symmetric matrices (B, n, n) with these eigenvalues (B, n) and random eigenvectors."""
    Q = torch.linalg.qr(randn(rng, *values.shape, values.shape[-1])).Q
    A = (Q * values[:, None, :]) @ Q.mT
    return (A + A.mT) / 2


def _trace(A: Tensor) -> Tensor:
    return A.diagonal(dim1=-2, dim2=-1).sum(dim=-1)


@claim(control={"symmetric": False}, source="Sylvester 1852; Horn and Johnson 2013, thm. 7.2.5")
def sylvester_definite(
    seed: Seed, *, matrices: Draws = 500, dim: Annotated[int, Range(2, 10)] = 5,
    symmetric: bool = True,
) -> Evidence:
    r"""PD: all leading minors are $>0$; ND: their signs alternate, the first being negative."""
    rng = seed.torch()
    A = _turned(rng, _drawn_spectra(rng, matrices, dim, "PD", "ND", "indefinite")[1])
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
    spectra = _drawn_spectra(rng, matrices, dim, "PSD", "NSD", "indefinite")[1]
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
        values = torch.linalg.eigvalsh(gram := kernels[name]())
        least = values[:, 0] / values.abs().amax(dim=1)
        parts[name] = at_least(
            least, 0.0, slack=1e-10, why="rounding, as a share of the largest eigenvalue"
        ).drawn(
            Series(name, range(1, points + 1), values[0].flip(0), style="line"),
            Series("0", [1, points], [0, 0], "bound"), x="number", y="eigenvalue of a Gram matrix",
        )
        parts[f"{name}, by factors"] = never(~is_psd(gram, method="cholesky"), why=ALIKE)
    return every(parts)


@claim(
    control={"kind": "indefinite"},
    refutes=["no factor", "LL' = A"],
    source="Horn and Johnson 2013, cor. 7.2.9",
)
def cholesky(
    seed: Seed, *, matrices: Draws = 100, dim: Annotated[int, Range(2, 30)] = 10,
    kind: Literal["PD", "indefinite"] = "PD",
) -> Evidence:
    r"""$A=LL^\top$ with a triangular $L$ of positive diagonal iff A is PD; jitter helps others."""
    rng = seed.torch()
    spectra = _drawn_spectra(rng, matrices, dim, kind)[1]
    spectra[:, 0] *= torch.logspace(-6, 0, matrices, dtype=spectra.dtype)  # some nearly singular
    A = _turned(rng, spectra)
    L, failed = torch.linalg.cholesky_ex(A)
    L = psd_factor(A) if kind == "PD" else L
    minors = leading_minors(A)
    pivots = torch.cat([minors[:, :1], minors[:, 1:] / minors[:, :-1]], dim=1)
    singular = _turned(rng, _drawn_spectra(rng, matrices, dim, "PSD")[1])
    root, jitter = psd_factor(singular), 1e-8
    raised = torch.linalg.cholesky(singular + jitter * torch.eye(dim).to(A))
    missed = torch.linalg.matrix_norm(raised @ raised.mT - singular, ord=2)
    return every({
        "no factor": never(failed > 0, why="a pivot that is not positive has no root").drawn(
            Series("matrices", spectra.amin(dim=1), pivots.amin(dim=1)),
            x="smallest eigenvalue", y="smallest pivot", log="xy" if kind == "PD" else "",
        ),
        "LL' = A": equal_to_rounding(L @ L.mT, A),
        "above the diagonal": never(L.triu(1) != 0, why="triangular"),
        "roots of the pivots": equal(
            L.diagonal(dim1=1, dim2=2), pivots.sqrt(), tol=1e-8,
            why="rounding of minors, whose blocks have conditions of up to 1e7",
        ),
        "singular, from eigenvectors": equal_to_rounding(root @ root.mT, singular),
        "singular, with jitter": equal(
            missed, jitter, tol=1e-12, why="the jitter itself, and rounding of numbers up to 1"
        ),
    })


@claim(control={"order": "ACB"}, refutes=["cyclic"], source="Horn and Johnson 2013, ch. 1")
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
            equal_to_rounding(_trace(moved), _trace(A @ B @ C)), "Tr(ABC)", f"Tr({order})"
        ),
        "eigenvalues": equal_to_rounding(torch.linalg.eigvals(A).real.sum(dim=1), _trace(A)),
        "linear": equal_to_rounding(_trace(2 * A - 3 * B), 2 * _trace(A) - 3 * _trace(B)),
        "transpose": equal_to_rounding(_trace(A.mT), _trace(A)),
        "inner product": equal_to_rounding(_trace(v[:, :, None] * w[:, None]), (v * w).sum(dim=1)),
        "expectation": equal_to_rounding(_trace(A).mean(), _trace(A.mean(dim=0))),
    })


def _titled(evidence: Evidence, x: str, y: str) -> Evidence:
    """Name the axes of the picture of an equality."""
    return evidence.drawn(*evidence.plot.series, x=x, y=y) if evidence.plot else evidence


@claim(control={"Q": "Gaussian"}, refutes=["‖QA‖"], source="Horn and Johnson 2013, sec. 5.6")
def frobenius(
    seed: Seed, *, matrices: Draws = 100, rows: Annotated[int, Range(2, 40)] = 8,
    columns: Annotated[int, Range(1, 40)] = 5,
    Q: Literal["orthogonal", "Gaussian"] = "orthogonal",
) -> Evidence:
    r"""$\sum A_{ij}^2=\mathrm{Tr}A^\top A=\sum\sigma_i^2$, and $\Vert QA\Vert_F=\Vert A\Vert_F$."""
    rng = seed.torch()
    A, turn = randn(rng, matrices, rows, columns), randn(rng, matrices, rows, rows)
    turn = torch.linalg.qr(turn).Q if Q == "orthogonal" else turn
    exact = torch.linalg.matrix_norm(A)
    return every({
        "‖QA‖": _titled(equal_to_rounding(frobenius_norm(turn @ A), exact), "‖A‖", "‖QA‖"),
        "entries": equal_to_rounding(frobenius_norm(A), exact),
        "trace": equal_to_rounding(frobenius_norm(A, method="trace"), exact),
        "singular values": equal_to_rounding(frobenius_norm(A, method="singular values"), exact),
    })


@claim(
    control={"norm": "largest entry"},
    refutes=["‖AB‖ ≤ ‖A‖‖B‖"],
    source="Horn and Johnson 2013, sec. 5.6",
)
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
    x, (L, R), few = randn(rng, columns, 1000), randn(rng, 2, pairs, 4, 4), slice(0, 300)
    L[0] = R[0] = 1

    def size(M: Tensor) -> Tensor:
        entries = norm == "largest entry"
        return M.abs().amax(dim=(1, 2)) if entries else torch.linalg.matrix_norm(M, ord=2)

    products, bounds = size(L @ R), size(L) * size(R)
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


def _with_values(rng: torch.Generator, m: int, n: int, values: Tensor) -> Tensor:
    """Make a matrix (m, n) with these singular values and random singular vectors."""
    U, V = (torch.linalg.qr(randn(rng, size, len(values))).Q for size in (m, n))
    return (U * values.double()) @ V.mT


@claim(control={"inner": "C"}, refutes=["general A", "A = I"], source="Woodbury 1950; Hager 1989")
def woodbury(
    seed: Seed, *, n: Annotated[int, Range(60, 400)] = 200, k: Annotated[int, Range(1, 50)] = 5,
    inner: Literal["inverse of C", "C"] = "inverse of C",
) -> Evidence:
    r"""$(A+UCV)^{-1}=A^{-1}-A^{-1}U(C^{-1}+VA^{-1}U)^{-1}VA^{-1}$, and the same with $A=I$."""
    rng = seed.torch()
    U, V, C = randn(rng, n, k) / n**0.5, randn(rng, k, n) / n**0.5, randn(rng, k, k)
    A = _turned(rng, 1 + rand(rng, 1, n))[0]
    core, b, parts = C if inner == "C" else torch.linalg.inv(C), randn(rng, n, 3), {}
    for name, M in (("general A", A), ("A = I", torch.eye(n).to(A))):
        inverse, exact = torch.linalg.inv(M), torch.linalg.inv(M + U @ C @ V)
        ours = inverse - inverse @ U @ torch.linalg.inv(core + V @ inverse @ U) @ V @ inverse
        parts[name] = _titled(
            equal_to_rounding(ours, exact), "entry of the inverse", "by the formula"
        )
        solver = functools.partial(torch.linalg.solve, M)
        parts[f"woodbury_solve, {name}"] = equal_to_rounding(
            woodbury_solve(solver, U, C, V, b), exact @ b
        )
    diagonal = 1 + rand(rng, n)
    solved = woodbury_solve(diagonal, U, C, V, b[:, 0])
    parts["a diagonal"] = equal_to_rounding(diagonal * solved + U @ (C @ (V @ solved)), b[:, 0])
    return every(parts)


@claim(
    control={"form": "(I + BA)^-1 A"},
    refutes=["push through"],
    source="Henderson and Searle 1981, sec. 1",
)
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
            equal_to_rounding(inner @ A if swapped else A @ inner, outer @ A),
            "entry of (I + AB)^-1 A", f"entry of {form}",
        ),
        "inverse": equal_to_rounding(left - A @ inner @ B, outer),
        "determinants": equal_to_rounding(
            torch.linalg.det(right + B @ A), torch.linalg.det(left + A @ B)
        ),
    })


@claim(
    control={"sigma2": 1.0},
    refutes=["left", "right"],
    source="Albert 1972, thm. 3.4; Penrose 1955",
)
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
    defects = torch.stack([gap.abs().max() for gap in [W @ exact @ W - W, *fourfold]])
    return every({**parts, "Penrose's four equations": equal_to_rounding(defects, 0.0)})


@claim(
    control={"wide_product": "pinv(W) W"},
    refutes=["wide"],
    source="Penrose 1955",
    misprint=r"names swapped: the left inverse is the one with $WW^+=I$",
)
def one_sided_inverses(
    seed: Seed, *, few: Annotated[int, Range(1, 40)] = 5, many: Annotated[int, Range(50, 200)] = 60,
    wide_product: Literal["W pinv(W)", "pinv(W) W"] = "W pinv(W)",
) -> Evidence:
    r"""Wide W of full rank: $W^\top(WW^\top)^{-1}$ has $WW^+=I$; tall W has a left inverse."""
    wide, other = randn(seed.torch(), 2, few, many)
    tall, right = other.mT, wide.mT @ torch.linalg.inv(wide @ wide.mT)
    left = torch.linalg.inv(tall.mT @ tall) @ tall.mT
    product = wide @ right if wide_product == "W pinv(W)" else right @ wide
    values = torch.linalg.eigvalsh((product + product.mT) / 2)
    return every({
        "wide": equal_to_rounding(product, torch.eye(len(product)).to(wide)).drawn(
            Series(wide_product, range(1, len(values) + 1), values.flip(0)),
            Series("identity", [1, len(values)], [1, 1], "predicted"),
            x="number", y=f"eigenvalue of {wide_product}",
        ),
        "tall": equal_to_rounding(left @ tall, torch.eye(few).to(tall)),
        "right inverse is pinv": equal_to_rounding(right, ridge_pinv(wide, 0.0)),
        "left inverse is pinv": equal_to_rounding(left, ridge_pinv(tall, 0.0, "left")),
    })


@claim(control={"vec": "column-major"}, refutes=["vec"], source="Van Loan 2000, sec. 2")
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
    many, big, moved = randn(rng, 3, n * q), torch.kron(A, B), listed(A @ X @ B.mT)
    return every({
        "vec": _titled(equal_to_rounding(moved, big @ listed(X)), "(A⊗B) vec(X)", "vec(AXB')"),
        "product": equal_to_rounding(big @ torch.kron(A2, B2), torch.kron(A @ A2, B @ B2)),
        "kron_matvec": equal_to_rounding(kron_matvec(A, B, many), many @ big.mT),
    })
