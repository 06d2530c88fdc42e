r"""Muon: what is true of it, and what would refute it.

Knobs:
    small: Shorter side of the oblong matrices.
    large: Longer side of the oblong matrices.
    rivals: Other matrices that are tried.
    divide: What a matrix is divided by; its norm alone leaves the singular values unequal.
    rows: Rows of a matrix.
    columns: Columns of a matrix.
    step: The step that is judged; the gradient, of the same norm, gains less.
    steps: How often the polynomial is applied; once is not enough.
    grid: Singular values that are looked at.
    side: Shorter side of the matrices.
    smallest: The smallest singular value that must get to 1, as a share of the norm.
    method: Which polynomial is applied; the quintic one only comes near 1.
    rarest: Variance of the rarest direction of the inputs, where the commonest has 1.
    lr: The learning rate.
    optimizer: Who learns; gradient descent barely moves in rare directions.
    narrow: Shorter side of the oblong matrices.
    wide: Longer side of the oblong matrices.
    scale: What a step is multiplied by; with nothing, its effect depends on the shape.
    momentum: Weight of the past in the momentum.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from principia.lab.draws import randn
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
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.networks.mlp import MLP
from principia.optimization.muon import Muon, orthogonalize, split_parameters

LOW, HIGH = 0.68, 1.21  # where five quintic steps put the singular values from SMALLEST on
SMALLEST = 0.002
Side = Annotated[int, Range(2, 64)]
Draws = Annotated[int, Range(10, 5000)]


@claim(
    control={"divide": "by the norm"}, refutes=["singular values", "distance", "rivals"],
    source="Fan and Hoffman 1955, thm. 1",
)
def update_is_orthogonal(
    seed: Seed, *, small: Annotated[int, Range(2, 32)] = 16,
    large: Annotated[int, Range(32, 128)] = 64, rivals: Draws = 1000,
    divide: Literal["out the singular values", "by the norm"] = "out the singular values",
) -> Evidence:
    r"""$UV^\top$ has all singular values 1; no semi-orthogonal matrix is nearer to $M$."""
    rng, parts = seed.torch(), {}
    for m, n in ((small // 2, small // 2), (large, small), (small, large)):
        M = randn(rng, 2, m, n)
        P = orthogonalize(M) if divide != "by the norm" else M / M.norm(dim=(1, 2), keepdim=True)
        before, after = torch.linalg.svdvals(M), torch.linalg.svdvals(P)
        distance = torch.linalg.matrix_norm(M - P)
        # half of the rivals are anywhere, half close by
        drawn = randn(rng, rivals // 2, 2, m, n)
        drawn[::2] = orthogonalize(M) + 0.01 * drawn[::2]
        others = torch.linalg.matrix_norm(M - _semi_orthogonal(drawn))
        index, top = range(1, len(before[0]) + 1), before[0, 0]
        parts[f"singular values, {m} x {n}"] = equal(
            after, 1, tol=1e-10, why="an identity: float64 rounding"
        ).drawn(
            Series("of the step", index, after[0]),
            Series("all 1", [1, len(index)], [1, 1], "predicted"),
            Series("of M, over its largest", index, before[0] / top, "other"),
            x="number of the singular value", y="singular value", log="y",
        )
        parts[f"distance, {m} x {n}"] = equal_to_rounding(distance, (before - 1).norm(dim=1))
        parts[f"rivals, {m} x {n}"] = at_least(
            others, distance.expand_as(others), slack=1e-12 * math.sqrt(m * n),
            why="a theorem; rounding of a norm",
        )
    # as many directions as there are, and none of them made up: by NumPy's rule for a rank
    flat, thin = (torch.stack([randn(rng, m, 1) @ randn(rng, 1, n), randn(rng, m, n)])
                  for m, n in ((7, 4), (3, 2000)))
    flat[1, 0], flat[1, :, 2] = 0, flat[1, :, 1]
    thin[1] = _with_values(rng, torch.tensor([1.0, 1e-3, 1e-13]), 2000)
    crowd = _with_values(rng, torch.tensor([1.0, 1e-13]), 3).repeat(2000, 1, 1)
    given = [flat, thin, crowd[:1], crowd, flat * 0, flat.float()]
    ranks = [torch.from_numpy(np.linalg.matrix_rank(one.numpy())) for one in given]
    values = [torch.linalg.svdvals(orthogonalize(one)) for one in given]
    parts["directions that are there"] = equal(
        torch.cat([one.flatten() for one in values]),
        torch.cat([(torch.arange(one.shape[1]) < rank[:, None]).double().flatten()
                   for one, rank in zip(values, ranks, strict=True)]),
        tol=1e-5, why="rounding, some of it of float32",
    )
    return every(parts)


def _with_values(rng: torch.Generator, sigma: Tensor, n: int) -> Tensor:
    """Draw a matrix of these singular values, with n columns."""
    U, V = (_semi_orthogonal(randn(rng, len(sigma), one)) for one in (len(sigma), n))
    return (U * sigma) @ V


def _semi_orthogonal(M: Tensor) -> Tensor:
    """Orthonormalize the rows or columns, whichever are fewer, by QR; near M if M is near one."""
    wide = M.shape[-2] < M.shape[-1]
    Q, R = torch.linalg.qr(M.mT if wide else M)
    Q = Q * R.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]
    return Q.mT if wide else Q


@claim(
    control={"step": "gradient"},
    refutes=["gain", "others"],
    source="Fan and Hoffman 1955; Bernstein and Newhouse 2024",
)
def steepest_in_spectral_norm(
    seed: Seed, *, rows: Side = 32, columns: Side = 16, rivals: Draws = 1000,
    step: Literal["orthogonal", "gradient"] = "orthogonal",
) -> Evidence:
    r"""Of all $P$ with $\Vert P\Vert_2\le1$, $UV^\top$ has the largest $\langle G,P\rangle$."""
    rng = seed.torch()
    G = randn(rng, rows, columns)
    P = orthogonalize(G) if step == "orthogonal" else G / torch.linalg.matrix_norm(G, 2)
    nuclear = torch.linalg.matrix_norm(G, "nuc")
    drawn = randn(rng, rivals, rows, columns)
    mixing = torch.rand(rivals, 1, 1, generator=rng, dtype=G.dtype)
    drawn = mixing**2 * drawn + (1 - mixing) * orthogonalize(G)  # some are nearly the best
    drawn = drawn / torch.linalg.matrix_norm(drawn, 2, keepdim=True)
    gains = (drawn * G).sum(dim=(1, 2)) / nuclear
    found, index = (P * G).sum(), torch.linspace(0, 100, rivals)
    return every({
        "gain": equal_to_rounding(found, nuclear).drawn(
            Series("other steps of norm 1, sorted", index, gains.sort().values, style="line"),
            Series("this step", [0, 100], [found / nuclear] * 2, "other"),
            Series("nuclear norm", [0, 100], [1, 1], "bound"),
            x="per cent of the other steps", y="first-order gain, as a share of the nuclear norm",
        ),
        "others": at_most(gains, float(found / nuclear), slack=1e-12, why="a theorem; rounding"),
        "feasible": at_most(torch.linalg.matrix_norm(P, 2), 1, slack=1e-12, why="rounding"),
    })


@claim(control={"steps": 1}, refutes=["lowest"], source="Jordan et al. 2024")
def quintic_range(
    seed: Seed, *, steps: Annotated[int, Range(1, 10)] = 5,
    grid: Annotated[int, Range(100, 20_000)] = 2000, side: Side = 32,
) -> Evidence:
    r"""5 quintic steps put singular values from $0.002\Vert M\Vert_F$ on into $[0.68,1.21]$."""
    before, diagonal = _diagonals(SMALLEST, grid)
    after = orthogonalize(diagonal, "quintic", steps=steps).diagonal(dim1=1, dim2=2)
    rng = seed.torch()
    U, V = (_semi_orthogonal(randn(rng, 20, side, n)) for n in (side, 2 * side))
    sigma = torch.rand(20, side, generator=rng, dtype=U.dtype).mul(-6).exp()
    sigma = sigma / sigma.norm(dim=1, keepdim=True)
    M = 10 * (U * sigma[:, None]) @ V
    found = U.mT @ orthogonalize(M, "quintic", steps=steps) @ V.mT
    values = found.diagonal(dim1=1, dim2=2)[sigma >= SMALLEST]
    mixed = found - torch.diag_embed(found.diagonal(dim1=1, dim2=2))
    both = torch.cat([after[before >= SMALLEST], values])
    curves = [
        Series(f"{k} steps", before[:, 0], orthogonalize(diagonal, "quintic", steps=k)[:, 0, 0],
               "other") for k in (1, 3)
    ]
    return every({
        "lowest": at_least(both, LOW, why="a property of this polynomial, rounded outward").drawn(
            Series(f"{steps} steps", before[:, 0], after[:, 0], style="line"), *curves,
            Series("0.68", [SMALLEST, 1], [LOW] * 2, "bound"),
            Series("1.21", [SMALLEST, 1], [HIGH] * 2, "bound"),
            x="singular value, as a share of the Frobenius norm", y="after the steps", log="x",
        ),
        "highest": at_most(both, HIGH, why="the same"),
        "singular vectors stay": equal(mixed, 0, tol=1e-10, why="an identity: float64 rounding"),
    })


def _diagonals(smallest: float, count: int) -> tuple[Tensor, Tensor]:
    """Give pairs of singular values with squares that sum to 1, and matrices that have them."""
    sigma = torch.logspace(math.log10(smallest), 0, count, dtype=torch.float64)
    sigma[0], sigma[-1] = smallest, 1.0
    pairs = torch.stack([sigma, (1 - sigma**2).sqrt()], dim=1)
    return pairs, torch.diag_embed(pairs)


@claim(
    control={"method": "quintic"}, refutes=["singular values", "tall matrices"],
    source="Higham 1986, for Newton's method; a fixed point at 1",
)
def cubic_converges(
    seed: Seed, *, steps: Annotated[int, Range(30, 100)] = 30,
    smallest: Annotated[float, Range(1e-4, 0.5)] = 1e-3,
    method: Literal["cubic", "quintic"] = "cubic",
) -> Evidence:
    r"""Under $X\leftarrow\frac32X-\frac12XX^\top X$ all singular values above 0 tend to 1."""
    before, diagonal = _diagonals(smallest, 500)
    after = orthogonalize(diagonal, method, steps=steps).diagonal(dim1=1, dim2=2)
    M = randn(seed.torch(), 5, 12, 4)  # tall, none of its singular values below 1e-3 of the norm
    counts = range(1, steps + 1)
    errors = torch.stack([
        (orthogonalize(diagonal[:250:50], method, steps=k)[:, 0, 0] - 1).abs() for k in counts
    ]).clamp(min=1e-17)
    why = "from 1e-4 on 23 steps grow by 3/2 and a few more square the error; then rounding"
    return every({
        "singular values": equal(after[before >= smallest], 1, tol=1e-10, why=why).drawn(
            *(Series(f"from {start:.2g}", counts, curve, "other")
              for start, curve in zip(before[:250:50, 0], errors.mT, strict=True)),
            Series("1e-10", [1, steps], [1e-10] * 2, "bound"),
            x="steps", y="distance of the singular value from 1", log="y",
        ),
        "tall matrices": equal(
            orthogonalize(M, method, steps=steps), orthogonalize(M), tol=1e-10, why=why
        ),
        "polynomials of singular values": _polynomials(seed.child("polynomials").torch()),
    })


def _polynomials(rng: torch.Generator) -> Evidence:
    """Compare with numbers to which the printed polynomials are applied, as often by default."""
    found, expected = [], []
    for shape in ((2, 3, 5, 4), (3, 4, 7), (2, 6), (3, 3)):
        U, sigma, V = torch.linalg.svd(randn(rng, *shape), full_matrices=False)
        sigma[..., -1] *= 1e-6
        M = U * sigma[..., None, :] @ V
        first = sigma / sigma.norm(dim=-1, keepdim=True)
        cubic, quintic = first, first
        for _ in range(30):
            cubic = (3 * cubic - cubic**3) / 2
        for _ in range(5):
            quintic = 3.4445 * quintic - 4.7750 * quintic**3 + 2.0315 * quintic**5
        once = (3 * first - first**3) / 2
        for size in (1.0, 1e-200, 1e200):  # squares of the larger ones are no numbers any more
            found += [
                orthogonalize(size * M, "cubic"), orthogonalize(size * M, "quintic"),
                orthogonalize(size * M, "cubic", steps=1),
            ]
            expected += [U * one[..., None, :] @ V for one in (cubic, quintic, once)]
    ones, half = torch.ones(3, 2, dtype=torch.float64), randn(rng, 4, 3).bfloat16()
    corners = torch.eye(3, 2, dtype=ones.dtype)
    found += [orthogonalize(size * one, "cubic") for size, one in (
        (0, ones), (-1e200, ones), (1e200, corners))]
    expected += [0 * ones, -ones / 6**0.5, corners]
    short = orthogonalize(half, "quintic")  # computed in float32
    found += [short, torch.tensor([short.dtype == half.dtype])]
    expected += [orthogonalize(half.float(), "quintic").bfloat16(), torch.ones(1)]
    return equal(
        *(torch.cat([one.double().flatten() for one in some]) for some in (found, expected)),
        tol=1e-9, why="rounding, multiplied by at most 1.5^30",
    )


@claim(control={"optimizer": "SGD"}, source="Jordan et al. 2024, on why it works")
def rare_directions_amplified(
    seed: Seed, *, side: Side = 16, rarest: Annotated[float, Range(5e-5, 5e-4)] = 1e-4,
    lr: Annotated[float, Range(0.02, 0.1)] = 0.02, optimizer: Literal["Muon", "SGD"] = "Muon",
) -> Evidence:
    r"""However unequal the gradient's directions, the step's are equal: rare ones are learned."""
    rng, variances = seed.torch(), torch.logspace(0, math.log10(rarest), side, dtype=torch.float64)
    target, V = (_semi_orthogonal(randn(rng, rows, side)) for rows in (2 * side, side))
    descent = partial(torch.optim.SGD, lr=1.0)  # 1/L: the largest variance is 1
    kind = partial(Muon, lr=lr, method="svd") if optimizer == "Muon" else descent
    step = torch.linalg.svdvals(_moves(kind, ((target * variances) @ V)[None])[0])

    def rarest_errors(kind: Callable[..., Optimizer], most: int) -> Tensor:
        """Regress on inputs of these variances until the rarest one has half its error."""
        W, errors = nn.Parameter(torch.zeros_like(target)), [1.0]
        method = kind([W])
        while errors[-1] > 0.5 + 1e-9 and len(errors) <= most:
            W.grad = (W.detach() - target) * variances  # of half the expected squared error
            method.step()
            errors.append(float((W.detach() - target)[:, -1].norm()))
        return torch.tensor(errors, dtype=torch.float64)

    halved = math.ceil(math.log(0.5) / math.log1p(-rarest))
    ours = rarest_errors(kind, halved // 10)
    even = 1 - math.sqrt(2) * lr * torch.arange(len(ours), dtype=ours.dtype)  # twice as tall
    shown = torch.tensor(np.unique(np.geomspace(1, halved, 200).astype(int)))
    return every({
        "condition number": at_most(
            step[0] / step[-1], 1 + 1e-8, why=f"rounding, over the smallest of {rarest:g}"
        ),
        "steps to half the error": at_most(
            len(ours) - 1, halved / 50, why="1/(2√2 lr) steps against ln 2 / rarest"
        ),
        "even fall of the error": equal_to_rounding(ours, even),
    }).drawn(
        Series(optimizer, range(1, len(ours)), ours[1:], style="line"),
        Series("gradient descent, 1/L", shown, (1 - rarest) ** shown, "other"),
        Series("half", [1, halved], [0.5, 0.5], "bound"),
        x="step", y="error in the rarest direction", log="x",
    )


def _moves(kind: Callable[..., Optimizer], gradients: Tensor) -> Tensor:
    """Give an optimizer one gradient after the other, (T, ..), and collect its moves."""
    W = nn.Parameter(torch.zeros_like(gradients[0]))
    optimizer, points = kind([W]), [W.detach().clone()]
    for one in gradients:
        W.grad = one
        optimizer.step()
        points.append(W.detach().clone())
    return torch.stack(points).diff(dim=0)


@claim(
    control={"scale": "none"}, refutes=["RMS-to-RMS norm"],
    source="Bernstein and Newhouse 2024, sec. 3",
)
def rms_step_is_shape_free(
    seed: Seed, *, narrow: Annotated[int, Range(4, 64)] = 16,
    wide: Annotated[int, Range(128, 512)] = 256, lr: Annotated[float, Range(0.001, 1)] = 0.02,
    scale: Literal["rms", "none"] = "rms",
) -> Evidence:
    r"""With $\sqrt{d_{out}/d_{in}}$ a step changes outputs by $\eta$ in RMS, for every shape."""
    shapes = ((narrow, wide), (64, 64), (wide, narrow), (narrow, 2, 5, 5))
    rng, found = seed.torch(), []
    kind = partial(Muon, lr=lr, scale=scale, method="svd")
    for shape in shapes:
        moved = _moves(kind, randn(rng, 3, *shape)).flatten(2)
        rows, columns = moved.shape[1:]
        found.append(math.sqrt(columns / rows) * torch.linalg.matrix_norm(moved, 2))
    norms, words = torch.stack(found) / lr, [" x ".join(map(str, shape)) for shape in shapes]
    others, lengths = [], []
    names: tuple[Literal["none", "torch", "rms"], ...] = ("none", "torch", "rms")
    for name, scales in zip(names, ((1, 1), (1, 2), (0.5, 2)), strict=True):
        for shape, length in zip(((4, 16), (16, 4)), scales, strict=True):
            kind = partial(Muon, lr=lr, scale=name, method="svd")
            others.append(torch.linalg.matrix_norm(_moves(kind, randn(rng, 1, *shape)), 2) / lr)
            lengths.append([length])
    return every({
        "RMS-to-RMS norm": equal_to_rounding(norms, torch.ones_like(norms)).drawn(
            Series("measured", words, norms[:, -1]), Series("1", words, [1] * 4, "predicted"),
            x="shape of the weight", y="RMS-to-RMS norm of the step, over lr",
        ),
        "spectral norm of every scale": equal_to_rounding(torch.stack(others), lengths),
    })


@claim(
    control={"wide": True},
    refutes=["longest", "nesterov, longest"],
    source="Jordan et al. 2024; torch.optim.Muon",
)
def torch_muon_agrees(
    seed: Seed, *, rows: Annotated[int, Range(128, 256)] = 128,
    columns: Annotated[int, Range(32, 64)] = 32, steps: Annotated[int, Range(2, 100)] = 50,
    momentum: Annotated[float, Range(0, 0.99)] = 0.5, wide: bool = False,
) -> Evidence:
    r"""For tall matrices `torch.optim.Muon` steps alike, up to bfloat16 and its quintic.

    Args:
        steps: Steps that both take.
        wide: Whether exact steps are those of wide matrices, which torch scales in another way.
    """
    tall, parts, pictures = randn(seed.torch(), steps, rows, columns), {}, []
    for name, nesterov in (("", False), ("nesterov, ", True)):
        settings: dict[str, Any] = {"lr": 0.02, "momentum": momentum, "nesterov": nesterov}
        theirs = partial(torch.optim.Muon, weight_decay=0.0, **settings)
        same = partial(Muon, scale="torch", method="quintic", **settings)
        shapes = (tall, tall.mT)
        found = [_in_bfloat16(theirs, given).flatten(1) for given in shapes]
        for given, moved in zip(shapes, found, strict=True):
            off = (_moves(same, given).flatten(1) - moved).norm(dim=1)
            parts[f"{name}quintic, {given.shape[1]} rows"] = at_most(
                off / moved.norm(dim=1), 0.05, why="bfloat16 has 8 bits, five times over"
            )
        torchs = found[wide]
        exact = _moves(partial(Muon, method="svd", **settings), shapes[wide]).flatten(1)
        cosine, length = F.cosine_similarity(torchs, exact), torchs.norm(dim=1) / exact.norm(dim=1)
        parts |= {
            f"{name}cosine": at_least(
                cosine, 0.98, why="of (1, .., 1) and numbers with the spread of the quintic's"
            ),
            f"{name}shortest": at_least(length, LOW, slack=0.02, why="quintic and bfloat16"),
            f"{name}longest": at_most(length, HIGH, slack=0.02, why="quintic and bfloat16"),
        }
        pictures.append((cosine, length))
    plain = {"lr": 0.02, "momentum": 0.95, "nesterov": False, "scale": "rms", "method": "quintic"}
    by_default = [_moves(partial(Muon, **options), tall[:3]) for options in ({}, plain)]
    parts["defaults"] = equal(*by_default, tol=0, why="the same settings, but for their names")
    parts["matrices of a network"] = _split(seed.child("network").torch())
    t, (cosine, length) = range(1, steps + 1), pictures[0]
    return every(parts).drawn(
        Series("cosine", t, cosine), Series("quotient of lengths", t, length, "other"),
        Series("0.98 for the cosine", [1, steps], [0.98] * 2, "bound"),
        x="step", y="step of torch.optim.Muon against UVᵀ",
    )


def _split(rng: torch.Generator) -> Evidence:
    """Count the parameters of a network of all sorts that are on the wrong side."""
    middle = MLP([6, 5, 5], rng=rng)
    with torch.device("meta"):  # where nothing is drawn
        inner: Any = nn.Sequential(
            nn.Conv1d(3, 4, 2), nn.LayerNorm([4, 6]), middle, nn.RMSNorm([4, 5]),
            nn.EmbeddingBag(7, 2), nn.Linear(5, 2, bias=False),
        )
        model = nn.Sequential(inner, nn.Linear(2, 3))
        tied = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 9))
        alone = nn.Linear(4, 2)
    tied[2].weight = tied[0].weight
    right = [
        (model, [inner[0].weight, *(one.weight for one in inner[2].layers), inner[5].weight]),
        (tied, [tied[1].weight]), (alone, []),
    ]
    wrong = []
    for one, expected in right:
        rest = [p for p in one.parameters() if not any(p is other for other in expected)]
        for found, wanted in zip(split_parameters(one), (expected, rest), strict=True):
            wrong.append(len(found) != len(wanted))
            wrong += [a is not b for a, b in zip(found, wanted, strict=False)]
    return never(torch.tensor(wrong), why="inner matrices, and neither embeddings nor the head")


def _in_bfloat16(kind: Callable[..., Optimizer], gradients: Tensor) -> Tensor:
    """Collect moves without oneDNN: where AMX is named but forbidden, its products are fatal."""
    before = torch.backends.mkldnn.set_flags(_enabled=False)[0]
    try:
        return _moves(kind, gradients)
    finally:
        torch.backends.mkldnn.set_flags(_enabled=before)
