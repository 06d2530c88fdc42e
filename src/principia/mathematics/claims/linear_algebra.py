r"""Matrices: what is true of it, and what would refute it.

Knobs:
    matrices: Random matrices that are looked at.
    dim: Rows of a square matrix; of a Gram matrix, coordinates of a point.
    minors: Which minors judge whether A is PSD; fewer than all principal ones can be fooled.
    vectors: Which x are tried in $x^\top Ax$; along the axes alone one sees only the diagonal.
    symmetric: Whether A is symmetric; if not, minors say nothing about $x^\top Ax$.
    sets: Random sets of points, each of which gives a Gram matrix.
    points: Points of a set, which are the rows of its Gram matrix.
    power: Power of the distance in the RBF kernel; above 2 it is not PSD, nor is the Laplacian.
    offset: What the polynomial kernel adds to the dot product; below 0 it is not PSD.
    kind: Which matrices are factored; an indefinite one has no factor.
    order: How three factors are moved in a trace; it changes unless they stay in their circle.
    inner: The product whose trace is a dot product, which needs a transpose; of Woodbury's formula,
        what stands in the small system, which has to be the inverse of C.
    rows: Rows of the matrix; of two that are multiplied, of the left one.
    columns: Columns of the matrix; of two that are multiplied, of the left one.
    Q: What A is multiplied by; what is not orthogonal changes its norm.
    ratio: Each singular value as a share of the one before; near 1 power iteration is slow.
    pairs: Pairs of matrices whose product is compared with its bound.
    norm: What is called the size of a matrix; its largest entry bounds neither products nor
        vectors.
    n: Rows of the matrix that is to be inverted.
    k: Rank of what is added to it, and rows of the small system.
    form: How the other side is written; with A on the wrong side it is another matrix.
    rank: How many singular values are not 0; where it is below both sides, nothing inverts W.
    sigma2: The largest ridge; only one far below the squared singular values errs in proportion.
    few: The shorter side of W.
    many: The longer side of W.
    inverse_from: From which side the inverse multiplies; from the other there is no identity.
    vec: How a matrix becomes one vector; column after column, the two factors change places.
"""

import functools
import itertools
import math
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

import principia.mathematics._matrix_zoo as zoo
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
    never,
    slope,
)
from principia.lab.params import Range
from principia.lab.pictures import side_by_side
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
NEAR_1 = (0.99, 0.997)  # of a largest singular value of 1: far too near for 100 steps
WAYS = ("entries", "trace", "singular values")
ALIKE = "equivalent: no exception"


@claim(
    control=[
        Control({"minors": "trace and determinant"}, ["principal minors"], "a sum and one minor"),
        Control({"vectors": "axes"}, ["x'Ax"], "x along the axes alone: the diagonal"),
    ],
    source="Horn and Johnson 2013, thms. 7.2.1, 7.2.5 and 7.2.7",
)
def psd_characterizations(
    seed: Seed, *, matrices: Draws = 500, dim: Annotated[int, Range(3, 8)] = 5,
    minors: Literal["all", "trace and determinant"] = "all",
    vectors: Literal["searched", "axes"] = "searched",
) -> Evidence:
    r"""$x^\top Ax\ge0$, $\lambda_i\ge0$, all principal minors $\ge0$ and $A=LL^\top$ are one."""
    rng = seed.torch()
    names, spectra = zoo.drawn_spectra(rng, matrices, dim, *zoo.SIGNS)
    # trace and determinant cannot tell -1, -1, 3, 1, ... from positive eigenvalues
    names[-1], spectra[-1] = "indefinite", torch.tensor([-1, -1, 3] + [1] * (dim - 3))
    names[-2], spectra[-2] = "PSD", 0
    A, least = zoo.turned(rng, spectra), spectra.amin(dim=1)
    truth, lowest = least >= 0, principal_minors(A).amin(dim=1)
    judged = is_psd(A, method="minors")
    if minors == "trace and determinant":
        lowest = torch.minimum(A.diagonal(dim1=1, dim2=2).sum(dim=1), torch.linalg.det(A))
        judged = lowest >= -1e-12
    # a search for x with x'Ax < 0: powers of cI - A turn any x to the smallest eigenvalue
    lowered = torch.eye(dim).to(A) - A / frobenius_norm(A).clamp(min=1)[:, None, None]
    x = torch.linalg.matrix_power(lowered, 256) @ randn(rng, matrices, dim, 8)
    x = x / x.norm(dim=1, keepdim=True) if vectors == "searched" else torch.eye(dim).to(A)
    found = (x * (A @ x)).sum(dim=1).amin(dim=1)
    return every({
        "principal minors": never(judged != truth, why=ALIKE).drawn(
            Series("matrices", least, lowest), x="smallest eigenvalue",
            y="smallest principal minor" if minors == "all" else f"smaller one of {minors}",
        ),
        "x'Ax": never((found >= -1e-10) != truth, why=ALIKE),
        "eigenvalues": never(is_psd(A) != truth, why=ALIKE),
        "A = LL'": never(is_psd(A, method="cholesky") != truth, why=ALIKE),
        "names": never(np.array([definiteness(M) for M in A]) != np.array(names), why=ALIKE),
        "what counts as 0": never(_wrong_near_zero(dim), why="all beyond a share of the largest"),
    })


