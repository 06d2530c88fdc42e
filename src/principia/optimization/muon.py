r"""Muon: steps that move all directions of a matrix by the same length.

A weight matrix maps vectors to vectors, and the gradient by it is usually dominated by a few
singular directions: those of common inputs and frequent errors. Muon keeps the singular vectors of
the momentum and sets all its singular values to 1. Among all steps that change no output by more
than a given factor of its input this one lowers the loss most, to first order; and rare directions,
in which gradient descent barely moves, are learned as fast as common ones. The exact way is a
singular value decomposition; in practice a few products of matrices do: a polynomial, odd in the
matrix, acts on each singular value alone. The cubic one tends to exactly 1; the quintic one is
tuned to grow faster near 0, and only comes near 1. The factor $\sqrt{d_{out}/d_{in}}$ makes one
learning rate fit matrices of all shapes. Biases, gains, embeddings and the last layer are left to
AdamW. `torch.optim.Muon` is the one to train with; `Muon` here is the one to read.

$$ M_t = \mu M_{t-1}+\nabla L(W_t), \quad M_t = U\Sigma V^\top, \quad
W_{t+1} = W_t-\eta\sqrt{\frac{d_{out}}{d_{in}}}\,UV^\top $$

$$ UV^\top = \arg\max_{\Vert P\Vert_2\le1}\langle M,P\rangle
= \arg\min_{P\ \text{semi-orthogonal}}\Vert M-P\Vert_F, \quad
\langle M,UV^\top\rangle = \Vert M\Vert_* $$

$$ X_0 = \frac M{\Vert M\Vert_F}, \quad X\leftarrow\frac32X-\frac12XX^\top X \quad\text{or}\quad
X\leftarrow aX+b(XX^\top)X+c(XX^\top)^2X $$

Symbols:
    $W$: weight matrix with $d_{out}$ rows and $d_{in}$ columns; $L$ is the loss
    $M, \mu$: momentum, `momentum` of the state, and the weight `momentum` of its past
    $U, \Sigma, V$: thin singular value decomposition; $P=UV^\top$ is `orthogonalize(M)`
    $X$: iterate of the methods `"cubic"` and `"quintic"`; $a,b,c$ are 3.4445, -4.7750, 2.0315
    $\eta$: `lr`; the root is the `scale` named `"rms"`
    $\Vert\cdot\Vert_2, \Vert\cdot\Vert_F, \Vert\cdot\Vert_*$: largest singular value, root of the
        sum of their squares, and their sum

References:
    Jordan, Jin, Boza, You, Cesista, Newhouse and Bernstein (2024), Muon: an optimizer for hidden
        layers in neural networks. https://kellerjordan.github.io/posts/muon
    Bernstein and Newhouse (2024), Old optimizer, new norm: an anthology. arXiv:2409.20325
    Fan and Hoffman (1955), Some metric inequalities in the space of matrices. Proceedings of the
        American Mathematical Society 6(1). doi:10.1090/S0002-9939-1955-0067841-7
    Higham (1986), Computing the polar decomposition, with applications. SIAM Journal on Scientific
        and Statistical Computing 7(4). doi:10.1137/0907079
    Loshchilov and Hutter (2019), Decoupled weight decay regularization. International Conference on
        Learning Representations. arXiv:1711.05101
"""

__all__ = ["Muon", "orthogonalize", "split_parameters"]

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Count, Positive, Range
from principia.lab.draws import randn
from principia.lab.errors import UsageError, refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.optimizers import GroupOptimizer
from principia.lab.relations import at_least, at_most, equal, every, identical
from principia.lab.seeds import Seed
from principia.lab.training import Part, Supervised, accuracy, evaluate, fit
from principia.networks.mlp import MLP

Method = Literal["svd", "cubic", "quintic"]
POLYNOMIALS = {  # factors of X, of its third and of its fifth power, and how often it is applied
    "cubic": (1.5, -0.5, 0.0, 30),
    "quintic": (3.4445, -4.7750, 2.0315, 5),
}
LOW, HIGH = 0.68, 1.21  # where five quintic steps put the singular values from SMALLEST on
SMALLEST = 0.002
SCALES: dict[str, Callable[[int, int], float]] = {
    "rms": lambda rows, columns: math.sqrt(rows / columns),
    "torch": lambda rows, columns: math.sqrt(max(1.0, rows / columns)),
    "none": lambda rows, columns: 1.0,
}
NOT_MATRICES = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.RMSNorm)
GRIDS = {"muon": (0.04, 0.02, 0.08, 0.01), "adamw": (0.01, 0.005, 0.02, 0.0025)}  # best ones first
REST_LR = 0.003  # of AdamW for what Muon leaves to it
LOOK = 10  # steps between two looks at the test accuracy
Side = Annotated[int, Range(2, 64)]
Draws = Annotated[int, Range(10, 5000)]