def _wrong_near_zero(dim: int) -> list[bool]:
    """Judge matrices whose least eigenvalue lies near what counts as 0."""
    wrong: list[bool] = []
    for A, tol, room in zoo.near_zero(dim):
        for method in ("eigh", "cholesky", "minors"):
            wrong += [is_psd(A, method=method, **tol).tolist() != [False, True, True, True]]
        kinds = [definiteness(sign * M, **tol) for sign in (1, -1) for M in A]
        expected = ["indefinite", "PSD", "PSD", "PD", "indefinite", "NSD", "NSD", "ND"]
        wrong += [kind != one for kind, one in zip(kinds, expected, strict=True)]
        L = psd_factor(A[1:], **tol)
        wrong += [bool((L @ L.mT - A[1:]).abs().max() > room)]
    return wrong


@claim(control={"symmetric": False}, source="Sylvester 1852; Horn and Johnson 2013, thm. 7.2.5")
def sylvester_definite(
    seed: Seed, *, matrices: Draws = 500, dim: Annotated[int, Range(2, 10)] = 5,
    symmetric: bool = True,
) -> Evidence:
    r"""PD: all leading minors are $>0$; ND: their signs alternate, the first being negative."""
    rng = seed.torch()
    A = zoo.turned(rng, zoo.drawn_spectra(rng, matrices, dim, "PD", "ND", "indefinite")[1])
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
    control={"minors": "leading > 0"}, refutes=["signs"], source="Prussing 1986",
    misprint=r"PSD iff the leading minors are positive, otherwise indefinite",
)
def sylvester_semidefinite(
    seed: Seed, *, matrices: Draws = 500, dim: Annotated[int, Range(2, 8)] = 4,
    minors: Literal["all principal ≥ 0", "leading > 0", "leading ≥ 0"] = "all principal ≥ 0",
) -> Evidence:
    r"""PSD needs every principal minor $\ge0$, not only the leading ones."""
    rng = seed.torch()
    spectra = zoo.drawn_spectra(rng, matrices, dim, "PSD", "NSD", "indefinite")[1]
    spectra[:, 2:3] = 0  # all singular, but for indefinite ones of two rows
    A = zoo.turned(rng, spectra)
    A[-2:] = 0
    A[-2, 1, 1], A[-1, :2, :2] = -1, 1  # diag(0, -1), and ones
    least = torch.linalg.eigvalsh(A)[:, 0]
    lowest = (principal_minors if minors.startswith("all") else leading_minors)(A).amin(dim=1)
    verdict = lowest > 1e-10 if minors == "leading > 0" else lowest >= -1e-10
    if minors.startswith("all"):
        verdict = is_psd(A, method="minors")
    values = randn(rng, 3, dim)
    sizes = (itertools.combinations(range(dim), k) for k in range(1, dim + 1))
    products = [values[:, rows].prod(dim=1) for of_size in sizes for rows in of_size]
    return every({
        "signs": never(verdict != (least >= -1e-10), why=ALIKE).drawn(
            Series("matrices", least, lowest), x="smallest eigenvalue",
            y=f"smallest minor ({minors})",
        ),
        "of a diagonal matrix": equal_to_rounding(
            principal_minors(values.diag_embed()), torch.stack(products, dim=1)
        ),
    })