@final
class Muon(GroupOptimizer):
    r"""Steps along the momentum with all its singular values set to 1.

    Args:
        params: Matrices, or groups of them; tensors of more axes, such as the weights of a
            convolution, count as matrices of their first axis by the others.
        lr: $\eta$.
        momentum: $\mu$.
        nesterov: Whether to step along $\nabla L+\mu M$ in place of $M$.
        scale: What the step is multiplied by: `"rms"` $\sqrt{d_{out}/d_{in}}$, `"torch"` the same
            but never below 1, `"none"` 1.
        method: How singular values are set to 1, of `orthogonalize`.

    Example:
        >>> W = nn.Parameter(torch.zeros(2, 2))
        >>> W.grad = torch.tensor([[3.0, 0.0], [0.0, 0.001]])
        >>> Muon([W], lr=0.1, method="svd").step()  # both directions move alike
        >>> W.detach() + 0.0
        tensor([[-0.1000,  0.0000],
                [ 0.0000, -0.1000]])
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: Positive = 0.02,
        momentum: Annotated[float, Range(0, 1, open="high")] = 0.95, *, nesterov: bool = False,
        scale: Literal["rms", "torch", "none"] = "rms", method: Method = "quintic",
    ) -> None:
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "nesterov": nesterov, "scale": scale, "method": method
        })

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take one more group of parameters, if all of them are matrices."""
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if p.ndim < 2:
                self.param_groups.pop()
                raise UsageError(
                    f"Muon: every parameter must be a matrix; got shape {tuple(p.shape)}. "
                    "Use split_parameters."
                )

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Take the gradients into the momentum and step along its singular directions."""
        mu, M = group["momentum"], self.memory(params, "momentum")
        torch._foreach_mul_(M, mu)
        torch._foreach_add_(M, gradients)
        ahead = torch._foreach_add(gradients, M, alpha=mu) if group["nesterov"] else M
        for p, along in zip(params, ahead, strict=True):
            step = _orthogonalized(along.flatten(1), group["method"])
            length = group["lr"] * SCALES[group["scale"]](*step.shape)
            p.add_(step.reshape(p.shape), alpha=-length)


@checked
def orthogonalize(
    M: Float[Tensor, "*B m n"], method: Method = "svd", *, steps: Count | None = None
) -> Float[Tensor, "*B m n"]:
    r"""Sets all singular values to 1: $UV^\top$ of $M=U\Sigma V^\top$.

    Singular values that are 0 stay 0, up to rounding: no direction is made up, and 0 gives 0.

    Shapes:
        M: (..., m, n), a matrix or several; returns the same

    Args:
        M: What is orthogonalized.
        method: `"svd"` is exact; `"cubic"` tends to it; `"quintic"` ends in [0.68, 1.21] where it
            starts from 0.002 of $\Vert M\Vert_F$ or more, and costs least.
        steps: How often the polynomial is applied; by default 30 times the cubic, 5 the quintic.

    Example:
        >>> M = torch.tensor([[0.0, 5.0], [0.1, 0.0]])
        >>> orthogonalize(M)
        tensor([[0., 1.],
                [1., 0.]])
        >>> orthogonalize(M, "quintic")
        tensor([[0.0000, 0.6966],
                [0.6818, 0.0000]])
    """
    if M.ndim < 2:
        raise refuse("orthogonalize", "M", "a matrix, or several", tuple(M.shape))
    return _orthogonalized(M, method, steps)


def _orthogonalized(M: Tensor, method: Method, steps: int | None = None) -> Tensor:
    """Set all singular values to 1."""
    X = M.to(torch.promote_types(M.dtype, torch.float32))
    largest = X.abs().amax(dim=(-2, -1), keepdim=True)
    X = X / largest.where(largest > 0, 1)  # so that squares neither overflow nor underflow
    if method == "svd":
        U, sigma, Vh = torch.linalg.svd(X, full_matrices=False)
        rounding = torch.finfo(X.dtype).eps * max(X.shape[-2:]) * sigma[..., :1]
        return ((U * (sigma > rounding)[..., None, :]) @ Vh).to(M.dtype)
    a, b, c, default = POLYNOMIALS[method]
    tall = X.shape[-2] > X.shape[-1]
    X = X.mT if tall else X  # the smaller of both Gram matrices
    X = X / torch.linalg.matrix_norm(X, keepdim=True).clamp(min=1)  # only that of 0 is below 1
    X = X.flatten(0, -3) if X.ndim > 3 else X
    sum_product = torch.addmm if X.ndim == 2 else torch.baddbmm
    for _ in range(steps or default):
        gram = X @ X.mT
        factor = sum_product(gram, gram, gram, beta=b, alpha=c)  # bG + cGG
        X = sum_product(X, factor, X, beta=a)  # aX + (bG + cGG)X
    return (X.mT if tall else X).reshape(M.shape).to(M.dtype)


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Splits the parameters of a model into matrices for Muon and the rest for AdamW.

    The rest are biases, gains, embeddings and the head: the matrix that was registered last, also
    where it is tied to an embedding.

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 3))
        >>> matrices, rest = split_parameters(model)
        >>> [tuple(p.shape) for p in matrices], [tuple(p.shape) for p in rest]
        ([(16, 8)], [(16,), (16,), (16,), (3, 16), (3,)])
    """
    others = {
        id(p) for module in model.modules() if isinstance(module, NOT_MATRICES)
        for p in module.parameters()
    }
    uses = [p for _, p in model.named_parameters(remove_duplicate=False) if p.ndim >= 2]
    others |= {id(p) for p in uses[-1:]}
    inner = {id(p) for p in uses} - others
    params = list(model.parameters())
    return [p for p in params if id(p) in inner], [p for p in params if id(p) not in inner]


@claim(control={"divide": "by the norm"}, source="Fan and Hoffman 1955, thm. 1")
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
        parts[f"distance, {m} x {n}"] = identical(distance, (before - 1).norm(dim=1))
        parts[f"rivals, {m} x {n}"] = at_least(
            others, distance.expand_as(others), slack=1e-12 * math.sqrt(m * n),
            why="a theorem; rounding of a norm",
        )
    return every(parts)


@claim(control={"step": "gradient"}, source="Fan and Hoffman 1955; Bernstein and Newhouse 2024")
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
        "gain": identical(found, nuclear).drawn(
            Series("other steps of norm 1, sorted", index, gains.sort().values, style="line"),
            Series("this step", [0, 100], [found / nuclear] * 2, "other"),
            Series("nuclear norm", [0, 100], [1, 1], "bound"),
            x="per cent of the other steps", y="first-order gain, as a share of the nuclear norm",
        ),
        "others": at_most(gains, float(found / nuclear), slack=1e-12, why="a theorem; rounding"),
        "feasible": at_most(torch.linalg.matrix_norm(P, 2), 1, slack=1e-12, why="rounding"),
    })


@claim(control={"steps": 1}, source="Jordan et al. 2024")
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


@claim(control={"method": "quintic"}, source="Higham 1986, for Newton's method; a fixed point at 1")
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
    })