@claim(control={"power": 4.0, "offset": -1.0}, source="Schoenberg 1938; Schölkopf and Smola 2002")
def kernel_gram_psd(
    seed: Seed, *, sets: Annotated[int, Range(2, 200)] = 100,
    points: Annotated[int, Range(4, 60)] = 30, dim: Annotated[int, Range(1, 10)] = 3,
    power: Annotated[float, Range(0.5, 4)] = 2.0, offset: Annotated[float, Range(-1, 2)] = 1.0,
) -> Evidence:
    r"""Gram matrices $k(x_i,x_j)$ of RBF, Laplacian and polynomial kernels are PSD."""
    parts = {}
    for name, gram in zoo.grams(randn(seed.torch(), sets, points, dim), power, offset).items():
        values = torch.linalg.eigvalsh(gram)
        least = values[:, 0] / values.abs().amax(dim=1)
        parts[name] = at_least(
            least, 0.0, slack=1e-10, why="rounding, as a share of the largest eigenvalue"
        ).drawn(
            Series(name, range(1, points + 1), values[0].flip(0), style="line"),
            Series("0", [1, points], [0, 0], "bound"), x="number", y="eigenvalue of a Gram matrix",
        )
        judged = torch.stack([is_psd(gram), is_psd(gram, method="cholesky")])
        parts[f"is_psd: {name}"] = never(~judged, why=ALIKE)
    return every(parts)


@claim(
    control={"kind": "indefinite"}, refutes=["no factor", "LL' = A"],
    source="Horn and Johnson 2013, cor. 7.2.9",
)
def cholesky(
    seed: Seed, *, matrices: Draws = 100, dim: Annotated[int, Range(2, 30)] = 10,
    kind: Literal["PD", "indefinite"] = "PD",
) -> Evidence:
    r"""$A=LL^\top$ with a triangular $L$ of positive diagonal iff A is PD; jitter helps others."""
    rng = seed.torch()
    spectra = zoo.drawn_spectra(rng, matrices, dim, kind)[1]
    spectra[:, 0] *= torch.logspace(-6, 0, matrices, dtype=spectra.dtype)  # some nearly singular
    A = zoo.turned(rng, spectra)
    singular = zoo.turned(rng, zoo.drawn_spectra(rng, matrices, dim, "PSD")[1])
    both, jitter = torch.cat([A, singular]) if kind == "PD" else singular, 1e-8
    L, root = psd_factor(A) if kind == "PD" else torch.linalg.cholesky_ex(A).L, psd_factor(both)
    minors = leading_minors(A)
    pivots = torch.cat([minors[:, :1], minors[:, 1:] / minors[:, :-1]], dim=1)
    raised = psd_factor(singular + jitter * torch.eye(dim).to(A))
    missed = torch.linalg.matrix_norm(raised @ raised.mT - singular, ord=2)
    return every({
        "no factor": never(
            ~is_psd(A, method="cholesky"), why="a pivot that is not positive has no root"
        ).drawn(
            Series("matrices", spectra.amin(dim=1), pivots.amin(dim=1)),
            x="smallest eigenvalue", y="smallest pivot", log="xy" if kind == "PD" else "",
        ),
        "LL' = A": equal_to_rounding(L @ L.mT, A),
        "above the diagonal": never(L.triu(1) != 0, why="triangular"),
        "roots of the pivots": equal(
            L.diagonal(dim1=1, dim2=2), pivots.sqrt(), tol=1e-8,
            why="rounding of minors, whose blocks have conditions of up to 1e7",
        ),
        "singular, from eigenvectors": equal_to_rounding(root @ root.mT, both),
        "singular, with jitter": equal(
            missed, jitter, tol=1e-12, why="the jitter itself, and rounding of numbers up to 1"
        ),
    })


@claim(
    control=[
        Control({"order": "ACB"}, ["cyclic"], "two factors exchanged"),
        Control({"inner": "Tr AB"}, ["inner product"], "a product that is not transposed"),
    ],
    source="Horn and Johnson 2013, ch. 1 and sec. 1.2",
)
def trace_rules(
    seed: Seed, *, matrices: Draws = 100, dim: Annotated[int, Range(3, 8)] = 6,
    order: Literal["CAB", "ACB"] = "CAB", inner: Literal["Tr A'B", "Tr AB"] = "Tr A'B",
) -> Evidence:
    r"""Tr is $\sum\lambda_i$; $\mathrm{Tr}ABC=\mathrm{Tr}CAB$; Tr $A^\top B$ is a dot product."""
    rng, rows = seed.torch(), dim if order == "ACB" else dim - 2  # else the shapes would tell
    A, B = randn(rng, 2, matrices, dim, dim)
    P, Q, R = (randn(rng, matrices, *shape) for shape in ((rows, dim), (dim, dim), (dim, rows)))
    moved = R @ P @ Q if order == "CAB" else P @ R @ Q
    traces = [torch.einsum("bii->b", product) for product in (moved, P @ Q @ R)]
    dots = torch.einsum("bij,bij->b" if inner == "Tr A'B" else "bij,bji->b", A, B)
    both, one, other = (frobenius_norm(M, method="trace").square() for M in (A + B, A, B))
    # minors of one row sum up to the trace, those of k rows to all products of k eigenvalues
    minors = principal_minors(A).split([math.comb(dim, k) for k in range(1, dim + 1)], dim=1)
    sums = torch.stack([of_size.sum(dim=1) for of_size in minors])
    return every({
        "cyclic": equal_to_rounding(*traces).pictured(side_by_side({
            f"ABC, trace {traces[1][0]:.4g}": (P @ Q @ R)[0],
            f"{order}, trace {traces[0][0]:.4g}": moved[0],
        })),
        "eigenvalues": equal_to_rounding(sums, zoo.symmetric_functions(torch.linalg.eigvals(A))),
        "inner product": equal_to_rounding((both - one - other) / 2, dots),
    })


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
    exact, moved = torch.linalg.matrix_norm(A), turn @ A
    return every({
        "‖QA‖": equal_to_rounding(frobenius_norm(moved), exact).pictured(side_by_side({
            f"A, norm {exact[0]:.4g}": A[0], f"QA, norm {moved[0].norm():.4g}": moved[0],
        })),
        **{way: equal_to_rounding(frobenius_norm(A, method=way), exact) for way in WAYS},
    })


@claim(
    control={"norm": "largest entry"}, refutes=["‖AB‖ ≤ ‖A‖‖B‖", "no vector is stretched more"],
    source="Horn and Johnson 2013, sec. 5.6",
)
def spectral_norm_claim(
    seed: Seed, *, rows: Annotated[int, Range(3, 100)] = 30,
    columns: Annotated[int, Range(3, 100)] = 20, ratio: Annotated[float, Range(0, 0.9)] = 0.8,
    pairs: Annotated[int, Range(100, 20_000)] = 10_000,
    norm: Literal["spectral", "largest entry"] = "spectral",
) -> Evidence:
    r"""$\max\Vert Ax\Vert/\Vert x\Vert=\sigma_1$; $\Vert AB\Vert\le\Vert A\Vert\,\Vert B\Vert$."""
    rng, few, numbers = seed.torch(), slice(0, 300), range(1, 13)
    A = zoo.with_values(rng, rows, columns, 3 * ratio ** torch.arange(min(rows, columns)))
    (L, R), x = randn(rng, 2, pairs, 4, 4), randn(rng, columns, 1000)
    x[:, 0], L[0], R[0] = torch.linalg.svd(A).Vh[0], 1, 1  # what is stretched most; ones

    def size(M: Tensor) -> Tensor:
        entries = norm == "largest entry"
        return M.abs().amax(dim=(-2, -1)) if entries else torch.linalg.matrix_norm(M, ord=2)

    def start() -> torch.Generator:
        return seed.child("start").torch()

    products, bounds = size(L @ R), size(L) * size(R)
    found = torch.stack([spectral_norm(A, steps=t, rng=start()) for t in numbers])
    predicted = torch.stack([zoo.after_powers(A, t, start()) for t in numbers])
    slow = torch.stack([zoo.with_values(rng, 5, 3, torch.tensor([1, v, 0.9])) for v in NEAR_1])
    slowly = zoo.after_powers(slow, 100, start())  # which is what it takes if nobody says otherwise
    by_products = spectral_norm((slow[0].mv, slow[0].mT.mv, 3), steps=9, rng=start())
    return every({
        "‖AB‖ ≤ ‖A‖‖B‖": never(products > bounds * (1 + 1e-12), why="a theorem").drawn(
            Series("products", bounds[few], products[few]),
            Series("bound", bounds[few].sort().values, bounds[few].sort().values, "bound"),
            x="‖A‖ ‖B‖", y="‖AB‖",
        ),
        "no vector is stretched more": equal(
            ((A @ x).norm(dim=0) / x.norm(dim=0)).max(),
            spectral_norm(A, rng=rng) if norm == "spectral" else size(A), tol=1e-6,
            why="(σ2/σ1)^400 is below 1e-18: all but a start almost orthogonal to v1 is forgotten",
        ),
        "power iteration": equal_to_rounding(found, predicted).drawn(
            Series("1 - estimate / σ1", numbers, 1 - found / 3 + 1e-16),
            Series("from powers of A'A", numbers, 1 - predicted / 3 + 1e-16, "predicted"),
            x="steps t", y="error", log="y",
        ),
        "slow ones": equal_to_rounding(spectral_norm(slow, rng=start()), slowly),
        "by products": equal_to_rounding(by_products, zoo.after_powers(slow[0], 9, start())),
        "of nothing": equal(spectral_norm(0 * slow, rng=rng), 0, tol=0, why="not 0/0"),
    })