@claim(control={"optimizer": "SGD"}, source="Jordan et al. 2024, on why it works")
def rare_directions_amplified(
    seed: Seed, *, side: Side = 16, rarest: Annotated[float, Range(5e-5, 5e-4)] = 1e-4,
    lr: Annotated[float, Range(0.02, 0.1)] = 0.02, optimizer: Literal["Muon", "SGD"] = "Muon",
) -> Evidence:
    r"""However unequal the gradient's directions, the step's are equal: rare ones are learned."""
    rng, variances = seed.torch(), torch.logspace(0, math.log10(rarest), side, dtype=torch.float64)
    target, V = (_semi_orthogonal(randn(rng, side, side)) for _ in range(2))
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
    ours, plain = rarest_errors(kind, halved // 10), rarest_errors(descent, 100)
    shown = torch.tensor(np.unique(np.geomspace(1, halved, 200).astype(int)))
    return every({
        "condition number": at_most(
            step[0] / step[-1], 1 + 1e-8, why=f"rounding, over the smallest of {rarest:g}"
        ),
        "steps to half the error": at_most(
            len(ours) - 1, halved / 50, why="1/(2 lr) steps against ln 2 / rarest"
        ),
        "law of gradient descent": identical(
            plain, (1 - rarest) ** torch.arange(101, dtype=plain.dtype)
        ),
    }).drawn(
        Series(optimizer, range(1, len(ours)), ours[1:], style="line"),
        Series("gradient descent, 1/L", shown, (1 - rarest) ** shown, "other"),
        Series("half", [1, halved], [0.5, 0.5], "bound"),
        x="step", y="error in the rarest direction", log="x",
    )


@claim(control={"scale": "none"}, source="Bernstein and Newhouse 2024, sec. 3")
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
    return identical(norms, torch.ones_like(norms)).drawn(
        Series("measured", words, norms[:, -1]), Series("1", words, [1] * 4, "predicted"),
        x="shape of the weight", y="RMS-to-RMS norm of the step, over lr",
    )


@claim(control={"wide": True}, source="Jordan et al. 2024; torch.optim.Muon")
def torch_muon_agrees(
    seed: Seed, *, rows: Annotated[int, Range(128, 256)] = 128,
    columns: Annotated[int, Range(32, 64)] = 32, steps: Annotated[int, Range(2, 100)] = 50,
    momentum: Annotated[float, Range(0, 0.99)] = 0.5, wide: bool = False,
) -> Evidence:
    r"""For tall matrices `torch.optim.Muon` steps alike, up to bfloat16 and its quintic."""
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
    matrices, _ = split_parameters(MLP([columns, rows, 3], rng=seed.torch()))
    parts["matrices of a network"] = equal(
        sum(p.numel() for p in matrices), rows * columns, tol=0, why="its one inner matrix"
    )
    t, (cosine, length) = range(1, steps + 1), pictures[0]
    return every(parts).drawn(
        Series("cosine", t, cosine), Series("quotient of lengths", t, length, "other"),
        Series("0.98 for the cosine", [1, steps], [0.98] * 2, "bound"),
        x="step", y="step of torch.optim.Muon against UVᵀ",
    )


@experiment(
    reaches={"ratio": at_most_goal(1.0)},
    floor={"accuracy": at_least_goal(0.95)},
    source="Jordan et al. (2024) need fewer steps than with AdamW to a given loss; to beat is "
    "AdamW on the same network, both with the best of four learning rates",
)
def muon_vs_adamw(
    run: Run, *, batch_size: Annotated[int, Range(50, 2000)] = 500,
    seeds: Annotated[int, Range(2, 10)] = 3,
) -> None:
    """Counts the steps to 97.5 % test accuracy with Muon and with AdamW, learning rates tuned."""
    x, y, x_test, y_test = handwriting(run)
    x, x_test = x.flatten(1), x_test.flatten(1)
    target, epochs = (0.975, 6) if run.full else (0.95, 10)
    batch_size = batch_size if run.full else 100
    most, models = epochs * math.ceil(len(x) / batch_size), {}

    def reached(kind: str, lr: float, number: int, most: int) -> float:
        """Train until the target is reached; infinite if that takes more steps than these."""
        model = MLP([x.shape[1], 256, 256, 10], rng=run.seed.child(f"init {number}").torch())
        matrices, rest = split_parameters(model)
        optimizer: Optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        if kind == "muon":
            optimizer = _Together(Muon(matrices, lr=lr), torch.optim.AdamW(rest, lr=REST_LR))
        history = fit(
            model, (x, y), Supervised(F.cross_entropy), optimizer, steps=most,
            batch_size=batch_size, parts=[_Finish((x_test, y_test), target, stop=run.full)],
            seed=run.seed.child(f"order {number}"), run=run, name=f"{kind}-{lr:g}-{number}",
        ).history
        models[kind, lr, number] = model
        return next((row["reached"] for row in history if "reached" in row), math.inf)

    tuned: dict[str, dict[float, float]] = {kind: {} for kind in GRIDS}
    for kind, grid in GRIDS.items():
        for lr in grid if run.full else grid[-1:]:  # quick takes the calmest
            limit = min([most, *tuned[kind].values()])  # who is behind the best so far may stop
            tuned[kind][lr] = reached(kind, lr, 0, int(limit))
    best = {kind: min(found, key=found.__getitem__) for kind, found in tuned.items()}
    counts = {
        kind: [tuned[kind][lr], *(reached(kind, lr, number, most)
               for number in range(1, seeds if run.full else 1))]
        for kind, lr in best.items()
    }
    run.keep(model := models["muon", best["muon"], 0])
    # one that never arrives takes more than all steps: AdamW is counted too well, never Muon
    logs = np.log(counts["muon"]) - np.log(np.minimum(counts["adamw"], most))
    run.record(
        accuracy=evaluate(model, (x_test, y_test), {"accuracy": accuracy})["accuracy"],
        ratio=math.exp(logs.mean()), muon_lr=best["muon"], adamw_lr=best["adamw"],
        muon_steps=float(np.mean(counts["muon"])), adamw_steps=float(np.mean(counts["adamw"])),
    )
    if len(logs) > 1:
        half = float(stats.t.ppf(0.975, len(logs) - 1)) * logs.std(ddof=1) / math.sqrt(len(logs))
        run.record(ratio_low=math.exp(logs.mean() - half), ratio_high=math.exp(logs.mean() + half))
    words = [f"start {number + 1}" for number in range(len(logs))]
    run.figure("steps", figures.draw(Picture((
        Series("Muon", words, counts["muon"], style="bars"),
        Series("AdamW", words, counts["adamw"], "other", "bars"),
    ), "", f"steps to {target:.1%} test accuracy")))
    run.figure("spectra", _spectra(model, x[:5000], y[:5000], batch_size))


def _moves(kind: Callable[..., Optimizer], gradients: Tensor) -> Tensor:
    """Give an optimizer one gradient after the other, (T, ..), and collect its moves."""
    W = nn.Parameter(torch.zeros_like(gradients[0]))
    optimizer, points = kind([W]), [W.detach().clone()]
    for one in gradients:
        W.grad = one
        optimizer.step()
        points.append(W.detach().clone())
    return torch.stack(points).diff(dim=0)


def _in_bfloat16(kind: Callable[..., Optimizer], gradients: Tensor) -> Tensor:
    """Collect moves without oneDNN: where AMX is named but forbidden, its products are fatal."""
    before = torch.backends.mkldnn.set_flags(_enabled=False)[0]
    try:
        return _moves(kind, gradients)
    finally:
        torch.backends.mkldnn.set_flags(_enabled=before)


def _semi_orthogonal(M: Tensor) -> Tensor:
    """Orthonormalize the rows or columns, whichever are fewer, by QR; near M if M is near one."""
    wide = M.shape[-2] < M.shape[-1]
    Q, R = torch.linalg.qr(M.mT if wide else M)
    Q = Q * R.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]
    return Q.mT if wide else Q