@claim(control={"inner": "C"}, refutes=["general A", "A = I"], source="Woodbury 1950; Hager 1989")
def woodbury(
    seed: Seed, *, n: Annotated[int, Range(60, 400)] = 200, k: Annotated[int, Range(1, 50)] = 5,
    inner: Literal["inverse of C", "C"] = "inverse of C",
) -> Evidence:
    r"""$(A+UCV)^{-1}=A^{-1}-A^{-1}U(C^{-1}+VA^{-1}U)^{-1}VA^{-1}$, and the same with $A=I$."""
    rng = seed.torch()
    U, V, C = randn(rng, n, k) / n**0.5, randn(rng, k, n) / n**0.5, randn(rng, k, k)
    A = zoo.turned(rng, 1 + rand(rng, 1, n))[0]
    core, b, parts = C if inner == "C" else torch.linalg.inv(C), randn(rng, n, 3), {}
    for name, M in (("general A", A), ("A = I", torch.eye(n).to(A))):
        inverse, exact = torch.linalg.inv(M), torch.linalg.inv(M + U @ C @ V)
        ours = inverse - inverse @ U @ torch.linalg.inv(core + V @ inverse @ U) @ V @ inverse
        change, claimed = ((one - inverse)[:16, :16] for one in (exact, ours))
        parts[name] = equal_to_rounding(ours, exact).pictured(side_by_side({
            "change of the inverse": change, "claimed": claimed, "missed": change - claimed,
        }))
        solved = woodbury_solve(functools.partial(torch.linalg.solve, M), U, C, V, b)
        parts[f"woodbury_solve, {name}"] = equal_to_rounding(solved, exact @ b)
    diagonal, C, V = 1 + rand(rng, n), randn(rng, k, k + 2), randn(rng, k + 2, n) / n**0.5
    solved = woodbury_solve(diagonal, U, C, V, b[:, 0])  # C is not even square
    parts["a diagonal"] = equal_to_rounding(diagonal * solved + U @ (C @ (V @ solved)), b[:, 0])
    return every(parts)