def _diagonals(smallest: float, count: int) -> tuple[Tensor, Tensor]:
    """Give pairs of singular values with squares that sum to 1, and matrices that have them."""
    sigma = torch.logspace(math.log10(smallest), 0, count, dtype=torch.float64)
    sigma[0], sigma[-1] = smallest, 1.0
    pairs = torch.stack([sigma, (1 - sigma**2).sqrt()], dim=1)
    return pairs, torch.diag_embed(pairs)


@final
class _Together(Optimizer):
    """Several optimizers, each of its own parameters, that step as one."""

    def __init__(self, *parts: Optimizer) -> None:
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.parts, self.defaults = parts, {"parts": [part.defaults for part in parts]}
        self._share()

    def step(self, closure: Any = None) -> Any:  # type: ignore[override]
        loss = None if closure is None else torch.enable_grad()(closure)()
        for part in self.parts:
            part.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()

    def _share(self) -> None:
        groups = iter(self.param_groups)
        for part in self.parts:
            part.state = self.state
            part.param_groups = list(itertools.islice(groups, len(part.param_groups)))


@final
class _Finish(Part):
    """Looks at the test accuracy every few steps, and notes when it reaches a target."""

    def __init__(self, data: tuple[Tensor, Tensor], target: float, *, stop: bool) -> None:
        self.data, self.target, self.stop = data, target, stop
        self._step = self._reached = 0

    def after_step(self, model: nn.Module) -> None:
        self._step += 1
        if not self._reached and self._step % LOOK == 0:
            found = evaluate(model, self.data, {"accuracy": accuracy})["accuracy"]
            self._reached = self._step if found >= self.target else 0

    def after_epoch(self, model: nn.Module, row: dict[str, float]) -> str:
        if not self._reached:
            return ""
        row["reached"] = self._reached
        return "the target was reached" if self.stop else ""

    def state_dict(self) -> dict[str, Any]:
        return {"step": self._step, "reached": self._reached}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._step, self._reached = state["step"], state["reached"]


def _spectra(model: MLP, x: Tensor, y: Tensor, batch_size: int) -> Any:
    """Draw the singular values of gradient, momentum and step of an inner layer, at its weights."""
    W, momentum, mu = model.layers[1].weight, torch.zeros_like(model.layers[1].weight), 0.95
    gradient = momentum
    for batch in zip(x.split(batch_size), y.split(batch_size), strict=True):
        gradient = torch.autograd.grad(F.cross_entropy(model(batch[0]), batch[1]), W)[0]
        momentum = mu * momentum + gradient
    spectra = {
        "gradient": gradient, "momentum": momentum, "step": orthogonalize(momentum, "quintic")
    }
    curves = []
    for (name, matrix), role in zip(spectra.items(), ("other", "other", "measured"), strict=True):
        sigma = torch.linalg.svdvals(matrix)
        shown = (sigma / sigma[0]).clamp(min=1e-7)  # below is rounding
        curves.append(Series(name, range(1, len(shown) + 1), shown, role, "line"))
    return figures.draw(Picture(
        tuple(curves), "number of the singular value", "singular value, over the largest", "y"
    ))