@claim(
    control={"form": "(I + BA)^-1 A"}, refutes=["push through"],
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
    inner, ones = torch.linalg.inv(right + B @ A), torch.ones(rows).to(A)
    outer, pushed = torch.linalg.solve(left + A @ B, A), inner @ A if swapped else A @ inner
    return every({
        "push through": equal_to_rounding(pushed, outer).pictured(side_by_side({
            "(I + AB)^-1 A": outer, form: pushed, "missed": pushed - outer,
        })),
        "small system": equal_to_rounding(woodbury_solve(ones, A, right, B, A), A @ inner),
        "inverse": equal_to_rounding(woodbury_solve(ones, A, right, B, left), left - A @ inner @ B),
    })


@claim(
    control={"sigma2": 1.0}, refutes=["left, rate", "right, rate"],
    source="Albert 1972, thm. 3.4; Penrose 1955",
)
def pseudoinverse_limits(
    seed: Seed, *, rows: Annotated[int, Range(10, 80)] = 12,
    columns: Annotated[int, Range(10, 80)] = 20, rank: Annotated[int, Range(1, 10)] = 6,
    sigma2: Annotated[float, Range(1e-4, 10)] = 1e-3,
) -> Evidence:
    r"""Both ridge forms tend to $W^+$, at any rank, and miss it by $O(\sigma^2)$."""
    W = zoo.with_values(seed.torch(), rows, columns, torch.linspace(1, 3, rank))  # least: 1
    ridges, exact = sigma2 * torch.logspace(-1, 0, 9, dtype=W.dtype), ridge_pinv(W, 0.0)
    parts = {}
    for side in ("left", "right"):
        tries = torch.stack([ridge_pinv(W, float(s), side) for s in ridges])
        missed = torch.linalg.matrix_norm(tries - exact, ord=2)
        parts[f"{side}, rate"] = slope(
            ridges, missed, 1.0, tol=0.02, why="the line bends by σ²/d², the largest of which is "
            "0.001 unless the knob is turned", labels=("σ²", "distance from the pseudo-inverse"),
        )
        parts[f"{side}, closed form"] = equal(
            tries, zoo.shrunk(W, rank, ridges), tol=1e-8, why="rounding of squares up to 9, over σ²"
        )
    twice = [W @ exact @ W - W, exact @ W @ exact - exact]
    defects = [gap.abs().max() for gap in (*twice, *(M.mT - M for M in (exact @ W, W @ exact)))]
    return every({**parts, "Penrose's equations": equal_to_rounding(torch.stack(defects), 0.0)})


@claim(
    control={"inverse_from": "the other side"}, refutes=["wide", "tall"], source="Penrose 1955",
    misprint=r"names swapped: the left inverse is the one with $WW^+=I$",
)
def one_sided_inverses(
    seed: Seed, *, few: Annotated[int, Range(1, 40)] = 5, many: Annotated[int, Range(50, 200)] = 60,
    inverse_from: Literal["right if wide", "the other side"] = "right if wide",
) -> Evidence:
    r"""Wide W of full rank: $W^\top(WW^\top)^{-1}$ has $WW^+=I$; tall W has a left inverse."""
    wide, turned = randn(seed.torch(), 2, few, many)
    tall, right = turned.mT, wide.mT @ torch.linalg.inv(wide @ wide.mT)
    left = torch.linalg.inv(tall.mT @ tall) @ tall.mT
    product, other = wide @ right, left @ tall
    if inverse_from == "the other side":
        product, other = right @ wide, tall @ left
    return every({
        "wide": equal_to_rounding(product, torch.eye(len(product)).to(wide)).pictured(
            side_by_side({"wide W, inverse": product, "tall W, inverse": other})
        ),
        "tall": equal_to_rounding(other, torch.eye(len(other)).to(tall)),
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
    rng, (m, n, p, q) = seed.torch(), (rows, columns, rows + 1, columns + 3)
    A, B, X = randn(rng, m, n), randn(rng, p, q), randn(rng, n, q)
    A2, B2 = randn(rng, n, m), randn(rng, q, p)
    listed = torch.ravel if vec == "row-major" else lambda M: M.mT.ravel()
    many, big, moved = randn(rng, 2, 3, n * q), torch.kron(A, B), listed(A @ X @ B.mT)
    y, shown = randn(rng, 2, m * p), big @ listed(X)  # A2 and B2 lead back from where A and B do
    return every({
        "vec": equal_to_rounding(moved, shown).pictured(side_by_side({
            "A⊗B": big, "times vec(X)": shown[:, None], "vec(AXB')": moved[:, None],
            "missed": (moved - shown)[:, None],
        })),
        "product": equal_to_rounding(
            kron_matvec(A, B, kron_matvec(A2, B2, y)), y @ torch.kron(A @ A2, B @ B2).mT),
        "kron_matvec": equal_to_rounding(kron_matvec(A, B, many), many @ big.mT),
    })
